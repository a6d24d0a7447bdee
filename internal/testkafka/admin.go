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
	adminPatience = 30 * time.Second
	// nodePatience is for an answer of one node, which may be frozen.
	nodePatience = 2 * time.Second
	// pollPause is between two looks at something that changes by itself.
	pollPause = 20 * time.Millisecond
)

// admin asks a broker for what tests ask, and waits until every node knows it.
type admin struct {
	client *kgo.Client
	*kadm.Client
}

func newAdmin(addrs []string, opts ...kgo.Opt) (*admin, error) {
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(addrs...),
		kgo.RetryBackoffFn(func(int) time.Duration { return pollPause }),
		kgo.MetadataMinAge(pollPause),
	}, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to %v: %w", addrs, err)
	}
	return &admin{client: client, Client: kadm.NewClient(client)}, nil
}

func (a *admin) close() { a.client.Close() }

func (a *admin) createTopic(ctx context.Context, name string, partitions int, configs map[string]string) error {
	_, err := a.CreateTopic(ctx, int32(partitions), -1, pointers(configs), name)
	if err != nil {
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	return a.awaitPartitions(ctx, name, partitions)
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
		config.Name, config.Value = key, kmsg.StringPtr(value)
		topic.Configs = append(topic.Configs, config)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = int32(adminPatience.Milliseconds())
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, a.client)
	if err == nil && len(resp.Topics) == 1 {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
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

// await polls until every node that answers sees the topic so.
func (a *admin) await(ctx context.Context, name string, so func(kmsg.MetadataResponseTopic) bool) error {
	for {
		answers, agree := 0, 0
		for _, node := range a.client.SeedBrokers() {
			topic, err := describe(ctx, node, name)
			if err != nil {
				continue // A node that is down or frozen has nothing to say.
			}
			answers++
			if so(topic) {
				agree++
			}
		}
		if answers > 0 && answers == agree {
			return nil
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("wait until every node knows topic %s as it is now: %w", name, err)
		}
	}
}

func describe(ctx context.Context, node kmsg.Requestor, name string) (kmsg.MetadataResponseTopic, error) {
	ctx, cancel := context.WithTimeout(ctx, nodePatience)
	defer cancel()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = kmsg.StringPtr(name)
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
func (a *admin) leader(ctx context.Context, topic string, partition int32) (int32, error) {
	var problems []error
	for _, node := range a.client.SeedBrokers() {
		detail, err := describe(ctx, node, topic)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		for _, p := range detail.Partitions {
			if p.Partition == partition && p.ErrorCode == 0 {
				return p.Leader, nil
			}
		}
		return -1, nil
	}
	return -1, fmt.Errorf("ask for the leader of %s/%d: %w", topic, partition, errors.Join(problems...))
}

func (a *admin) coordinator(ctx context.Context, group string) (int32, error) {
	resp := a.FindGroupCoordinators(ctx, group)[group]
	switch {
	case resp.Err == nil:
		return resp.NodeID, nil
	case errors.Is(resp.Err, kerr.CoordinatorNotAvailable):
		return -1, nil
	default:
		return -1, fmt.Errorf("ask for the coordinator of %s: %w", group, resp.Err)
	}
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
