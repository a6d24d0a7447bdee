package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"delay-scheduler/delay"
	"delay-scheduler/measure"
)

// beat is how often a steady sender sends: as often as a timer is good for.
const beat = 10 * time.Millisecond

// pacing is a steady rate with random delays.
type pacing struct {
	name string
	rate int // records a second
}

// steadyRun is one run at a steady rate.
type steadyRun struct {
	late           spread[int64]   // ms
	timer          spread[float64] // ms
	early, missing int
}

// steady sends at a rate that is no trouble, and looks at how late each record is.
func (b *bench) steady(ctx context.Context) error {
	runs, err := b.steadyRuns(ctx, pacing{"steady", b.o.rate})
	if err == nil {
		b.reportSteady(runs)
	}
	return err
}

// fast does the same at a rate that is some.
func (b *bench) fast(ctx context.Context) error {
	runs, err := b.steadyRuns(ctx, pacing{"fast", b.o.fastRate})
	if err == nil {
		b.reportFast(runs)
	}
	return err
}

func (b *bench) steadyRuns(ctx context.Context, at pacing) (runs []steadyRun, err error) {
	for n := range b.o.long() {
		b.say("%s %d of %d: %d/s for %v, random delays of %v to %v", at.name, n+1, b.o.long(), at.rate, b.o.length, b.o.leastDelay, b.o.mostDelay)
		r, err := b.steadyOnce(ctx, at, fmt.Sprintf("%s-%d", at.name, n+1))
		if err != nil {
			return nil, err
		}
		b.say("  late p50 %d, p99 %d, max %d ms; a timer p50 %.2f, p99 %.2f, max %.2f ms",
			r.late.P50, r.late.P99, r.late.Max, r.timer.P50, r.timer.P99, r.timer.Max)
		runs = append(runs, r)
	}
	return runs, nil
}

func (b *bench) steadyOnce(ctx context.Context, at pacing, name string) (r steadyRun, err error) {
	topics, remove, err := b.cluster.createAll(ctx, "delay", "target")
	if err != nil {
		return r, err
	}
	defer remove()
	source, target := topics[0], topics[1]
	p, err := b.start(ctx, source)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()

	stop := probe()
	profiled := b.profile(ctx, p, "cpu", name, b.o.length)
	sent, err := b.pace(ctx, at, source, target)
	r.timer = spreadOf(stop())
	if err := errors.Join(err, profiled()); err != nil {
		return r, err
	}
	gone, cancel := context.WithTimeout(ctx, b.o.mostDelay+patience(sent))
	defer cancel()
	// What was just sent may not have been read yet.
	if err := pause(ctx, b.o.mostDelay); err != nil {
		return r, err
	}
	err = p.await(gone, "the records to be forwarded", func(s status) bool { return len(s.Partitions) == partitions && s.pending() == 0 })
	if err != nil {
		return r, err
	}
	late, err := b.cluster.latenessOf(ctx, target)
	r.late = spread[int64]{P50: late.Percentile(50), P99: late.Percentile(99), Max: late.Max()}
	r.missing, r.early = max(sent-late.Count(), late.Count()-sent), late.early
	return r, err
}

// pace sends at the rate, each record with a delay of its own.
func (b *bench) pace(ctx context.Context, at pacing, source, target string) (sent int, err error) {
	s, err := newSender(b.cluster)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	due := func() int64 {
		return time.Now().Add(b.o.leastDelay + rand.N(b.o.mostDelay-b.o.leastDelay+1)).UnixMilli()
	}
	total := int(b.o.length.Seconds() * float64(at.rate))
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for began := time.Now(); sent < total; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return sent, context.Cause(ctx)
		}
		n := min(int(time.Since(began).Seconds()*float64(at.rate)), total) - sent
		if err := s.Send(ctx, source, recipe{target: target, due: due}.make(sent, n)); err != nil {
			return sent, err
		}
		sent += n
	}
	return sent, nil
}

// lateness is how long after its due time each record was appended, in ms.
type lateness struct {
	*measure.Histogram
	early int
}

// latenessOf reads a target topic.
func (c *cluster) latenessOf(ctx context.Context, target string) (lateness, error) {
	var mu sync.Mutex
	l := lateness{Histogram: measure.NewHistogram()}
	_, err := c.scan(ctx, target, func(_ int32, records []delay.Record) error {
		mu.Lock()
		defer mu.Unlock()
		for i := range records {
			due, err := dueOf(&records[i])
			if err != nil {
				return err
			}
			ms := records[i].Timestamp - due
			if ms < 0 {
				l.early++
			}
			l.Add(ms)
		}
		return nil
	})
	return l, err
}

