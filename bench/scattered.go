package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// aimSpan is over how long the records of scattered fall due for its aim to count.
const aimSpan = 500 * time.Second

// scattered loads one log of records that are due later, in an order that has nothing to
// do with that of the log, and uses it for all that concerns many pending records: what
// they take, what they cost while nothing is due, how fast they are ready again after a
// kill; then it lets them fall due.
func (b *bench) scattered(ctx context.Context) (err error) {
	from := time.Now().Add(b.o.farLead).Truncate(time.Second)
	b.say("scattered: %d records, due over %v from %s on", b.o.far, b.o.span, from.Format("15:04:05"))
	topics, remove, err := b.cluster.createAll(ctx, "delay", "target")
	if err != nil {
		return err
	}
	defer remove()
	source, target := topics[0], topics[1]
	p, err := b.startWithin(ctx, source, tightBudget)
	if err != nil {
		return err
	}
	stopped := false
	defer func() {
		if !stopped {
			p.kill()
		}
	}()
	if err := b.before(ctx, p, source, target, from); err != nil {
		return err
	}
	most, err := b.fallDue(ctx, p, from)
	if err != nil {
		return err
	}
	stopped = true
	if err := p.stop(); err != nil {
		return err
	}
	late, err := b.cluster.latenessOf(ctx, target)
	if err != nil {
		return err
	}
	b.reportScattered(late, most)
	return nil
}

// before is all that happens until the first record is due, after which nothing of it
// could be measured any more.
func (b *bench) before(ctx context.Context, p *process, source, target string, from time.Time) error {
	ready, cancel := context.WithDeadlineCause(ctx, from, fmt.Errorf("%w: give it more time with -scattered-lead", errNotPending))
	defer cancel()
	due := func() int64 { return from.UnixMilli() + rand.Int64N(b.o.span.Milliseconds()) }
	r := recipe{target: target, due: due}
	if err := b.farMemory(ready, p, source, r); err != nil {
		return err
	}
	if err := b.idleCPU(ready, p); err != nil {
		return err
	}
	run, err := b.restartOnce(ready, p, source, b.o.far, "scattered-restart")
	if err != nil {
		return err
	}
	b.say("  everything pending again %v after a kill; a plain re-read %v", run.pending.Round(time.Millisecond), run.reread.Round(time.Millisecond))
	b.reportRestart(b.o.far, []restartRun{run})
	return nil
}

// holding is what a process takes and says of itself with some records pending.
type holding struct {
	usage
	far, payload int64 // records without payload; bytes of the others
}

// farMemory loads the log in two parts: the first fills the budget, the second comes on
// top, so that what the process grows by is what records without payload take.
func (b *bench) farMemory(ctx context.Context, p *process, source string, r recipe) error {
	first := b.o.far / 10
	before, err := b.holding(ctx, p, source, 0, first, r)
	if err != nil {
		return err
	}
	after, err := b.holding(ctx, p, source, first, b.o.far, r)
	if err != nil {
		return err
	}
	if err := b.profile(ctx, p, "heap", "scattered", 0)(); err != nil {
		return err
	}
	b.reportFarMemory(before, after)
	return nil
}

// holding writes the records from one number to another and looks at the process when
// it has settled.
func (b *bench) holding(ctx context.Context, p *process, source string, from, below int, r recipe) (h holding, err error) {
	if _, err := b.loadFrom(ctx, source, from, below-from, r); err != nil {
		return h, err
	}
	if _, err := b.pendingAll(ctx, p, below); err != nil {
		return h, err
	}
	if err := pause(ctx, b.o.settle); err != nil {
		return h, err
	}
	s, err := p.status(ctx)
	if err != nil {
		return h, err
	}
	h.far, h.payload = int64(s.far()), s.payload()
	h.usage, err = usageOf(p.cmd.Process.Pid)
	b.say("  %d pending, %d of them without payload, %d MiB of payload, resident %d MiB", below, h.far, h.payload>>20, h.resident>>20)
	return h, err
}

