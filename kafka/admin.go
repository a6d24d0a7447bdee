package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/IBM/sarama"

	"delay-scheduler/delay"
)

const (
	// settlePause is between two tries of something that a cluster is not ready for yet.
	settlePause = 100 * time.Millisecond
	// settleTries bounds them: leaders of a new topic are elected within a second or two.
	settleTries = 50
	// explainBytes is what is fetched to read one record; a larger batch comes whole.
	explainBytes = 64 << 10
)

// Admin answers the commands' questions about a cluster and makes and deletes topics.
// Every request that is for a certain broker has a connection of its own, so its
// methods may be called by several goroutines.
type Admin struct {
	conf   *sarama.Config
	lookup *lookup
}

// NewAdmin connects to nothing yet.
func NewAdmin(o Options) (*Admin, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	conf := o.config("admin")
	return &Admin{conf: conf, lookup: newLookup(conf, o.Brokers)}, nil
}

// Close ends what is going on.
func (a *Admin) Close() { a.lookup.close() }

// BrokerInfo is one broker of a cluster.
type BrokerInfo struct {
	ID   int32
	Addr string
	Err  error // why it cannot be connected to
}

// ClusterInfo is what a cluster says of itself.
type ClusterInfo struct {
	ID         string
	Controller int32 // with KRaft any broker that speaks for it
	Brokers    []BrokerInfo
}

// Cluster describes the cluster and tries to connect to every broker by the address
// that the cluster gives for it, which need not be one that works from here.
func (a *Admin) Cluster(ctx context.Context) (ClusterInfo, error) {
	m, err := a.lookup.metadata(ctx)
	if err != nil {
		return ClusterInfo{}, fmt.Errorf("describe the cluster: %w", err)
	}
	info := ClusterInfo{ID: m.clusterID, Controller: m.controller}
	for _, id := range slices.Sorted(maps.Keys(m.brokers)) {
		b := BrokerInfo{ID: id, Addr: m.brokers[id]}
		conn := connection{config: a.conf, addr: b.Addr}
		b.Err = conn.open(ctx)
		conn.close()
		info.Brokers = append(info.Brokers, b)
	}
	return info, nil
}

// Bounds gives the bounds of all partitions of a topic. The error is ErrUnknownTopic
// if there is none of that name.
func (a *Admin) Bounds(ctx context.Context, topic string) (map[int32]Bounds, error) {
	var all map[int32]Bounds
	err := whenSettled(ctx, func() error {
		t, brokers, err := a.topic(ctx, topic)
		if err != nil {
			return err
		}
		all, err = a.boundsOf(ctx, topic, t, brokers)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the offsets of topic %s: %w", topic, err)
	}
	return all, nil
}

func (a *Admin) boundsOf(ctx context.Context, topic string, t topicMetadata, brokers map[int32]string) (map[int32]Bounds, error) {
	led := make(map[string][]int32)
	for p, pm := range t.partitions {
		addr, ok := brokers[pm.leader]
		if !ok {
			return nil, fmt.Errorf("partition %d: %w", p, errLeaderless)
		}
		led[addr] = append(led[addr], p)
	}
	all := make(map[int32]Bounds, len(t.partitions))
	for addr, partitions := range led {
		conn := connection{config: a.conf, addr: addr}
		some, err := listBounds(ctx, &conn, topic, partitions...)
		conn.close()
		if err != nil {
			return nil, err
		}
		maps.Copy(all, some)
	}
	return all, nil
}

// topic looks one topic up.
func (a *Admin) topic(ctx context.Context, name string) (topicMetadata, map[int32]string, error) {
	m, err := a.lookup.metadata(ctx, name)
	if err != nil {
		return topicMetadata{}, nil, err
	}
	t, ok := m.topics[name]
	if !ok || errors.Is(t.err, sarama.ErrUnknownTopicOrPartition) {
		return topicMetadata{}, nil, ErrUnknownTopic
	}
	return t, m.brokers, t.err
}

// ErrNoRecord says that an offset holds no record that a reader would see.
var ErrNoRecord = errors.New("there is no record")

// ReadRecord reads one record. The error is ErrNoRecord if the offset is outside the
// log, or was a transaction marker, aborted, undecided, or compacted away.
func (a *Admin) ReadRecord(ctx context.Context, topic string, partition int32, offset int64) (delay.Record, error) {
	var record delay.Record
	err := whenSettled(ctx, func() (err error) {
		record, err = a.readRecord(ctx, topic, partition, offset)
		return err
	})
	if err != nil {
		return delay.Record{}, fmt.Errorf("read %s/%d at offset %d: %w", topic, partition, offset, err)
	}
	return record, nil
}

func (a *Admin) readRecord(ctx context.Context, topic string, partition int32, offset int64) (delay.Record, error) {
	t, brokers, err := a.topic(ctx, topic)
	if err != nil {
		return delay.Record{}, err
	}
	p, ok := t.partitions[partition]
	if !ok {
		return delay.Record{}, fmt.Errorf("the topic has %d partitions, the first is 0", len(t.partitions))
	}
	addr, ok := brokers[p.leader]
	if !ok {
		return delay.Record{}, errLeaderless
	}
	conn := connection{config: a.conf, addr: addr}
	defer conn.close()
	bounds, err := listBounds(ctx, &conn, topic, partition)
	if err != nil {
		return delay.Record{}, err
	}
	if b := bounds[partition]; offset < b.Start || offset >= b.Stable {
		return delay.Record{}, fmt.Errorf("%w: the log has offsets %d to %d", ErrNoRecord, b.Start, b.Stable-1)
	}
	return fetchRecord(ctx, &conn, topic, partition, offset)
}

func fetchRecord(ctx context.Context, conn *connection, topic string, partition int32, offset int64) (delay.Record, error) {
	part, err := fetchPart(ctx, conn, topic, partition, offset, sarama.ReadCommitted)
	if err != nil {
		return delay.Record{}, err
	}
	page := decodePage(topic, partition, offset, part, nil, 0)
	if len(page.records) > 0 && page.records[0].Offset == offset {
		return copyRecords(page.records[:1])[0], nil
	}
	if page.next == offset && page.err != nil {
		return delay.Record{}, page.err
	}
	return delay.Record{}, fmt.Errorf("%w: a transaction marker, an aborted record, or compacted away", ErrNoRecord)
}

// whenSettled tries again what fails only because a leader is just being elected.
func whenSettled(ctx context.Context, try func() error) error {
	for n := 1; ; n++ {
		err := try()
		if err == nil || !isUnsettled(err) || n == settleTries || !pause(ctx, settlePause) {
			return err
		}
	}
}

func isUnsettled(err error) bool {
	return errors.Is(err, errLeaderless) || errors.Is(err, sarama.ErrLeaderNotAvailable) ||
		errors.Is(err, sarama.ErrNotLeaderForPartition) || errors.Is(err, sarama.ErrNotController) ||
		errors.Is(err, sarama.ErrOffsetNotAvailable)
}
