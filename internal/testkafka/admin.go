package testkafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// adminPatience is for one thing asked of a broker on a busy machine.
	adminPatience = 90 * time.Second
	// nodePatience is for an answer of one node, which may be frozen.
	nodePatience = 2 * time.Second
	// pollPause is between two looks at something that changes by itself.
	pollPause = 20 * time.Millisecond
)

// admin asks a broker for what tests ask, and waits until every node knows it: a client
// may ask any of them next, and one that lags would still tell it the old.
type admin struct {
	client *kgo.Client
	*kadm.Client
	alive func(i int) bool // whether the node at the i-th address can answer
}

func newAdmin(addrs []string, alive func(i int) bool, opts ...kgo.Opt) (*admin, error) {
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(addrs...),
		kgo.RetryBackoffFn(func(int) time.Duration { return pollPause }),
		kgo.MetadataMinAge(pollPause),
	}, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to %v: %w", addrs, err)
	}
	return &admin{client: client, Client: kadm.NewClient(client), alive: alive}, nil
}

func everyNode(int) bool { return true }

// nodes are those that can answer.
func (a *admin) nodes() []kmsg.Requestor {
	var nodes []kmsg.Requestor
	for i, seed := range a.client.SeedBrokers() { // In the order of the addresses.
		if a.alive(i) {
			nodes = append(nodes, seed)
		}
	}
	return nodes
}

func (a *admin) close() { a.client.Close() }

