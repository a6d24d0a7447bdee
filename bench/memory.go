package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// farAhead is when records are due that are to stay pending.
const farAhead = 24 * time.Hour

// memory compares what a process takes with all records pending and with none.
func (b *bench) memory(ctx context.Context) (err error) {
	b.say("memory")
	topics, remove, err := b.cluster.createAll(ctx, "delay", "target")
	if err != nil {
		return err
	}
	defer remove()
	p, err := b.start(ctx, topics[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	none, err := usageOf(p.cmd.Process.Pid)
	if err != nil {
		return err
	}
	bytes, err := b.loadFar(ctx, topics[0], topics[1])
	if err != nil {
		return err
	}
	st, err := b.pendingAll(ctx, p, b.o.records)
	if err != nil {
		return err
	}
	if err := pause(ctx, b.o.settle); err != nil {
		return err
	}
	all, err := usageOf(p.cmd.Process.Pid)
	if err != nil {
		return err
	}
	if err := b.profile(ctx, p, "heap", "memory", 0)(); err != nil {
		return err
	}
	b.reportMemory(none, all, bytes, st.Budget.Used)
	return nil
}

// loadFar writes records that are due long after the run.
func (b *bench) loadFar(ctx context.Context, source, target string) (bytes int64, err error) {
	return b.load(ctx, source, b.o.records, recipe{target: target, due: time.Now().Add(farAhead).UnixMilli})
}

// pendingAll waits until the process holds n records.
func (b *bench) pendingAll(ctx context.Context, p *process, n int) (last status, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience(n))
	defer cancel()
	return last, p.await(ctx, "the records to be pending", func(s status) bool {
		last = s
		return s.pending() == n
	})
}

func (b *bench) reportMemory(none, all usage, bytes, charged int64) {
	n := float64(b.o.records)
	const mib = 1 << 20
	each := float64(all.resident-none.resident) / n
	b.say("  resident %d MiB with none, %d MiB with all, %d MiB at most", none.resident/mib, all.resident/mib, all.peak/mib)
	b.report.add(figure{
		Name: "memory: resident for a pending record with its payload", Value: each, Unit: "B",
		Text: fmt.Sprintf("%.0f B (its own bytes: %.0f, charged to the budget: %.0f)", each, float64(bytes)/n, float64(charged)/n),
		Note: "Resident memory with all records pending less that with none, for each record, 10 s after the last was read. " +
			"Its own bytes are key, value and headers. Go's collector lets garbage grow to as much as there is live, so resident memory can be twice what is charged.",
	})
	b.report.add(figure{
		Name: "memory: most at any moment", Value: float64(all.peak) / mib, Unit: "MiB",
		Text: fmt.Sprintf("%d MiB (%d MiB with none pending, budget %s)", all.peak/mib, none.resident/mib, budget),
		Note: "The peak of resident memory while the records were read, beside that of the idle process.",
	})
}
