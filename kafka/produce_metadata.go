package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"delay-scheduler/forward"
)

// locatePause is the least time between two questions, so that a topic that is asked
// for in a loop costs little.
const locatePause = 10 * time.Millisecond

// targetView is what the metadata says of a topic.
type targetView struct {
	name      string
	err       error // why there is nothing else
	id        sarama.Uuid
	parts     []targetPartition // by number
	forbidden bool              // we may not write there
}

// targetPartition is what the metadata says of a partition.
type targetPartition struct {
	leader int32 // -1: none
	epoch  int32
}

// targetsView is one answer.
type targetsView struct {
	nodes  map[int32]string // addresses
	topics []targetView
}

// refusal says why nothing can be written to the topic; nil if something can.
func (v *targetView) refusal() *forward.Error {
	switch {
	case v.err != nil:
		return &forward.Error{Class: classify(v.err).class, Err: fmt.Errorf("look up topic %s: %w", v.name, v.err)}
	case v.forbidden:
		return &forward.Error{Class: forward.NotAuthorized, Err: fmt.Errorf("write to topic %s: %w", v.name, sarama.ErrTopicAuthorizationFailed)}
	case !slices.ContainsFunc(v.parts, func(p targetPartition) bool { return p.leader >= 0 }):
		return &forward.Error{Class: forward.Transient, Err: fmt.Errorf("topic %s: %w", v.name, sarama.ErrLeaderNotAvailable)}
	}
	return nil
}

// produceLocator asks for the metadata of topics, all that are wanted in one request. A
// broker answers for each topic by itself and from memory, so no topic's trouble
// delays another's answer.
type produceLocator struct {
	brokers *produceAsker
	version sarama.KafkaVersion
	deliver func(targetsView) // before those who wait hear

	wake chan struct{}
	mu   sync.Mutex // guards wanted
	// wanted are the topics of the next request, with those who wait for them.
	wanted map[string][]chan targetView
}

func newProduceLocator(brokers *produceAsker, version sarama.KafkaVersion, deliver func(targetsView)) *produceLocator {
	return &produceLocator{
		brokers: brokers, version: version, deliver: deliver,
		wake: make(chan struct{}, 1), wanted: make(map[string][]chan targetView),
	}
}

// want asks for topics without waiting.
func (l *produceLocator) want(topics ...string) {
	l.enlist(nil, topics...)
}

// ask waits for a topic's metadata, as of now or later.
func (l *produceLocator) ask(ctx context.Context, topic string) (targetView, error) {
	answer := make(chan targetView, 1)
	l.enlist(answer, topic)
	select {
	case view, ok := <-answer:
		if !ok {
			return targetView{}, errProducerClosed
		}
		return view, nil
	case <-ctx.Done():
		return targetView{}, context.Cause(ctx)
	}
}

func (l *produceLocator) enlist(answer chan targetView, topics ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wanted == nil { // the end
		if answer != nil {
			close(answer)
		}
		return
	}
	for _, topic := range topics {
		waiting := l.wanted[topic]
		if answer != nil {
			waiting = append(waiting, answer)
		}
		l.wanted[topic] = waiting
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run asks until ctx ends.
func (l *produceLocator) run(ctx context.Context) {
	defer l.end()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
		select {
		case <-l.wake:
		case <-ctx.Done():
			return
		}
		l.round(ctx)
		pause.Reset(locatePause)
	}
}

// end releases whoever still waits.
func (l *produceLocator) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, waiting := range l.wanted {
		for _, answer := range waiting {
			close(answer)
		}
	}
	l.wanted = nil
}

// round asks for all that is wanted and hands out the answers.
func (l *produceLocator) round(ctx context.Context) {
	l.mu.Lock()
	wanted := l.wanted
	l.wanted = make(map[string][]chan targetView)
	l.mu.Unlock()
	if len(wanted) == 0 {
		return
	}
	view := l.look(ctx, slices.Collect(maps.Keys(wanted)))
	l.deliver(view)
	for _, topic := range view.topics {
		for _, answer := range wanted[topic.name] {
			answer <- topic
		}
	}
}

// look asks for topics. Each gets an answer, if only the reason why there is none.
func (l *produceLocator) look(ctx context.Context, topics []string) targetsView {
	resp, err := askAny(ctx, l.brokers, func(b *sarama.Broker) (*sarama.MetadataResponse, error) {
		req := sarama.NewMetadataRequest(l.version, topics)
		req.IncludeTopicAuthorizedOperations = true
		return b.GetMetadata(req)
	})
	view := targetsView{nodes: make(map[int32]string)}
	answered := make(map[string]bool, len(topics))
	if err == nil {
		addrs := make([]string, 0, len(resp.Brokers))
		for _, b := range resp.Brokers {
			view.nodes[b.ID()] = b.Addr()
			addrs = append(addrs, b.Addr())
		}
		l.brokers.learn(addrs)
		for _, t := range resp.Topics {
			answered[t.Name] = true
			view.topics = append(view.topics, viewTarget(t))
		}
		err = sarama.ErrIncompleteResponse
	}
	for _, topic := range topics {
		if !answered[topic] {
			view.topics = append(view.topics, targetView{name: topic, err: fmt.Errorf("%w: %w", errNotSent, err)})
		}
	}
	return view
}

// operations of the authorised operations' bit field.
const (
	writeOperation      = 1 << 4
	operationsUnknown   = -1 << 31 // the broker did not look
	operationsUndefined = 0        // older brokers
)

func viewTarget(t *sarama.TopicMetadata) targetView {
	v := targetView{name: t.Name, id: t.Uuid}
	if t.Err != sarama.ErrNoError {
		v.err = t.Err
		return v
	}
	ops := t.TopicAuthorizedOperations
	v.forbidden = ops != operationsUnknown && ops != operationsUndefined && ops&writeOperation == 0
	for _, p := range t.Partitions {
		for int32(len(v.parts)) <= p.ID {
			v.parts = append(v.parts, targetPartition{leader: -1, epoch: -1})
		}
		v.parts[p.ID] = targetPartition{leader: p.Leader, epoch: p.LeaderEpoch}
	}
	if len(v.parts) == 0 {
		v.err = sarama.ErrLeaderNotAvailable
	}
	return v
}