func (a *admin) createTopic(ctx context.Context, name string, partitions int, configs map[string]string) error {
	err := a.whenCounted(ctx, func() error {
		_, err := a.CreateTopic(ctx, int32(partitions), -1, pointers(configs), name)
		return err
	})
	if err != nil {
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	return a.awaitPartitions(ctx, name, partitions)
}

// whenCounted creates something that needs nodes, again as long as one of them was away
// and the controller does not count it yet, which it tells by these two errors. One that
// resigns may have created it all the same, and the client then asks the next one.
func (a *admin) whenCounted(ctx context.Context, create func() error) error {
	for {
		err := create()
		if errors.Is(err, kerr.TopicAlreadyExists) {
			return nil // Names are unique; the caller waits until it has its partitions.
		}
		if !errors.Is(err, kerr.InvalidReplicaAssignment) && !errors.Is(err, kerr.InvalidReplicationFactor) {
			return err
		}
		if late := pause(ctx); late != nil {
			return fmt.Errorf("%w: %w", late, err)
		}
	}
}

func (a *admin) createTopicOn(ctx context.Context, name string, replicas [][]int32, configs map[string]string) error {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic = name
	topic.NumPartitions, topic.ReplicationFactor = -1, -1
	for partition, nodes := range replicas {
		assignment := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		assignment.Partition = int32(partition)
		assignment.Replicas = nodes
		topic.ReplicaAssignment = append(topic.ReplicaAssignment, assignment)
	}
	for key, value := range configs {
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name, config.Value = key, new(value)
		topic.Configs = append(topic.Configs, config)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = int32(adminPatience.Milliseconds())
	req.Topics = append(req.Topics, topic)
	err := a.whenCounted(ctx, func() error {
		resp, err := req.RequestWith(ctx, a.client)
		if err == nil && len(resp.Topics) == 1 {
			err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("create topic %s on %v: %w", name, replicas, err)
	}
	return a.awaitPartitions(ctx, name, len(replicas))
}

func (a *admin) deleteTopic(ctx context.Context, name string) error {
	if _, err := a.DeleteTopic(ctx, name); err != nil {
		return fmt.Errorf("delete topic %s: %w", name, err)
	}
	return a.await(ctx, name, func(t kmsg.MetadataResponseTopic) bool {
		return t.ErrorCode == kerr.UnknownTopicOrPartition.Code
	})
}

func (a *admin) addPartitions(ctx context.Context, name string, total int) error {
	resp, err := a.UpdatePartitions(ctx, total, name)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		return fmt.Errorf("give topic %s %d partitions: %w", name, total, err)
	}
	return a.awaitPartitions(ctx, name, total)
}

func (a *admin) awaitPartitions(ctx context.Context, name string, partitions int) error {
	return a.await(ctx, name, func(t kmsg.MetadataResponseTopic) bool {
		led := 0
		for _, p := range t.Partitions {
			if p.ErrorCode == 0 && p.Leader >= 0 {
				led++
			}
		}
		return led == partitions
	})
}

// await polls until every node sees the topic so.
func (a *admin) await(ctx context.Context, name string, so func(kmsg.MetadataResponseTopic) bool) error {
	err := a.agree(ctx, func(node kmsg.Requestor) error {
		topic, err := describe(ctx, node, name)
		if err == nil && !so(topic) {
			err = fmt.Errorf("%d partitions, %w", len(topic.Partitions), kerr.ErrorForCode(topic.ErrorCode))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("wait until every node knows topic %s as it is now: %w", name, err)
	}
	return nil
}

// agree polls until no node that can answer objects.
func (a *admin) agree(ctx context.Context, objection func(kmsg.Requestor) error) error {
	for {
		var problem error
		for _, node := range a.nodes() {
			if err := objection(node); err != nil {
				problem = err
				break
			}
		}
		if problem == nil {
			return nil
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("%w: %w", err, problem)
		}
	}
}

func describe(ctx context.Context, node kmsg.Requestor, name string) (kmsg.MetadataResponseTopic, error) {
	ctx, cancel := context.WithTimeout(ctx, nodePatience)
	defer cancel()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = new(name)
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, node)
	if err != nil {
		return kmsg.MetadataResponseTopic{}, err
	}
	if len(resp.Topics) != 1 {
		return kmsg.MetadataResponseTopic{}, fmt.Errorf("%d answers about topic %s", len(resp.Topics), name)
	}
	return resp.Topics[0], nil
}

// leader asks the first node that answers, and never what the client remembers.
func (a *admin) leader(ctx context.Context, topic string, partition int32) (leader int32, err error) {
	leader = -1
	err = a.first(func(node kmsg.Requestor) error {
		detail, err := describe(ctx, node, topic)
		for _, p := range detail.Partitions {
			if p.Partition == partition && p.ErrorCode == 0 {
				leader = p.Leader
			}
		}
		return err
	})
	if err != nil {
		return -1, fmt.Errorf("ask for the leader of %s/%d: %w", topic, partition, err)
	}
	return leader, nil
}

func (a *admin) coordinator(ctx context.Context, group string) (coordinator int32, err error) {
	err = a.first(func(node kmsg.Requestor) (err error) {
		coordinator, err = coordinatorSeenBy(ctx, node, group)
		return err
	})
	if err != nil {
		return -1, fmt.Errorf("ask for the coordinator of %s: %w", group, err)
	}
	return coordinator, nil
}

// first asks one node after the other until one has answered.
func (a *admin) first(ask func(kmsg.Requestor) error) error {
	err := errors.New("no node runs")
	for _, node := range a.nodes() {
		if err = ask(node); err == nil {
			return nil
		}
	}
	return err
}

// coordinatorSeenBy is -1 when the node knows none.
func coordinatorSeenBy(ctx context.Context, node kmsg.Requestor, group string) (int32, error) {
	ctx, cancel := context.WithTimeout(ctx, nodePatience)
	defer cancel()
	resp, err := findCoordinator(ctx, node, group)
	switch {
	case err == nil:
		return resp, nil
	case errors.Is(err, kerr.CoordinatorNotAvailable):
		return -1, nil
	default:
		return -1, err
	}
}

// findCoordinator asks in the words of every version of the request.
func findCoordinator(ctx context.Context, node kmsg.Requestor, group string) (int32, error) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey = group
	req.CoordinatorKeys = []string{group}
	resp, err := req.RequestWith(ctx, node)
	if err != nil {
		return -1, err
	}
	id, code := resp.NodeID, resp.ErrorCode
	for _, c := range resp.Coordinators {
		id, code = c.NodeID, c.ErrorCode
	}
	return id, kerr.ErrorForCode(code)
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pollPause):
		return nil
	}
}

func pointers(configs map[string]string) map[string]*string {
	out := make(map[string]*string, len(configs))
	for key, value := range configs {
		out[key] = &value
	}
	return out
}
