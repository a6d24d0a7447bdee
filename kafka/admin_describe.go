package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/IBM/sarama"

	"delay-scheduler/offset"
)

// Operations are what the cluster lets us do with something, by Kafka's names for them
// (READ, WRITE, DESCRIBE_CONFIGS and so on). Nil: the broker does not say.
type Operations []string

// operationNames are Kafka's, by the bit that stands for them.
var operationNames = map[int]string{
	3: "READ", 4: "WRITE", 5: "CREATE", 6: "DELETE", 7: "ALTER", 8: "DESCRIBE",
	9: "CLUSTER_ACTION", 10: "DESCRIBE_CONFIGS", 11: "ALTER_CONFIGS", 12: "IDEMPOTENT_WRITE",
}

// operations reads a bit field. The least number is Kafka's word for: not told; 0 is
// what those say that do not know the question, since who may see a thing may do
// something with it.
func operations(bits int32) Operations {
	const untold = -1 << 31
	if bits == untold || bits == 0 {
		return nil
	}
	ops := Operations{}
	for _, bit := range slices.Sorted(maps.Keys(operationNames)) {
		if bits&(1<<bit) != 0 {
			ops = append(ops, operationNames[bit])
		}
	}
	return ops
}

// TopicState is what the cluster says of one topic.
type TopicState struct {
	ID         offset.TopicID
	Partitions []PartitionState // by id
	Operations Operations
	Err        error // ErrUnknownTopic, or why it cannot be described
}

// PartitionState is one partition of it.
type PartitionState struct {
	ID               int32
	Leader           int32 // -1: none
	Replicas, InSync int
}

// DescribeTopics describes the named topics; each that does not exist, or is not ours
// to see, has an error of its own.
func (a *Admin) DescribeTopics(ctx context.Context, names ...string) (map[string]TopicState, error) {
	states := make(map[string]TopicState, len(names))
	if len(names) == 0 {
		return states, nil // an empty list would mean all
	}
	req := sarama.NewMetadataRequest(a.conf.Version, names)
	req.IncludeTopicAuthorizedOperations = req.Version >= 8
	var resp *sarama.MetadataResponse
	err := a.lookup.ask(ctx, func(b *sarama.Broker) (err error) {
		resp, err = b.GetMetadata(req)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("describe topics: %w", unreachable(err))
	}
	for _, t := range resp.Topics {
		states[t.Name] = stateOf(t)
	}
	for _, name := range names {
		if _, ok := states[name]; !ok {
			states[name] = TopicState{Err: ErrUnknownTopic}
		}
	}
	return states, nil
}

func stateOf(t *sarama.TopicMetadata) TopicState {
	s := TopicState{ID: offset.TopicID(t.Uuid), Operations: operations(t.TopicAuthorizedOperations), Err: kafkaError(t.Err)}
	switch {
	case errors.Is(s.Err, sarama.ErrUnknownTopicOrPartition):
		s.Err = ErrUnknownTopic
	case errors.Is(s.Err, sarama.ErrLeaderNotAvailable) && len(t.Partitions) > 0:
		s.Err = nil // the partitions say which
	}
	for _, p := range t.Partitions {
		state := PartitionState{ID: p.ID, Leader: p.Leader, Replicas: len(p.Replicas), InSync: len(p.Isr)}
		if errors.Is(p.Err, sarama.ErrLeaderNotAvailable) {
			state.Leader = -1
		}
		s.Partitions = append(s.Partitions, state)
	}
	slices.SortFunc(s.Partitions, func(x, y PartitionState) int { return int(x.ID - y.ID) })
	return s
}

// ClusterOperations are what we may do with the cluster itself.
func (a *Admin) ClusterOperations(ctx context.Context) (Operations, error) {
	req := sarama.NewDescribeClusterRequest(a.conf.Version)
	req.IncludeClusterAuthorizedOperations = true
	var resp *sarama.DescribeClusterResponse
	err := a.lookup.ask(ctx, func(b *sarama.Broker) (err error) {
		resp, err = b.DescribeCluster(req)
		if errors.Is(err, sarama.ErrUnsupportedVersion) {
			return refusal{err} // another broker would not know it either
		}
		return err
	})
	if err == nil {
		err = kafkaError(resp.Err)
	}
	if err != nil {
		return nil, fmt.Errorf("describe the cluster: %w", err)
	}
	return operations(resp.ClusterAuthorizedOperations), nil
}