func (b *bench) reportFarMemory(before, after holding) {
	const name = "memory: resident for a pending record without payload"
	more := after.far - before.far
	if more <= 0 {
		// A value that misses any goal: nothing was shown.
		f := goalFarRecord.judged(figure{Name: name, Value: math.Inf(1), Text: "no record is without payload", Note: "What is pending has to go beyond the budget."})
		f.Value = 0
		b.report.add(f)
		return
	}
	grown := after.resident - before.resident
	given := before.payload - after.payload
	each := float64(grown+given) / float64(more)
	b.report.judge(goalFarRecord, figure{
		Name: name, Value: each, Unit: "B",
		Text: fmt.Sprintf("%.1f B (resident memory grew by %d MiB, %d MiB of payload made room)", each, grown>>20, given>>20),
		Note: fmt.Sprintf("With a tenth of %s records pending, which is more than the budget of %s has room for, and then with all: growth of resident memory, and the payload that was "+
			"given up meanwhile since the budget is for both, for each record that came to be without payload.", short(b.o.far), tightBudget),
	})
}

// idleCPU is what the process takes of a core while nothing happens.
func (b *bench) idleCPU(ctx context.Context, p *process) error {
	before, err := usageOf(p.cmd.Process.Pid)
	if err != nil {
		return err
	}
	began := time.Now()
	profiled := b.profile(ctx, p, "cpu", "idle", b.o.idle)
	if err := errors.Join(pause(ctx, b.o.idle), profiled()); err != nil {
		return err
	}
	after, err := usageOf(p.cmd.Process.Pid)
	if err != nil {
		return err
	}
	share := 100 * (after.cpu - before.cpu).Seconds() / time.Since(began).Seconds()
	b.say("  idle: %.2f %% of a core", share)
	b.report.judge(goalIdleCPU, figure{
		Name: fmt.Sprintf("idle: CPU with %s pending, of a core", short(b.o.far)), Value: share, Unit: "%",
		Text: fmt.Sprintf("%.2f %%", share),
		Note: fmt.Sprintf("CPU time of the process over %v in which nothing is written and nothing is due. Its status was not asked for.", b.o.idle),
	})
	return nil
}

// fallDue waits until nothing is pending any more, and gives the most that the process
// took meanwhile and before.
func (b *bench) fallDue(ctx context.Context, p *process, from time.Time) (most int64, err error) {
	b.say("  all pending %v before the first is due", time.Until(from).Round(time.Second))
	half := from.Add(b.o.span / 2)
	if err := pause(ctx, time.Until(half)); err != nil {
		return 0, err
	}
	if err := b.profile(ctx, p, "cpu", "scattered", min(b.o.span/4, 30*time.Second))(); err != nil {
		return 0, err
	}
	// Its status is not asked for until the end: that costs it something.
	if err := pause(ctx, time.Until(from.Add(b.o.span))); err != nil {
		return 0, err
	}
	gone, cancel := context.WithTimeout(ctx, patience(b.o.far))
	defer cancel()
	err = p.await(gone, "the records to be forwarded", func(s status) bool { return len(s.Partitions) == partitions && s.pending() == 0 })
	u, uerr := usageOf(p.cmd.Process.Pid)
	return u.peak, errors.Join(err, uerr)
}

func (b *bench) reportScattered(late lateness, most int64) {
	name := fmt.Sprintf("scattered: %s due over %.0f s", short(b.o.far), b.o.span.Seconds())
	p50, p99 := late.Percentile(50), late.Percentile(99)
	b.say("  late p50 %d, p99 %d, max %d ms; resident %d MiB at most", p50, p99, late.Max(), most>>20)
	f := goalScattered.judged(figure{
		Name: name + ": p99 late", Value: float64(p99), Unit: "ms",
		Text: fmt.Sprintf("%d ms (p50: %d ms, max: %d ms)", p99, p50, late.Max()),
		Note: fmt.Sprintf("Append time in the target less due time, in an order of due times that has nothing to do with that of offsets, at a budget of %s, after the restart of above. "+
			"The process took %d MiB at most.", tightBudget, most>>20),
	})
	f.Aim += fmt.Sprintf(" over %.0f s", aimSpan.Seconds())
	f.Reached = new(*f.Reached && b.o.span <= aimSpan)
	b.report.add(f)
	b.report.exactly(name+": early", int64(late.early), "Records that the broker stamped before their due time.")
	missing := max(b.o.far-late.Count(), late.Count()-b.o.far)
	b.report.exactly(name+": lost or twice", int64(missing), "By how many records the target differs from what was written: those sent twice after the kill count as well.")
}
