package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"delay-scheduler/offset"
	"delay-scheduler/scheduler"
)

// leaders knows which broker leads a partition. Whoever needs to know more recently
// asks for that topic alone; questions that come while one is on its way go together
// in the next, so five hundred partitions of a lost broker cost two requests. A topic
// in trouble delays nobody: it is asked about once per question, never retried here.
type leaders struct {
	lookup *lookup
	wake   chan struct{}

	mu      sync.Mutex // guards what follows
	topics  map[string]topicAnswer
	wanted  map[string]struct{}
	changed chan struct{} // closed and replaced when answers came
}

// topicAnswer is the latest about one topic. asked is when the question was sent: the
// answer may be as old as that.
type topicAnswer struct {
	asked   time.Time
	err     error // no broker could be asked
	topic   topicMetadata
	brokers map[int32]string
}

// leader is where a partition is read.
type leader struct {
	node int32
	addr string
	id   offset.TopicID // zero: the broker is too old to tell
}

func newLeaders(l *lookup) *leaders {
	return &leaders{
		lookup: l, wake: make(chan struct{}, 1), changed: make(chan struct{}),
		topics: make(map[string]topicAnswer), wanted: make(map[string]struct{}),
	}
}

// run asks the questions until ctx ends.
func (l *leaders) run(ctx context.Context) {
	stop := context.AfterFunc(ctx, l.lookup.close)
	defer func() {
		if stop() {
			l.lookup.close()
		}
	}()
	for {
		select {
		case <-l.wake:
			l.round(ctx)
		case <-ctx.Done():
			return
		}
	}
}

func (l *leaders) round(ctx context.Context) {
	l.mu.Lock()
	names := slices.Collect(maps.Keys(l.wanted))
	clear(l.wanted)
	l.mu.Unlock()
	if len(names) == 0 {
		return
	}
	asked := time.Now()
	m, err := l.lookup.metadata(ctx, names...)

	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		a := topicAnswer{asked: asked, err: err}
		if err == nil {
			var known bool
			a.brokers = m.brokers
			if a.topic, known = m.topics[name]; !known {
				a.topic.err = sarama.ErrUnknownTopicOrPartition
			}
		}
		l.topics[name] = a
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// find answers from what was asked after a time, which may be zero for "anything", and
// otherwise asks.
func (l *leaders) find(ctx context.Context, topic string, partition int32, after time.Time) (leader, error) {
	for {
		l.mu.Lock()
		a, known := l.topics[topic]
		if known && a.asked.After(after) {
			l.mu.Unlock()
			return a.leader(topic, partition)
		}
		l.wanted[topic] = struct{}{}
		changed := l.changed
		l.mu.Unlock()
		signal(l.wake)
		select {
		case <-changed:
		case <-ctx.Done():
			return leader{}, context.Cause(ctx)
		}
	}
}

// errLeaderless says that the partition's brokers are gone or still choosing.
var errLeaderless = errors.New("the partition has no leader")

func (a topicAnswer) leader(topic string, partition int32) (leader, error) {
	if a.err != nil {
		return leader{}, fmt.Errorf("ask who leads %s: %w", topic, a.err)
	}
	if errors.Is(a.topic.err, sarama.ErrUnknownTopicOrPartition) {
		return leader{}, fmt.Errorf("topic %s: %w", topic, scheduler.ErrGone)
	}
	if a.topic.err != nil && !errors.Is(a.topic.err, sarama.ErrLeaderNotAvailable) {
		return leader{}, fmt.Errorf("read metadata of topic %s: %w", topic, a.topic.err)
	}
	p, ok := a.topic.partitions[partition]
	if !ok {
		return leader{}, fmt.Errorf("topic %s has no partition %d", topic, partition)
	}
	addr, ok := a.brokers[p.leader]
	if p.leader < 0 || !ok {
		return leader{id: a.topic.id}, errLeaderless
	}
	return leader{node: p.leader, addr: addr, id: a.topic.id}, nil
}

// signal wakes a loop that waits on a channel of capacity 1.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
