package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"delay-scheduler/delay"
	"delay-scheduler/forward"
	"delay-scheduler/kafka"
	"delay-scheduler/scheduler"

	"go.uber.org/zap"
)

// The topics of the demonstration.
const (
	source       = "orders-delay"
	deadLetters  = "orders-dlq"
	partitions   = 2
	sendingTakes = 2 * time.Second // the records are written over this time
)

var targets = []string{"orders", "emails", "payments"}

// asked is a record that was written.
type asked struct {
	id  int
	due time.Time
}

// first is the record that shows that the scheduler is there; it is not counted.
const first = -1

// produce writes one record without a delay and, once ready, n with delays of 0 to
// most. It reports each as it is written.
func produce(ctx context.Context, brokers string, n int, most time.Duration, ready <-chan struct{}, each chan<- asked) (err error) {
	acks := newAcks(n + 1)
	p, err := kafka.NewProducer(kafka.ProducerOptions{Options: kafka.Options{Brokers: []string{brokers}}}, acks.sink, zap.NewNop(), nil)
	if err != nil {
		return err
	}
	defer func() {
		if err == nil {
			err = acks.wait(ctx)
		}
		err = errors.Join(err, p.Close(context.WithoutCancel(ctx)))
	}()
	p.Produce(source, []delay.Outgoing{record(first, time.Now(), 0)})
	select {
	case <-ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	pace := time.NewTicker(sendingTakes / time.Duration(n))
	defer pace.Stop()
	for id := range n {
		wait := time.Duration(rand.Int64N(most.Milliseconds()+1)) * time.Millisecond
		now := time.Now().Truncate(time.Millisecond)
		select {
		case each <- asked{id, now.Add(wait)}:
		case <-ctx.Done():
			return ctx.Err()
		}
		p.Produce(source, []delay.Outgoing{record(id, now, wait)})
		select {
		case <-pace.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func record(id int, now time.Time, wait time.Duration) delay.Outgoing {
	return delay.Outgoing{
		Topic: source, Key: fmt.Appendf(nil, "order-%d", id), Value: strconv.AppendInt(nil, int64(id), 10), Timestamp: now.UnixMilli(), Tag: id,
		Headers: []delay.Header{
			{Key: []byte(delay.HeaderTargetTopic), Value: []byte(targets[(id+1)%len(targets)])},
			{Key: []byte(delay.HeaderDelayMS), Value: strconv.AppendInt(nil, wait.Milliseconds(), 10)},
		},
	}
}

// acks counts acknowledgements.
type acks struct {
	mu   sync.Mutex // guards left and err
	left int
	err  error
	done chan struct{}
}

func newAcks(n int) *acks { return &acks{left: n, done: make(chan struct{})} }

func (a *acks) sink(got []forward.Ack) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, g := range got {
		if g.Err != nil {
			a.err = errors.Join(a.err, g.Err)
		}
	}
	if a.left -= len(got); a.left == 0 {
		close(a.done)
	}
}

func (a *acks) wait(ctx context.Context) error {
	select {
	case <-a.done:
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// read reports what reaches the targets until ctx ends.
func read(ctx context.Context, brokers string, each chan<- arrival) error {
	f, err := kafka.NewFetcher(kafka.FetchOptions{Options: kafka.Options{Brokers: []string{brokers}}, MaxWait: 20 * time.Millisecond}, zap.NewNop(), nil)
	if err != nil {
		return err
	}
	defer f.Close()
	var wg sync.WaitGroup
	for _, t := range targets {
		for p := range int32(partitions) {
			wg.Go(func() { readPartition(ctx, f.Open(t, p, 0), each) })
		}
	}
	wg.Wait()
	return nil
}

func readPartition(ctx context.Context, s scheduler.Stream, each chan<- arrival) {
	defer s.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case b := <-s.Batches():
			now := time.Now()
			for _, r := range b.Records {
				id, err := strconv.Atoi(string(r.Value))
				if err != nil {
					continue // not one of ours
				}
				select {
				case each <- arrival{id, time.UnixMilli(r.Timestamp), now}:
				case <-ctx.Done():
					return
				}
			}
		}
	}
}
