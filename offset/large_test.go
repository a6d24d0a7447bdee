package offset

import (
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWindowOfTenMillionTakesAboutABitAnOffset(t *testing.T) {
	skipRaced(t)
	const n = 10_000_000
	before := heap()
	tr := newTracker(0)
	for o := range int64(n) {
		tr.Read(o, 1_000_000, laneA, false)
	}
	require.Less(t, heap()-before, uint64(2*n/8))
	// Every thousandth stays: the pages become short lists.
	tr.popped = Key{1_000_000, n}
	for o := range int64(n) {
		if o%1000 != 0 {
			tr.pending.remove(o)
		}
	}
	require.Less(t, heap()-before, uint64(400_000))
	require.Equal(t, int64(n/1000), tr.pending.countFrom(0))
	require.NoError(t, tr.pending.verify())
	// And a window that is nearly empty costs nearly nothing.
	sparse := newTracker(0)
	before = heap()
	sparse.Read(0, 1_000_000, laneA, false)
	for o := int64(1); o < 1_000_000; o++ {
		sparse.Read(o<<20, 500, laneA, false)
		finish(sparse, o<<20, 500, laneA)
	}
	require.Less(t, heap()-before, uint64(100_000))
	require.Zero(t, sparse.Low())
	runtime.KeepAlive(tr)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// scatter is a due time for each of n offsets, in no order, and the offsets by due time.
func scatter(n int64) (due func(o int64) int64, at []int64) {
	due = func(o int64) int64 { return 1_770_000_000_000 + o*7_368_787%n }
	at = make([]int64, n)
	for o := range n {
		at[due(o)-1_770_000_000_000] = o
	}
	return due, at
}

func TestParkedLanesStaySmallOverRestarts(t *testing.T) {
	skipRaced(t)
	const n = 600_000
	scattered, at := scatter(n)
	due := func(o int64) int64 {
		if o == 0 {
			return math.MaxInt64
		}
		return scattered(o)
	}
	lane := func(o int64) uint64 { return []uint64{33, 44, laneA, laneB}[o/3%4] }
	tr := newTracker(0)
	for o := range int64(n) {
		tr.Read(o, due(o), lane(o), false)
	}
	for i, o := range at[1:] {
		tr.Due(o, due(o), lane(o))
		if l := lane(o); i < n/10 || l == 33 || l == 44 {
			tr.Complete(o, due(o), lane(o))
		}
	}
	parked := tr.Open()
	require.Greater(t, parked, 200_000)
	require.Less(t, tr.Exceptions(), 10)
	first := tr
	for _, stop := range []int64{n / 20, n / 2, 100, n, n} {
		e := tr.Encode(4096)
		require.Zero(t, e.Dropped)
		require.Less(t, len(e.Metadata), 300)
		next := restarted(t, e, 5)
		for o := e.Offset; o < stop; o++ {
			if next.Read(o, due(o), lane(o), false) == first.pending.has(o) {
				require.Failf(t, "wrong", "offset %d", o)
			}
		}
		require.NoError(t, next.verify())
		tr = next
	}
	require.InDelta(t, parked, tr.Open(), 10, "but for those due after the last completion")
	require.Less(t, tr.Exceptions(), 10)
}

// One partition of a target hangs: one record in twelve of one lane is never acknowledged
// while the others are. Exceptions pile up all over the window.
func TestOverflowForgetsSecondsAndNotTheWindow(t *testing.T) {
	skipRaced(t)
	const n = 1_000_000
	due, at := scatter(n)
	tr := newTracker(0)
	for o := range int64(n) {
		tr.Read(o, due(o), laneA, false)
	}
	late := 0
	for i, o := range at[:n/2] {
		tr.Due(o, due(o), laneA)
		if hangs := i > n/2-60_000 && i%12 == 0 || o == 0; hangs {
			late++
			continue
		}
		tr.Complete(o, due(o), laneA)
	}
	require.NoError(t, tr.verify())
	e := tr.Encode(4096)
	t.Logf("%d exceptions, %d characters, %d of %d completions dropped", late, len(e.Metadata), e.Dropped, tr.Above())
	require.LessOrEqual(t, len(e.Metadata), 4096)
	require.Greater(t, len(e.Metadata), 3000)
	require.Less(t, e.Dropped, int64(60_000))
	next := restarted(t, e, 5)
	var again int64
	for o := e.Offset; o < n; o++ {
		done := next.Read(o, due(o), laneA, false)
		require.False(t, done && tr.pending.has(o), "LOST: offset %d", o)
		if !done && !tr.pending.has(o) {
			again++
		}
	}
	require.LessOrEqual(t, again, e.Dropped)
	require.Positive(t, again)
}
