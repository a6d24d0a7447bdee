package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"delay-scheduler/delay"
	"delay-scheduler/measure"
)

// probeEvery is between two records of the idle probe: far apart, so that none waits for
// another one.
const probeEvery = 20 * time.Millisecond

// probeIdle finds out what a record takes to be appended while nothing else goes on: no
// scheduler can be less late than that.
func (b *bench) probeIdle(ctx context.Context) error {
	topics, remove, err := b.cluster.createAll(ctx, "probe")
	if err != nil {
		return err
	}
	defer remove()
	if err := b.beat(ctx, topics[0]); err != nil {
		return fmt.Errorf("idle probe: %w", err)
	}
	var mu sync.Mutex
	late := measure.NewHistogram()
	_, err = b.cluster.scan(ctx, topics[0], func(_ int32, records []delay.Record) error {
		mu.Lock()
		defer mu.Unlock()
		for i := range records {
			sent, err := dueOf(&records[i])
			if err != nil {
				return err
			}
			late.Add(records[i].Timestamp - sent)
		}
		return nil
	})
	m := &b.report.Machine
	m.Probed, m.IdleP50, m.IdleP99 = err == nil, late.Percentile(50), late.Percentile(99)
	b.say("idle probe: an append takes p50 %d, p99 %d, max %d ms", m.IdleP50, m.IdleP99, late.Max())
	return err
}

// beat writes single records that are "due" when they are written.
func (b *bench) beat(ctx context.Context, topic string) (err error) {
	s, err := newSender(b.cluster)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	if err := s.Resolve(ctx, topic); err != nil {
		return err
	}
	now := func() int64 { return time.Now().UnixMilli() }
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for n := range int(b.o.probe / probeEvery) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := s.Send(ctx, topic, recipe{target: topic, due: now}.make(n, 1)); err != nil {
			return err
		}
	}
	return nil
}
