package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"delay-scheduler/delay"
)

// restartRun is one restart and the plain re-read beside it.
type restartRun struct {
	member  time.Duration // until the process had its partitions
	pending time.Duration // until it had everything pending
	reread  time.Duration
}

// restart kills a process that has all records pending, and starts it again.
func (b *bench) restart(ctx context.Context) (err error) {
	b.say("restart")
	topics, remove, err := b.cluster.createAll(ctx, "delay", "target")
	if err != nil {
		return err
	}
	defer remove()
	if _, err := b.loadFar(ctx, topics[0], topics[1]); err != nil {
		return err
	}
	p, err := b.start(ctx, topics[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	if _, err := b.pendingAll(ctx, p, b.o.records); err != nil {
		return err
	}
	var runs []restartRun
	for n := range b.o.cheap() {
		r, err := b.restartOnce(ctx, p, topics[0], b.o.records, fmt.Sprintf("restart-%d", n+1))
		if err != nil {
			return err
		}
		b.say("  %d of %d: a member after %v, everything pending after %v; a plain re-read %v", n+1, b.o.cheap(),
			r.member.Round(time.Millisecond), r.pending.Round(time.Millisecond), r.reread.Round(time.Millisecond))
		runs = append(runs, r)
	}
	b.reportRestart(b.o.records, runs)
	return nil
}

// restartOnce kills a process with n records pending and starts it again.
func (b *bench) restartOnce(ctx context.Context, p *process, source string, n int, name string) (r restartRun, err error) {
	p.kill()
	began := time.Now()
	if err := p.start(ctx); err != nil {
		return r, err
	}
	if err := p.ready(ctx); err != nil {
		return r, err
	}
	r.member = time.Since(began)
	profiled := b.profile(ctx, p, "cpu", name, time.Duration(n)*time.Second/500_000)
	if _, err := b.pendingAll(ctx, p, n); err != nil {
		return r, err
	}
	r.pending = time.Since(began)
	if err := profiled(); err != nil {
		return r, err
	}
	return r, b.reread(ctx, source, n, &r.reread)
}

// reread reads the whole log and looks at nothing.
func (b *bench) reread(ctx context.Context, source string, n int, took *time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience(n))
	defer cancel()
	var read atomic.Int64
	began, err := b.cluster.scan(ctx, source, func(_ int32, records []delay.Record) error {
		read.Add(int64(len(records)))
		return nil
	})
	*took = time.Since(began)
	if err == nil && read.Load() != int64(n) {
		err = fmt.Errorf("re-read %s: %d records of %d", source, read.Load(), n)
	}
	return err
}

// short writes a round number of records.
func short(n int) string {
	switch {
	case n%1_000_000 == 0:
		return fmt.Sprintf("%d M", n/1_000_000)
	case n%1000 == 0:
		return fmt.Sprintf("%d k", n/1000)
	}
	return fmt.Sprint(n)
}

func (b *bench) reportRestart(n int, runs []restartRun) {
	seconds := func(of func(restartRun) time.Duration) []float64 {
		return per(runs, func(r restartRun) float64 { return of(r).Seconds() })
	}
	pending := seconds(func(r restartRun) time.Duration { return r.pending })
	reread := seconds(func(r restartRun) time.Duration { return r.reread })
	member := median(seconds(func(r restartRun) time.Duration { return r.member }))
	ratio := median(pending) / median(reread)
	b.report.judge(goalRestart, figure{
		Name: fmt.Sprintf("restart: ready with %s pending over a plain re-read", short(n)), Value: ratio,
		Text: fmt.Sprintf("%.2f (%.2f s against %.2f s)", ratio, median(pending), median(reread)),
		Runs: pending, Beside: reread,
		Note: "After a SIGKILL with all records pending: from the start of the process until everything is pending again, against reading the same log " +
			"and doing nothing with it. Medians, in turns. The status that tells may be 0.25 s old, which counts against the restart.",
	})
	b.report.add(figure{
		Name: fmt.Sprintf("restart: a member of the group after, %s", short(n)), Value: member, Unit: "s", Text: fmt.Sprintf("%.2f s", member),
		Note: "The part of it that passes before the first record is read, with a static membership.",
	})
}
