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
)

// askTimeout bounds what one broker may take for a question that any broker can
// answer from memory; after it the next one is asked.
const askTimeout = 2 * time.Second

// lookup asks whichever broker answers: who coordinates the group, which partitions
// there are. It remembers the broker that answered last and goes on to the next
// address when that one fails, so a broker that is gone, or takes connections and
// never answers, costs a moment and nothing else.
type lookup struct {
	config *sarama.Config
	// seeds are the configured addresses. They stay: they may be the only names that
	// survive when every broker gets another address.
	seeds []string

	mu    sync.Mutex // one question at a time; guards addrs and link
	addrs []string   // to try, best first
	link  *link      // to the broker that answered last; nil: none

	// asking guards the connection in use, so that close need not wait for a question.
	asking sync.Mutex
	active *link
	closed bool
}

func newLookup(config *sarama.Config, brokers []string) *lookup {
	return &lookup{config: config, seeds: brokers, addrs: slices.Clone(brokers)}
}

// ask puts the question to one broker after the other until one answers it.
func (l *lookup) ask(ctx context.Context, question func(*sarama.Broker) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.link != nil {
		// It may have been closed for idleness since, which says nothing of the broker:
		// the loop below tries the address again.
		if err := l.put(ctx, l.link, question); err == nil || refused(err) {
			return err
		}
		l.drop()
	}
	var errs []error
	for _, addr := range slices.Clone(l.addrs) {
		if ctx.Err() != nil {
			errs = append(errs, context.Cause(ctx))
			break
		}
		link := newLink(l.config, addr)
		if err := l.openLink(ctx, link); err != nil {
			errs = append(errs, err)
			l.demote(addr)
			continue
		}
		l.link = link
		err := l.put(ctx, link, question)
		if err == nil || refused(err) {
			return err
		}
		errs = append(errs, err)
		l.drop()
		l.demote(addr)
	}
	return fmt.Errorf("no broker answers: %w", errors.Join(errs...))
}

// refusal is an answer that another broker would give as well.
type refusal struct{ error }

// Unwrap gives the broker's error.
func (r refusal) Unwrap() error { return r.error }

func refused(err error) bool {
	var r refusal
	return errors.As(err, &r)
}

func (l *lookup) put(ctx context.Context, link *link, question func(*sarama.Broker) error) error {
	if !l.use(link) {
		return errCut
	}
	defer l.use(nil)
	err := link.do(ctx, askTimeout, question)
	if err == nil || refused(err) {
		return err
	}
	return fmt.Errorf("broker %s: %w", link.addr, plain(err))
}

func (l *lookup) openLink(ctx context.Context, link *link) error {
	if !l.use(link) {
		return errCut
	}
	defer l.use(nil)
	stop := context.AfterFunc(ctx, link.wire.cut)
	defer stop()
	return link.open(connectTimeout)
}

// use makes a connection known to close, and says whether there is still time for it.
func (l *lookup) use(link *link) bool {
	l.asking.Lock()
	defer l.asking.Unlock()
	l.active = link
	return !l.closed
}

func (l *lookup) drop() {
	if l.link != nil {
		l.link.close()
		l.link = nil
	}
}

// demote puts an address behind the others.
func (l *lookup) demote(addr string) {
	if i := slices.Index(l.addrs, addr); i >= 0 {
		l.addrs = append(slices.Delete(l.addrs, i, i+1), addr)
	}
}

// learn takes the brokers that an answer names for those that there are. It is for
// questions, which hold the lock.
func (l *lookup) learn(brokers []*sarama.Broker) {
	now := make([]string, 0, len(brokers))
	for _, b := range brokers {
		now = append(now, b.Addr())
	}
	l.addrs = slices.DeleteFunc(l.addrs, func(addr string) bool {
		return !slices.Contains(now, addr) && !slices.Contains(l.seeds, addr)
	})
	for _, addr := range now {
		if !slices.Contains(l.addrs, addr) {
			l.addrs = append(l.addrs, addr)
		}
	}
}

// another makes the next question go to another broker. A broker that is cut off from
// its cluster, or has just started, answers with what it knows.
func (l *lookup) another() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.link != nil {
		addr := l.link.addr
		l.drop()
		l.demote(addr)
	}
}

// close ends a question under way and all later ones.
func (l *lookup) close() {
	l.asking.Lock()
	l.closed = true
	if l.active != nil {
		l.active.wire.cut()
	}
	l.asking.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop()
}

// coordinator finds the broker that coordinates the group.
func (l *lookup) coordinator(ctx context.Context, group string) (addr string, err error) {
	req := &sarama.FindCoordinatorRequest{Version: 2, CoordinatorKey: group, CoordinatorType: sarama.CoordinatorGroup}
	if l.config.Version.IsAtLeast(sarama.V2_4_0_0) {
		req.Version = 3
	}
	err = l.ask(ctx, func(b *sarama.Broker) error {
		resp, err := b.FindCoordinator(req)
		switch {
		case err != nil:
			return err
		case resp.Err != sarama.ErrNoError:
			return refusal{resp.Err}
		case resp.Coordinator == nil:
			return refusal{sarama.ErrConsumerCoordinatorNotAvailable}
		}
		addr = resp.Coordinator.Addr()
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("find the coordinator of group %q: %w", group, err)
	}
	return addr, nil
}

// topicState is what the group needs to know of a topic.
type topicState struct {
	ID         offset.TopicID
	Partitions []int32 // ascending; also those without a leader
	Err        error   // why there are none
}

// topics describes topics by name; without names, all of them.
func (l *lookup) topics(ctx context.Context, names ...string) (map[string]topicState, error) {
	m, err := l.metadata(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("read metadata: %w", err)
	}
	states := make(map[string]topicState, len(m.topics))
	for name, t := range m.topics {
		// Of leaders, and of what is wrong with them, the group need not know: it shares
		// out partitions that exist.
		state := topicState{ID: t.id, Err: t.err, Partitions: slices.Sorted(maps.Keys(t.partitions))}
		if errors.Is(t.err, sarama.ErrLeaderNotAvailable) && len(state.Partitions) > 0 {
			state.Err = nil
		}
		states[name] = state
	}
	return states, nil
}