// dueOf is when a record was to be forwarded, as recipe wrote it.
func dueOf(r *delay.Record) (int64, error) {
	due, err := strconv.ParseInt(string(r.Value[:min(dueDigits, len(r.Value))]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s/%d at offset %d is none of ours: %w", r.Topic, r.Partition, r.Offset, err)
	}
	return due, nil
}

// probe measures what the machine alone does to a timer, until it is stopped: by how
// many ms one of 1 ms is late.
func probe() (stop func() []float64) {
	quit, late := make(chan struct{}), make(chan []float64)
	go func() {
		var all []float64
		timer := time.NewTimer(time.Hour)
		defer timer.Stop()
		for {
			began := time.Now()
			timer.Reset(time.Millisecond)
			select {
			case <-timer.C:
				all = append(all, float64(time.Since(began)-time.Millisecond)/float64(time.Millisecond))
			case <-quit:
				late <- all
				return
			}
		}
	}()
	return func() []float64 {
		close(quit)
		return <-late
	}
}

// timerText says what the machine alone adds.
const timerText = "The timer is one of 1 ms in the process that sends, over the same time: what the machine alone adds."

func (b *bench) reportSteady(runs []steadyRun) {
	p50 := per(runs, func(r steadyRun) float64 { return float64(r.late.P50) })
	p99 := per(runs, func(r steadyRun) float64 { return float64(r.late.P99) })
	m := b.report.Machine
	b.report.judge(goalSteadyP50, figure{
		Name: fmt.Sprintf("steady %s/s: p50 late", short(b.o.rate)), Value: median(p50), Unit: "ms", Runs: p50,
		Text: fmt.Sprintf("%.0f ms (idle probe: %d ms)", median(p50), m.IdleP50),
		Note: fmt.Sprintf("Append time in the target less due time, at %d/s for %v with random delays of %v to %v. The linger of 5 ms is in it. "+
			"The idle probe is the append of a record that nobody schedules, while nothing else goes on.", b.o.rate, b.o.length, b.o.leastDelay, b.o.mostDelay),
	})
	b.report.judge(goalSteadyP99, figure{
		Name: fmt.Sprintf("steady %s/s: p99 late", short(b.o.rate)), Value: median(p99), Unit: "ms", Runs: p99,
		Text: fmt.Sprintf("%.0f ms (idle probe: %d ms, a timer: %.2f ms)", median(p99), m.IdleP99, median(per(runs, func(r steadyRun) float64 { return r.timer.P99 }))),
		Note: "The same, the 99th percentile. " + timerText,
	})
	b.reportWorst("steady "+short(b.o.rate)+"/s", runs)
}

func (b *bench) reportFast(runs []steadyRun) {
	p99 := per(runs, func(r steadyRun) float64 { return float64(r.late.P99) })
	name := "steady " + short(b.o.fastRate) + "/s"
	b.report.judge(goalFastP99, figure{
		Name: name + ": p99 late", Value: median(p99), Unit: "ms", Runs: p99,
		Text: fmt.Sprintf("%.0f ms (p50: %d ms, a timer: %.2f ms)", median(p99), median(per(runs, func(r steadyRun) int64 { return r.late.P50 })),
			median(per(runs, func(r steadyRun) float64 { return r.timer.P99 }))),
		Note: fmt.Sprintf("The same at %d/s.", b.o.fastRate),
	})
	b.reportWorst(name, runs)
}

func (b *bench) reportWorst(name string, runs []steadyRun) {
	worst := percentile(per(runs, func(r steadyRun) int64 { return r.late.Max }), 100)
	b.report.add(figure{Name: name + ": max late", Value: float64(worst), Unit: "ms", Text: fmt.Sprintf("%d ms", worst), Note: "The worst record of all runs."})
	b.report.exactly(name+": early", sum(per(runs, func(r steadyRun) int64 { return int64(r.early) })),
		"Records that the broker stamped before their due time, in all runs.")
	b.report.exactly(name+": lost or twice", sum(per(runs, func(r steadyRun) int64 { return int64(r.missing) })),
		"By how many records the targets differ from what was written.")
}
