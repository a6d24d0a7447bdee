package measure

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"delay-scheduler/delay"
)

const (
	// beat is how often a sender at a rate sends: as often as a timer is good for.
	beat = 10 * time.Millisecond
	// wakeEach is how many records are written for each partition to see that somebody
	// reads it: by the keys' hashes hardly any stays without.
	wakeEach = 8
)

// wake writes records that are due at once and waits until they come out: then a
// scheduler reads the source, and knows the targets.
func (r *run) wake(ctx context.Context, s *Sender) error {
	now := time.Now().UnixMilli()
	var records []delay.Outgoing
	for n := range max(wakeEach*int(r.Partitions), len(r.Topics.Targets)) {
		m := mark{number: warmUp + uint64(n), due: now, sent: now}
		records = append(records, makeRecord(m, []byte(r.target(n)), r.ValueBytes))
	}
	if err := s.Send(ctx, r.Topics.Source, records); err != nil {
		return fmt.Errorf("write to %s: %w", r.Topics.Source, err)
	}
	r.warmUps = len(records)
	began := time.Now()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		n, err := r.out(ctx)
		if err != nil || n >= r.warmUps {
			return err
		}
		left := r.Appear - time.Since(began)
		if left < 0 {
			return fmt.Errorf("%w within %v (%d of %d came out)", ErrNobody, r.Appear, n, r.warmUps)
		}
		r.tell("waiting for the scheduler", n, r.warmUps, left)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (r *run) target(n int) string { return r.Topics.Targets[n%len(r.Topics.Targets)] }

// write writes all records at their pace and waits until they are acknowledged.
func (r *run) write(ctx context.Context, s *Sender) error {
	r.began = time.Now()
	p := &pacer{run: r, random: rand.New(rand.NewPCG(uint64(r.began.UnixNano()), 0)), sender: s}
	for _, t := range r.Topics.Targets {
		p.targets = append(p.targets, []byte(t))
	}
	if err := p.all(ctx); err != nil {
		return fmt.Errorf("write record %d to %s: %w", p.sent, r.Topics.Source, err)
	}
	if err := s.Close(ctx); err != nil {
		return fmt.Errorf("write to %s: %w", r.Topics.Source, err)
	}
	r.result.Records = p.sent
	r.result.Accepted = speedOf(p.sent, time.Since(r.began))
	return nil
}

// pacer writes the records of a run.
type pacer struct {
	*run
	random  *rand.Rand
	sender  *Sender
	targets [][]byte
	sent    int
	told    time.Time
}

func (p *pacer) all(ctx context.Context) error {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		now := time.Now()
		n, over := p.next(now.Sub(p.began))
		if n > 0 {
			if err := p.some(ctx, now, n); err != nil {
				return err
			}
		}
		p.progress(now)
		switch {
		case over:
			return nil
		case p.Rate == 0:
			continue
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// next is how many records are to be written now, and whether they are the last.
func (p *pacer) next(since time.Duration) (n int, over bool) {
	n = parcelRecords
	if p.Rate > 0 {
		if p.Duration > 0 {
			since = min(since, p.Duration)
		}
		n = int(since.Seconds()*p.Rate) - p.sent
	}
	if p.Count > 0 {
		n = min(n, p.Count-p.sent)
		over = p.sent+n == p.Count
	}
	return n, over || p.Duration > 0 && since >= p.Duration
}

// some writes n records. What is written in one go is due by one reading of the clock.
func (p *pacer) some(ctx context.Context, now time.Time, n int) error {
	for n > 0 {
		records := make([]delay.Outgoing, min(n, parcelRecords))
		for i := range records {
			due := p.Delays.Due(p.began, now, p.random)
			p.lastDue = latest(p.lastDue, due)
			if p.firstDue.IsZero() || due.Before(p.firstDue) {
				p.firstDue = due
			}
			m := mark{number: uint64(p.sent), due: due.UnixMilli(), sent: now.UnixMilli()}
			records[i] = makeRecord(m, p.targets[p.sent%len(p.targets)], p.ValueBytes)
			p.sent++
		}
		n -= len(records)
		if err := p.sender.Send(ctx, p.Topics.Source, records); err != nil {
			return err
		}
	}
	return nil
}

func (p *pacer) progress(now time.Time) {
	if now.Sub(p.told) < lookEvery {
		return
	}
	p.told = now
	since := now.Sub(p.began)
	left, total := time.Duration(-1), p.Planned()
	switch {
	case p.Rate > 0:
		left = max(time.Duration(float64(total)/p.Rate*float64(time.Second))-since, 0)
	case p.Duration > 0:
		left = max(p.Duration-since, 0)
	case p.sent > 0:
		left = time.Duration(float64(since) * float64(total-p.sent) / float64(p.sent))
	}
	p.tell("writing", p.sent, total, left)
}
