package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// burstTries are how often a burst is set up anew, each time with twice the time, when
// the machine did not get it ready before its instant.
const burstTries = 3

// burstRun is one burst and the copies beside it.
type burstRun struct {
	burst, library, own passage
	first, p99          int64 // ms from the instant to appends
	early, missing      int
}

// errNotPending says that records were still on their way at the instant, so that what
// would be measured is reading as well.
var errNotPending = errors.New("not all records were pending before the instant")

// burst sends all records at one instant, and copies the same log in turns.
func (b *bench) burst(ctx context.Context) error {
	var runs []burstRun
	for n := range b.o.cheap() {
		b.say("burst %d of %d", n+1, b.o.cheap())
		r, err := b.burstOrMoreTime(ctx, fmt.Sprintf("burst-%d", n+1))
		if err != nil {
			return err
		}
		runs = append(runs, r)
	}
	b.reportBurst(runs)
	return nil
}

func (b *bench) burstOrMoreTime(ctx context.Context, name string) (burstRun, error) {
	lead := b.o.lead
	for try := 1; ; try++ {
		r, err := b.burstOnce(ctx, name, lead)
		if !errors.Is(err, errNotPending) || try == burstTries {
			return r, err
		}
		lead *= 2
		b.say("  this run does not count: %v; again, with %v to get ready", err, lead)
	}
}

func (b *bench) burstOnce(ctx context.Context, name string, lead time.Duration) (r burstRun, err error) {
	topics, remove, err := b.cluster.createAll(ctx, "delay", "target", "copy-library", "copy-own")
	if err != nil {
		return r, err
	}
	defer remove()
	source, target := topics[0], topics[1]
	if err := b.forwardBurst(ctx, &r, name, "", source, target, lead); err != nil {
		return r, err
	}
	n := b.o.records
	b.say("  forwarded in %v, the first after %d ms, %.0f/s, %.2f us of CPU each", r.burst.took.Round(time.Millisecond), r.first, r.burst.rate(n), r.burst.perCPU(n))
	if r.library, err = b.copy(ctx, source, topics[2], openLibrary); err != nil {
		return r, err
	}
	b.say("  copied by the library in %v, %.0f/s, %.2f us", r.library.took.Round(time.Millisecond), r.library.rate(n), r.library.perCPU(n))
	if r.own, err = b.copy(ctx, source, topics[3], openOwn); err != nil {
		return r, err
	}
	b.say("  copied by our producer in %v, %.0f/s, %.2f us", r.own.took.Round(time.Millisecond), r.own.rate(n), r.own.perCPU(n))
	return r, nil
}

// forwardBurst runs the product, which has ended when it returns: the copies have the
// machine for themselves. With an authority's certificate it connects over TLS.
func (b *bench) forwardBurst(ctx context.Context, r *burstRun, name, ca, source, target string, lead time.Duration) (err error) {
	p, err := b.startOver(ctx, source, ca)
	if err != nil {
		return err
	}
	defer func() {
		if p != nil {
			p.kill()
		}
	}()
	instant := time.Now().Add(lead).Truncate(time.Millisecond)
	if _, err := b.load(ctx, source, b.o.records, recipe{target: target, due: instant.UnixMilli}); err != nil {
		return err
	}
	if err := b.allPending(ctx, p, instant); err != nil {
		return err
	}
	b.say("  all pending %v before the instant", time.Until(instant).Round(10*time.Millisecond))
	if err := pause(ctx, time.Until(instant)-lookEvery); err != nil {
		return err
	}
	if r.burst.cpu, err = b.fire(ctx, p, name); err != nil {
		return err
	}
	stopped := p
	p = nil
	if err := stopped.stop(); err != nil {
		return err
	}
	a, err := b.cluster.appendsIn(ctx, target, instant.UnixMilli())
	if err != nil {
		return err
	}
	r.burst.took = time.UnixMilli(a.last).Sub(instant)
	r.first, r.p99, r.early, r.missing = a.first-instant.UnixMilli(), a.late.Percentile(99), a.early, max(b.o.records-a.records, a.records-b.o.records)
	return nil
}

// allPending waits until the process holds every record, at the latest at the instant.
func (b *bench) allPending(ctx context.Context, p *process, instant time.Time) error {
	ready, cancel := context.WithDeadlineCause(ctx, instant.Add(-2*lookEvery), errNotPending)
	defer cancel()
	return p.await(ready, "the records to be pending", func(s status) bool { return s.pending() == b.o.records })
}

