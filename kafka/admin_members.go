package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/IBM/sarama"
)

// GroupState is what its coordinator says of a group.
type GroupState struct {
	State    string // Kafka's word for it; Dead or empty: there is no such group
	Type     string // consumer, or what else uses the group protocol
	Protocol string // how partitions are shared out
	// Next says that the group has the protocol of KIP-848.
	Next       bool
	Members    []GroupMember
	Operations Operations
}

// GroupMember is one member of a group.
type GroupMember struct{ ID, InstanceID, ClientID, Host string }

// DescribeGroup describes a group.
func (a *Admin) DescribeGroup(ctx context.Context, group string) (GroupState, error) {
	coordinator := &groupCoordinator{config: a.conf, group: group, lookup: a.lookup}
	defer coordinator.close()
	for n := 1; ; n++ {
		state, err := describeGroup(ctx, coordinator)
		if err == nil || !coordinatorMoved(err) && !coordinatorBusy(err) || n == settleTries || !pause(ctx, settlePause) {
			if err != nil {
				err = fmt.Errorf("describe group %s: %w", group, forbidden(err))
			}
			return state, err
		}
	}
}

func describeGroup(ctx context.Context, c *groupCoordinator) (GroupState, error) {
	req := &sarama.DescribeGroupsRequest{Version: 4, Groups: []string{c.group}, IncludeAuthorizedOperations: true}
	var resp *sarama.DescribeGroupsResponse
	_, err := c.do(ctx, offsetsTimeout, func(b *sarama.Broker) (err error) {
		resp, err = b.DescribeGroups(req)
		return err
	})
	switch {
	case err != nil:
		return GroupState{}, err
	case len(resp.Groups) != 1:
		return GroupState{}, sarama.ErrIncompleteResponse
	}
	g := resp.Groups[0]
	if err := kafkaError(g.Err); err != nil && !errors.Is(err, sarama.ErrGroupIDNotFound) {
		if coordinatorMoved(err) {
			c.lost()
		}
		return GroupState{}, err
	}
	state := GroupState{State: g.State, Type: g.ProtocolType, Protocol: g.Protocol, Operations: operations(g.AuthorizedOperations)}
	for _, m := range g.Members {
		member := GroupMember{ID: m.MemberId, ClientID: m.ClientId, Host: m.ClientHost}
		if m.GroupInstanceId != nil {
			member.InstanceID = *m.GroupInstanceId
		}
		state.Members = append(state.Members, member)
	}
	if state.State == "" || state.State == "Dead" {
		// A group of the newer protocol looks like none to this request.
		state.Next = isNextGroup(ctx, c)
	}
	return state, nil
}

// isNextGroup asks for a group of the protocol of KIP-848. A broker that does not know
// the request has none.
func isNextGroup(ctx context.Context, c *groupCoordinator) bool {
	req := sarama.NewConsumerGroupDescribeRequest(c.config.Version)
	req.GroupIDs = []string{c.group}
	var resp *sarama.ConsumerGroupDescribeResponse
	_, err := c.do(ctx, offsetsTimeout, func(b *sarama.Broker) (err error) {
		resp, err = b.ConsumerGroupDescribe(req)
		return err
	})
	return err == nil && len(resp.Groups) == 1 && errors.Is(resp.Groups[0].ErrorCode, sarama.ErrNoError)
}
