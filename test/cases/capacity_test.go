package cases

import (
	"math/rand/v2"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"delay-scheduler/internal/testkafka"
)

// delayed is a record of the world's delay topic with a number and a size.
func (w *world) delayed(target string, number, size int, wait int64, partition int32) *kgo.Record {
	r := w.later(target, wait)
	r.Value, r.Partition = sized(number, size), partition
	return r
}

// Far more is pending than memory allows for, in records of days; it is read all the
// same, also at a restart, and a short delay behind it is as short as ever.
func TestF41FarRecordsBeyondTheBudgetTakeNoMoreMemoryAndHoldBackNobody(t *testing.T) {
	t.Parallel()
	const partitions = 6
	n, budget, inFlight := 250_000, smallBudget, smallInFlight
	if long {
		n, budget, inFlight = 2_000_000, 256, 32
	}
	patience := scaled(30*time.Second, 10*time.Minute)
	w := newWorld(t, testkafka.Need(t))
	w.createWith("delay", partitions, testkafka.LogAppendTime())
	w.create("a", "short", "dlq")
	settings := []string{w.static("one"), memory(budget, inFlight)}
	p := w.start(settings...)
	stop := w.steady(100*time.Millisecond, func(i int) *kgo.Record {
		return w.delayed("short", i, 100, scaled(2*time.Second, 5*time.Second).Milliseconds(), int32(i%partitions))
	})
	loading := span{from: time.Now().UnixMilli()}
	w.stream(n, func(i int) *kgo.Record {
		return w.delayed("a", i, 1024, time.Hour.Milliseconds()+rand.Int64N((23*time.Hour).Milliseconds()), int32(i%partitions))
	})
	p.awaitRead("delay", patience)
	loading.to = time.Now().UnixMilli()
	busy := []span{loading}
	var crashes []int64
	for range 2 {
		w.awaitShort(p)
		p.staysWithin(budget, inFlight)
		require.Greater(t, p.far("delay"), n/2, "most of this does not fit into the budget")
		crash := time.Now().UnixMilli()
		crashes = append(crashes, crash)
		down := span{from: crash - 1000} // what fell due just before may not have been sent
		p.kill()
		p = w.start(settings...)
		p.awaitRead("delay", patience)
		down.to = time.Now().UnixMilli()
		busy = append(busy, down)
		t.Logf("read again after %d ms", down.to-crash)
	}
	w.awaitShort(p)
	sent := stop()
	p.awaitPending(n, 20*time.Second)
	p.staysWithin(budget, inFlight)
	require.Empty(t, p.status().Health.Degraded)

	recs := firsts(t, w.all("short"), crashes...)
	require.Len(t, recs, sent, "lost")
	all, quiet := late(t, recs), late(t, recs, busy...)
	t.Logf("in all: %v; while nothing was read: %v", all, quiet)
	require.Less(t, quiet.at(100), int64(slack))
	require.Less(t, all.at(100), scaled(20*time.Second, 2*time.Minute).Milliseconds(), "behind what was read again")
	require.Empty(t, testkafka.ReadAll(t, w.broker, w.topic("a"), 1, time.Second), "early")
}

// awaitShort waits until twenty more records have fallen due and been sent.
func (w *world) awaitShort(p *process) {
	w.t.Helper()
	forwarded := "delay_scheduler_forwarded_records_total"
	before := p.metric(forwarded)
	require.Eventually(w.t, func() bool { return p.metric(forwarded) >= before+20 }, 20*time.Second, 100*time.Millisecond, "short delays are not sent")
}

// A record that is larger than what its partition may hold is not held, and nobody waits
// for it.
func TestRecordLargerThanItsShareOfTheBudgetGoesStraightThrough(t *testing.T) {
	t.Parallel()
	const partitions, large, small = 4, 24, 4000
	w := newWorld(t, testkafka.Need(t))
	w.createWith("delay", partitions, testkafka.LogAppendTime())
	w.create("large", "small", "dlq")
	p := w.start(w.static("one"), memory(8, 4))
	w.stream(large+small, func(i int) *kgo.Record {
		wait := 3000 + rand.Int64N(4000)
		if step := small / large; i%(step+1) == step {
			return w.delayed("large", i, 900_000, wait, int32(i/(step+1)%partitions))
		}
		return w.delayed("small", i, 100, wait, int32(i%partitions))
	})
	all := large + small
	require.Eventually(t, func() bool { return int(p.metric("delay_scheduler_forwarded_records_total")) == all }, 30*time.Second, 50*time.Millisecond,
		"%v of %d were sent", lazy(func() any { return p.metric("delay_scheduler_forwarded_records_total") }), all)
	for suffix, want := range map[string]int{"large": large, "small": small} {
		recs := w.complete(suffix, want, 20*time.Second)
		for _, r := range recs {
			numbered(t, r)
		}
		l := late(t, recs)
		t.Logf("%s: %v", suffix, l)
		if suffix == "small" {
			require.Less(t, l.at(99), int64(2*slack), "a large record delays the small ones")
		} else {
			require.Less(t, l.at(100), int64(6*slack), "a large record waits for memory")
		}
	}
	p.awaitPending(0, 10*time.Second)
}

var leastLine = regexp.MustCompile(`memory\.budget[^\n]*at least ([0-9]+[KMG]iB)`)

func TestBudgetTooSmallToWorkIsRefusedWithTheLeastThatWouldDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	w.create("delay", "a", "dlq")
	tiny := "memory:\n  budget: 1MiB\n  max_in_flight: 256KiB"
	p := w.startUnready(tiny)
	select {
	case err := <-p.done:
		require.Error(t, err, "the exit code")
	case <-time.After(20 * time.Second):
		require.Fail(t, "it runs", "with %s", tiny)
	}
	found := leastLine.FindStringSubmatch(p.said(t))
	require.NotNil(t, found, p.said(t))
	w.start("memory:\n  budget: " + found[1] + "\n  max_in_flight: 256KiB")
	w.flood(1000, 0, 1000)
	w.exactly("a", 1000, 20*time.Second, time.Second)
}