// fire waits until nothing is pending any more, and gives the CPU time that it took.
func (b *bench) fire(ctx context.Context, p *process, name string) (time.Duration, error) {
	before, err := usageOf(p.cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	profiled := b.profile(ctx, p, "cpu", name, time.Duration(b.o.records)*time.Second/250_000)
	gone, cancel := context.WithTimeout(ctx, patience(b.o.records))
	defer cancel()
	err = p.await(gone, "the records to be forwarded", func(s status) bool {
		return len(s.Partitions) == partitions && s.pending() == 0
	})
	if err != nil {
		return 0, err
	}
	after, err := usageOf(p.cmd.Process.Pid)
	return after.cpu - before.cpu, errors.Join(err, profiled())
}

func (b *bench) reportBurst(runs []burstRun) {
	n := b.o.records
	rate := func(p func(burstRun) passage) []float64 {
		return per(runs, func(r burstRun) float64 { return p(r).rate(n) })
	}
	cpu := func(p func(burstRun) passage) float64 {
		return median(per(runs, func(r burstRun) float64 { return p(r).perCPU(n) }))
	}
	burst := func(r burstRun) passage { return r.burst }
	library := func(r burstRun) passage { return r.library }
	own := func(r burstRun) passage { return r.own }
	forwarded, copied, copiedOwn := median(rate(burst)), median(rate(library)), median(rate(own))

	b.report.Machine.CopyRate = copiedOwn
	b.report.judge(goalBurst, figure{
		Name: "burst: forwarded/s over a plain copy by the same producer", Value: forwarded / copiedOwn,
		Text: fmt.Sprintf("%.2f (%.0f/s against %.0f/s)", forwarded/copiedOwn, forwarded, copiedOwn),
		Runs: rate(burst), Beside: rate(own),
		Note: "Records due at one instant, from that instant to their last append, against the same log read and written " +
			"through the producer that the scheduler itself uses, first fetch to last append: what scheduling costs on top. Medians, in turns.",
	})
	b.report.judge(goalForwarded, figure{
		Name: "burst: forwarded/s", Value: forwarded, Unit: "/s", Text: fmt.Sprintf("%.0f/s", forwarded), Runs: rate(burst),
		Note: "The same, absolute.",
	})
	b.reportBurstLate(runs)
	b.report.add(figure{
		Name: "burst: over a copy by sarama's producer", Value: forwarded / copied,
		Text: fmt.Sprintf("%.2f (%.0f/s against %.0f/s)", forwarded/copied, forwarded, copied), Runs: rate(burst), Beside: rate(library),
		Note: "The same against a copy through sarama's AsyncProducer with the same batches and acks.",
	})
	b.report.add(figure{
		Name: "burst: CPU of a record", Value: cpu(burst), Unit: "us",
		Text: fmt.Sprintf("%.2f us (copies: ours %.2f, sarama %.2f)", cpu(burst), cpu(own), cpu(library)),
		Note: "CPU time of the process per record. A copy reads and writes; the burst only writes, having read before.",
	})
	b.report.exactly("burst: early", sum(per(runs, func(r burstRun) int64 { return int64(r.early) })),
		"Records that the broker stamped before their instant, in all runs.")
	b.report.exactly("burst: lost or twice", sum(per(runs, func(r burstRun) int64 { return int64(r.missing) })),
		"By how many records the targets differ from what was written.")
}

// reportBurstLate reports how late the first and nearly the last were.
func (b *bench) reportBurstLate(runs []burstRun) {
	first := median(per(runs, func(r burstRun) int64 { return r.first }))
	b.report.judge(goalFirst, figure{
		Name: "burst: first late by", Value: float64(first), Unit: "ms", Text: fmt.Sprintf("%d ms", first),
		Runs: per(runs, func(r burstRun) float64 { return float64(r.first) }),
		Note: "From the instant to the first append in the target, the median of the runs.",
	})
	late := per(runs, func(r burstRun) float64 { return float64(r.p99) / float64(max(r.own.took.Milliseconds(), 1)) })
	b.report.judge(goalBurstLate, figure{
		Name: "burst: p99 late over the time of the plain copy", Value: median(late), Text: fmt.Sprintf("%.2f", median(late)), Runs: late,
		Note: "How late 99 of 100 records were at most, over the time that the copy by the same producer took for all. Medians.",
	})
}
