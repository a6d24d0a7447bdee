package kafka

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/IBM/sarama"

	"delay-scheduler/offset"
)

// metadata is what one broker said about the cluster.
type metadata struct {
	clusterID  string
	controller int32
	brokers    map[int32]string // addresses by id
	topics     map[string]topicMetadata
}

// topicMetadata is one topic's part of it. err is the topic's own (unknown,
// unauthorised) and does not touch the other topics of the same answer.
type topicMetadata struct {
	err        error // nil or a sarama.KError
	id         offset.TopicID
	internal   bool
	partitions map[int32]partitionMetadata
}

// partitionMetadata is one partition's part of it.
type partitionMetadata struct {
	err      error // nil or a sarama.KError
	leader   int32 // -1: none
	replicas []int32
	inSync   []int32
}

// metadata asks about exactly the named topics, once, or about all if none is named.
// Unlike the library's client it remembers no names and retries no topic: one that
// does not exist, has no leader or is not ours to see costs nothing but its own
// error. The error returned says that no broker could be asked.
func (l *lookup) metadata(ctx context.Context, topics ...string) (*metadata, error) {
	var m *metadata
	err := l.ask(ctx, func(b *sarama.Broker) error {
		resp, err := b.GetMetadata(sarama.NewMetadataRequest(l.config.Version, topics))
		if err != nil {
			return err
		}
		if len(resp.Brokers) == 0 {
			return errors.New("the broker is starting and knows nothing yet")
		}
		l.learn(resp.Brokers)
		m = readMetadata(resp)
		return nil
	})
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		return nil, unreachable(err)
	}
	return m, nil
}

// unreachable makes one line of the error of a question that no broker answered, and
// says what to do about it.
func unreachable(err error) error {
	var several interface{ Unwrap() []error }
	errs := []error{err}
	if errors.As(err, &several) {
		errs = several.Unwrap()
	}
	var causes []string
	named := true
	for _, cause := range errs {
		var told *transportError
		named = named && errors.As(cause, &told) && told.named
		if text := cause.Error(); !slices.Contains(causes, text) {
			causes = append(causes, text)
		}
	}
	text := strings.Join(causes, "; ")
	if !named {
		text += ": check kafka.brokers"
	}
	return &transportError{text: text, named: true, err: err}
}

func readMetadata(resp *sarama.MetadataResponse) *metadata {
	m := &metadata{
		controller: resp.ControllerID,
		brokers:    make(map[int32]string, len(resp.Brokers)),
		topics:     make(map[string]topicMetadata, len(resp.Topics)),
	}
	if resp.ClusterID != nil {
		m.clusterID = *resp.ClusterID
	}
	for _, b := range resp.Brokers {
		m.brokers[b.ID()] = b.Addr()
	}
	for _, t := range resp.Topics {
		m.topics[t.Name] = readTopic(t)
	}
	return m
}

func readTopic(t *sarama.TopicMetadata) topicMetadata {
	tm := topicMetadata{
		err:        kafkaError(t.Err),
		id:         offset.TopicID(t.Uuid),
		internal:   t.IsInternal,
		partitions: make(map[int32]partitionMetadata, len(t.Partitions)),
	}
	for _, p := range t.Partitions {
		tm.partitions[p.ID] = partitionMetadata{err: kafkaError(p.Err), leader: p.Leader, replicas: p.Replicas, inSync: p.Isr}
	}
	return tm
}
