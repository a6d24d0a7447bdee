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

const (
	// askTimeout bounds what one broker may take for a question that any broker can
	// answer from memory; after it the next one is asked.
	askTimeout = 2 * time.Second
	// hedgeAfter is how long one broker may take to introduce itself before the next is
	// tried beside it.
	hedgeAfter = 250 * time.Millisecond
)

// lookup asks whichever broker answers: who coordinates the group, which partitions
// there are. It remembers the broker that answered last and goes on to the next
// address when that one fails, so a broker that is gone, or takes connections and
// never answers, costs a moment and nothing else.
type lookup struct {
	config *sarama.Config
	// seeds are the configured addresses. They stay: they may be the only names that
	// survive when every broker gets another address.
	seeds []string
	life  context.Context //nolint:containedctx // the lookup's own: close ends it, and with it a question under way
	end   context.CancelFunc

	mu    sync.Mutex // one question at a time; guards addrs and link
	addrs []string   // to try, best first
	link  *link      // to the broker that answered last; nil: none
}

func newLookup(config *sarama.Config, brokers []string) *lookup {
	l := &lookup{config: config, seeds: brokers, addrs: slices.Clone(brokers)}
	l.life, l.end = context.WithCancel(context.Background())
	return l
}

// ask puts the question to one broker after the other until one answers it.
func (l *lookup) ask(ctx context.Context, question func(*sarama.Broker) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()
	if l.link != nil {
		// It may have been closed for idleness since, which says nothing of the broker: its
		// address is tried again like the others.
		if err := l.put(ctx, question); err == nil || refused(err) {
			return err
		}
	}
	var errs []error
	for left := slices.Clone(l.addrs); len(left) > 0 && ctx.Err() == nil; {
		var failed map[string]error
		l.link, failed = l.openAny(ctx, left)
		for addr, err := range failed {
			errs = append(errs, err)
			l.demote(addr)
		}
		if l.link == nil {
			break
		}
		addr := l.link.addr
		err := l.put(ctx, question)
		if err == nil || refused(err) {
			return err
		}
		errs = append(errs, err)
		l.demote(addr)
		left = slices.DeleteFunc(left, func(a string) bool { return a == addr || failed[a] != nil })
	}
	if ctx.Err() != nil {
		errs = append(errs, context.Cause(ctx))
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

// put asks the broker at hand. One that fails is let go.
func (l *lookup) put(ctx context.Context, question func(*sarama.Broker) error) error {
	err := l.link.do(ctx, askTimeout, question)
	if err == nil || refused(err) {
		return err
	}
	err = fmt.Errorf("broker %s: %w", l.link.addr, plain(err))
	l.drop()
	return err
}

// openAny connects to the first broker that introduces itself. The next is tried when
// one has failed, or takes its time: those that take connections and say nothing
// would have to be waited for one after the other otherwise.
func (l *lookup) openAny(ctx context.Context, addrs []string) (first *link, failed map[string]error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan opened)
	failed = map[string]error{}
	next := time.NewTimer(0)
	defer next.Stop()
	for running := 0; ; {
		select {
		case <-next.C:
			if len(addrs) > 0 && first == nil && ctx.Err() == nil {
				go l.openOne(ctx, addrs[0], results)
				addrs, running = addrs[1:], running+1
				next.Reset(hedgeAfter)
			}
		case r := <-results:
			running--
			switch {
			case r.err == nil && first == nil:
				first = r.link
				cancel()
			case r.err == nil:
				r.link.close() // it came second
			case ctx.Err() == nil:
				failed[r.link.addr] = r.err
				next.Reset(0)
			}
		}
		if running == 0 && (first != nil || len(addrs) == 0 || ctx.Err() != nil) {
			return first, failed
		}
	}
}

// opened is how an attempt to connect went.
type opened struct {
	link *link
	err  error
}

func (l *lookup) openOne(ctx context.Context, addr string, results chan<- opened) {
	link := newLink(l.config, addr)
	stop := context.AfterFunc(ctx, link.wire.cut)
	err := link.open(connectTimeout)
	if !stop() && err == nil {
		link.close()
		err = errCut
	}
	results <- opened{link, err}
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
	l.end()
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
