package kafka

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

const (
	// askerTimeout bounds a question that any broker can answer from memory.
	askerTimeout = 5 * time.Second
	// askerHedge is when another broker is asked as well: one that hangs must not hold
	// up what all the others know.
	askerHedge = 300 * time.Millisecond
)

// produceAsker puts questions to any broker that answers, on connections of its own.
type produceAsker struct {
	config *sarama.Config
	seeds  []string

	mu    sync.Mutex // guards what follows; held for no I/O
	known []string   // addresses from the metadata
	idle  *produceLink
	wg    sync.WaitGroup // attempts
}

func newProduceAsker(config *sarama.Config, seeds []string) *produceAsker {
	return &produceAsker{config: config, seeds: seeds}
}

// learn replaces the addresses that are asked before the seeds.
func (a *produceAsker) learn(addrs []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known = addrs
}

// candidates are whom to ask, in order. The first may be connected already.
func (a *produceAsker) candidates() []*produceLink {
	a.mu.Lock()
	defer a.mu.Unlock()
	var links []*produceLink
	if a.idle != nil {
		links = append(links, a.idle)
	}
	addrs := slices.Clone(a.known)
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	seeds := slices.Clone(a.seeds)
	rand.Shuffle(len(seeds), func(i, j int) { seeds[i], seeds[j] = seeds[j], seeds[i] })
	for _, addr := range append(addrs, seeds...) {
		if !slices.ContainsFunc(links, func(l *produceLink) bool { return l.addr == addr && l != a.idle }) {
			links = append(links, newProduceLink(addr, a.config))
		}
	}
	a.idle = nil
	return links
}

// keep takes a connection that has answered for the next question.
func (a *produceAsker) keep(l *produceLink) {
	a.mu.Lock()
	old := a.idle
	a.idle = l
	a.mu.Unlock()
	if old != nil {
		old.close()
	}
}

// close ends everything. No question may be on its way.
func (a *produceAsker) close() {
	a.wg.Wait()
	a.keep(nil)
}

// askAny puts a question to one broker after the other, the next when the one before
// fails or takes long, until one answers.
func askAny[T any](ctx context.Context, a *produceAsker, question func(*sarama.Broker) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, askerTimeout)
	defer cancel()
	type answer struct {
		value T
		err   error
	}
	links := a.candidates()
	answers := make(chan answer, len(links))
	hedge := time.NewTimer(askerHedge)
	defer hedge.Stop()
	asked := 0
	ask := func() {
		if asked == len(links) {
			return
		}
		link := links[asked]
		asked++
		hedge.Reset(askerHedge)
		a.wg.Go(func() {
			value, err := askOne(ctx, a, link, question)
			answers <- answer{value, err}
		})
	}
	// The first is asked even if ctx has ended: its connection may be open, and whoever
	// asks is who closes it.
	ask()
	lastErr := error(errLinkAborted)
	for failed := 0; ; ask() {
		select {
		case <-hedge.C:
		case got := <-answers:
			if got.err == nil {
				return got.value, nil
			}
			lastErr = got.err
			if failed++; failed == len(links) {
				var none T
				return none, lastErr
			}
		case <-ctx.Done():
			var none T
			return none, errors.Join(lastErr, ctx.Err())
		}
	}
}

// askOne puts a question to one broker and keeps the connection if it answered.
func askOne[T any](ctx context.Context, a *produceAsker, l *produceLink, question func(*sarama.Broker) (T, error)) (T, error) {
	var none T
	stop := context.AfterFunc(ctx, l.abort)
	if connected, _ := l.broker.Connected(); !connected {
		if err := l.open(askerTimeout); err != nil {
			stop()
			l.close()
			return none, err
		}
	}
	value, err := question(l.broker)
	// If ctx has ended the connection is gone, whatever it has answered.
	if !stop() || err != nil {
		l.close()
		return value, err
	}
	a.keep(l)
	return value, nil
}
