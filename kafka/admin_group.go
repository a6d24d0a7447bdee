package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/IBM/sarama"
)

// Committed is what a group has stored for a partition.
type Committed struct {
	Offset   int64 // -1: nothing
	Metadata string
}

// Committed reads what a group has stored for all partitions of some topics. A group
// that never was has stored nothing. The error is ErrUnknownTopic if one of the topics
// does not exist.
func (a *Admin) Committed(ctx context.Context, group string, topics ...string) (map[string]map[int32]Committed, error) {
	var places []place
	for _, name := range topics {
		t, _, err := a.topic(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("look up topic %s: %w", name, err)
		}
		for p := range t.partitions {
			places = append(places, place{name, p})
		}
	}
	found, err := a.committedAt(ctx, group, places)
	if err != nil {
		return nil, fmt.Errorf("read the offsets of group %s: %w", group, err)
	}
	all := make(map[string]map[int32]Committed, len(topics))
	for _, p := range places {
		if all[p.topic] == nil {
			all[p.topic] = make(map[int32]Committed)
		}
		c, ok := found[p]
		if !ok {
			c.offset = -1
		}
		all[p.topic][p.partition] = Committed{Offset: c.offset, Metadata: c.metadata}
	}
	return all, nil
}

// committedAt asks the group's coordinator, until offsets that a transaction has
// pending are decided and the coordinator has loaded the group.
func (a *Admin) committedAt(ctx context.Context, group string, places []place) (map[place]committedOffset, error) {
	coordinator := &groupCoordinator{config: a.conf, group: group, lookup: a.lookup}
	defer coordinator.close()
	for n := 1; ; n++ {
		found, err := coordinator.offsets(ctx, places)
		if errors.Is(err, sarama.ErrGroupIDNotFound) {
			return nil, nil
		}
		again := coordinatorMoved(err) || coordinatorBusy(err) || errors.Is(err, sarama.ErrUnstableOffsetCommit)
		if err == nil || !again || n == settleTries || !pause(ctx, settlePause) {
			return found, err
		}
	}
}

// Commit stores offsets for a group that has no members. A group that has some takes
// commits from them alone.
func (a *Admin) Commit(ctx context.Context, group string, commits map[string]map[int32]Committed) error {
	req := &sarama.OffsetCommitRequest{Version: 7, ConsumerGroup: group, ConsumerGroupGeneration: sarama.GroupGenerationUndefined}
	for topic, partitions := range commits {
		for p, c := range partitions {
			req.AddBlockWithLeaderEpoch(topic, p, c.Offset, -1, 0, c.Metadata)
		}
	}
	var resp *sarama.OffsetCommitResponse
	err := a.atCoordinator(ctx, group, func(b *sarama.Broker) (err error) {
		if resp, err = b.CommitOffset(req); err != nil {
			return err
		}
		for topic, partitions := range commits {
			for p := range partitions {
				code, ok := resp.Errors[topic][p]
				if !ok {
					return sarama.ErrIncompleteResponse
				}
				if err := kafkaError(code); err != nil {
					return fmt.Errorf("%s/%d: %w", topic, p, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("commit to group %s: %w", group, err)
	}
	return nil
}

// ErrNoInstance says that a group has no member of an instance id.
var ErrNoInstance = errors.New("the group has no static member of that instance id")

// RemoveInstance removes a static member from a group, which then shares out its
// partitions at once instead of after the session timeout. The error is ErrNoInstance if
// there is none.
func (a *Admin) RemoveInstance(ctx context.Context, group, instance string) error {
	req := &sarama.LeaveGroupRequest{
		Version: 3, GroupId: group,
		Members: []sarama.MemberIdentity{{GroupInstanceId: &instance}},
	}
	err := a.atCoordinator(ctx, group, func(b *sarama.Broker) error {
		resp, err := b.LeaveGroup(req)
		if err != nil {
			return err
		}
		if err := kafkaError(resp.Err); err != nil {
			return err
		}
		if len(resp.Members) != 1 {
			return sarama.ErrIncompleteResponse
		}
		return kafkaError(resp.Members[0].Err)
	})
	if errors.Is(err, sarama.ErrUnknownMemberId) || errors.Is(err, sarama.ErrGroupIDNotFound) {
		err = ErrNoInstance
	}
	if err != nil {
		return fmt.Errorf("remove instance %s from group %s: %w", instance, group, err)
	}
	return nil
}

// atCoordinator puts a question to the group's coordinator until it is one that has
// loaded the group.
func (a *Admin) atCoordinator(ctx context.Context, group string, question func(*sarama.Broker) error) error {
	coordinator := &groupCoordinator{config: a.conf, group: group, lookup: a.lookup}
	defer coordinator.close()
	for n := 1; ; n++ {
		var answered error
		_, err := coordinator.do(ctx, requestTimeout, func(b *sarama.Broker) error {
			answered = question(b)
			if isTransport(answered) {
				return answered
			}
			return nil
		})
		if err == nil {
			err = answered
		}
		moved := coordinatorMoved(err)
		if moved {
			coordinator.lost()
		}
		if err == nil || !(moved || coordinatorBusy(err)) || n == settleTries || !pause(ctx, settlePause) {
			return err
		}
	}
}
