package measure

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"delay-scheduler/delay"
)

// judge reads what came out.
func (r *run) judge(ctx context.Context) error {
	r.tally, r.result.DeadLetters = newTally(r.began.Unix()), 0
	var read atomic.Int64
	told := time.Now()
	var mu sync.Mutex // guards told
	for _, topic := range r.Topics.Targets {
		_, err := Scan(ctx, r.admin, r.Cluster, topic, func(_ int32, records []delay.Record) error {
			n := int(read.Add(int64(len(records))))
			mu.Lock()
			if time.Since(told) > lookEvery {
				told = time.Now()
				r.tell("reading the targets", n, r.result.Records, -1)
			}
			mu.Unlock()
			return r.tally.add(records)
		})
		if err != nil {
			return err
		}
	}
	return r.refusals(ctx)
}

// refusals counts the dead letters, and keeps why the first one is one.
func (r *run) refusals(ctx context.Context) error {
	var mu sync.Mutex
	_, err := Scan(ctx, r.admin, r.Cluster, r.Topics.DeadLetters, func(_ int32, records []delay.Record) error {
		mu.Lock()
		defer mu.Unlock()
		for i := range records {
			if m, err := readMark(&records[i]); err == nil && m.number >= warmUp {
				continue
			}
			r.result.DeadLetters++
			if r.result.RefusedReason == "" {
				r.result.RefusedReason = reason(records[i].Headers)
			}
		}
		return nil
	})
	return err
}

func reason(headers []delay.Header) string {
	why := map[string]string{}
	for _, h := range headers {
		why[string(h.Key)] = string(h.Value)
	}
	return why[delay.HeaderDLQReason] + ": " + why[delay.HeaderDLQDetail]
}

// copy reads the source and writes it to another topic: what Kafka and our producer do
// without a scheduler. On the way it learns when the records were appended to the source.
func (r *run) copy(ctx context.Context) error {
	if r.Topics.Copy == "" {
		return nil
	}
	s, err := r.sender()
	if err != nil {
		return err
	}
	defer func() { _ = s.Close(hurried()) }() // Closed already unless something failed.
	// The target is known before the clock runs.
	if err := s.Resolve(ctx, r.Topics.Copy); err != nil {
		return err
	}
	c := copier{to: r.Topics.Copy, sender: s, written: NewHistogram(), least: math.MaxInt64}
	began, err := Scan(ctx, r.admin, r.Cluster, r.Topics.Source, func(_ int32, records []delay.Record) error {
		n, err := c.some(ctx, records)
		r.tell("copying plainly", n, r.result.Records, -1)
		return err
	})
	if err == nil {
		err = s.Close(ctx)
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", r.Topics.Source, err)
	}
	r.result.Copy = speedOf(c.copied, time.Since(began))
	r.result.Write = latenessOf(c.written)
	r.result.ClockBehind = max(-c.least, 0)
	return nil
}

// copier is a copy under way.
type copier struct {
	to     string
	sender *Sender

	mu      sync.Mutex // guards what follows
	copied  int
	written *Histogram // ms from our sending to the append
	least   int64      // of these
}

func (c *copier) some(ctx context.Context, records []delay.Record) (n int, err error) {
	out := make([]delay.Outgoing, len(records))
	for i := range records {
		out[i] = delay.Outgoing{Key: records[i].Key, Value: records[i].Value, Headers: records[i].Headers}
	}
	c.mu.Lock()
	for i := range records {
		if m, err := readMark(&records[i]); err == nil && m.number < warmUp {
			c.written.Add(records[i].Timestamp - m.sent)
			c.least = min(c.least, records[i].Timestamp-m.sent)
		}
	}
	c.copied += len(records)
	n = c.copied
	c.mu.Unlock()
	return n, c.sender.Send(ctx, c.to, out)
}

// conclude makes the result of what is known.
func (r *run) conclude() {
	t, res := r.tally, &r.result
	res.Forwarded = t.late.Count()
	res.Late = latenessOf(t.late)
	res.Early, res.EarlyMost, res.Duplicates = t.early, t.worstEarly, t.duplicates
	res.Lost = max(res.Records-res.Forwarded-res.DeadLetters, 0)
	res.BrokerStamped = t.unstamped == 0
	res.Seconds = t.series.seconds()
	if res.Forwarded > 0 {
		res.Forwards = speedOf(res.Forwarded, time.UnixMilli(t.last).Sub(r.firstDue))
	}
}
