package main

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"delay-scheduler/measure"
)

func TestVerdictSaysMustAndAim(t *testing.T) {
	atMost := goal{must: 1.3, aim: 1.1}
	atLeast := goal{must: 190_000, aim: 400_000, atLeast: true, unit: "/s"}
	for _, c := range []struct {
		goal          goal
		value         float64
		must, verdict string
	}{
		{atMost, 1.1, "<= 1.3", "held, aim reached"},
		{atMost, 1.2, "<= 1.3", "held"},
		{atMost, 1.31, "<= 1.3", "MISSED"},
		{atLeast, 400_000, ">= 190000/s", "held, aim reached"},
		{atLeast, 190_000, ">= 190000/s", "held"},
		{atLeast, 189_999, ">= 190000/s", "MISSED"},
		{goal{must: 1}, 1, "<= 1", "held"},
	} {
		f := c.goal.judged(figure{Value: c.value})
		require.Equal(t, c.must, f.Must)
		require.Equal(t, c.verdict, f.verdict(), "%v", c.value)
	}
}

// slow is a report in which everything was missed.
func slow(m machine) *report {
	r := &report{Machine: m}
	r.judge(goal{must: 10, absolute: true}, figure{Name: "absolute", Value: 20})
	r.judge(goal{must: 1}, figure{Name: "ratio", Value: 2})
	r.exactly("lost", 1, "")
	return r
}

func verdicts(r *report) (all []string) {
	r.bind()
	for i := range r.Figures {
		all = append(all, r.Figures[i].verdict())
	}
	return all
}

func TestAbsoluteFiguresBindOnlyOnAFastAndQuietMachine(t *testing.T) {
	const missed, unbound = "MISSED", "missed, does not bind"
	fine := machine{CopyRate: 400_000, Probed: true, IdleP99: 4}
	require.Equal(t, []string{missed, missed, missed}, verdicts(slow(fine)))
	require.Contains(t, slow(fine).binding(), "All figures bind.")
	for why, m := range map[string]machine{
		"the plain copy does 399999/s, not 400000":             {CopyRate: 399_999, Probed: true, IdleP99: 4},
		"the idle probe has a p99 of 5 ms, not under 5":        {CopyRate: 400_000, Probed: true, IdleP99: 5},
		"the run has no plain copy and no idle probe to go by": {Probed: true},
	} {
		r := slow(m)
		require.Equal(t, []string{unbound, missed, missed}, verdicts(r), why)
		require.Contains(t, r.binding(), why)
		require.True(t, r.missed(), "the ratio binds")
	}
}

func TestQuickRunBindsPromisesAlone(t *testing.T) {
	r := slow(machine{CopyRate: 400_000, Probed: true})
	r.Quick = true
	require.Equal(t, []string{"missed, does not bind", "missed, does not bind", "MISSED"}, verdicts(r))
	require.True(t, r.missed())
	r.Figures = r.Figures[:2]
	require.False(t, r.missed())
}

func TestFarRecordsAreChargedWithThePayloadThatMadeRoom(t *testing.T) {
	b := &bench{report: new(report), stderr: io.Discard, o: options{far: 10_000_000}}
	b.reportFarMemory(
		holding{usage: usage{resident: 300 << 20}, far: 1_000_000, payload: 200 << 20},
		holding{usage: usage{resident: 310 << 20}, far: 9_000_000, payload: 130 << 20})
	f := b.report.Figures[0]
	require.InDelta(t, float64(80<<20)/8_000_000, f.Value, 0.001)
	require.Equal(t, "held", f.verdict())

	b.reportFarMemory(holding{}, holding{})
	require.Equal(t, "MISSED", b.report.Figures[1].verdict(), "nothing went beyond the budget")
}

func TestAimOfScatteredCountsOverItsOwnTimeOnly(t *testing.T) {
	late := lateness{Histogram: measured(50, 60)}
	for span, verdict := range map[int]string{1500: "held", 500: "held, aim reached"} {
		b := &bench{report: new(report), stderr: io.Discard, o: options{far: 2, span: seconds(span)}}
		b.reportScattered(late, 1<<20)
		require.Equal(t, verdict, b.report.Figures[0].verdict(), "%d s", span)
		require.Equal(t, "0", b.report.Figures[2].Text)
	}
}

func measured(values ...int64) *measure.Histogram {
	h := measure.NewHistogram()
	for _, v := range values {
		h.Add(v)
	}
	return h
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
