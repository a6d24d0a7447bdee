package bucket

import (
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// t0 is just before the end of a second.
var t0 = time.Date(2026, 5, 17, 12, 0, 0, 990e6, time.UTC).UnixMilli()

func offsets(entries []Entry) []int64 {
	got := make([]int64, len(entries))
	for i, e := range entries {
		got[i] = e.Offset
	}
	return got
}

func TestRecordsLeaveAtTheirOwnMillisecondAndNotBefore(t *testing.T) {
	t.Parallel()
	x := New()
	for i := range int64(20) { // over the edge of a second
		x.Add(Entry{Due: t0 + i, Offset: i})
	}
	require.Empty(t, x.PopDue(t0-1, 100, nil))
	for i := range int64(20) {
		due, ok := x.NextDue()
		require.True(t, ok)
		require.Equal(t, t0+i, due)
		require.Equal(t, []int64{i}, offsets(x.PopDue(t0+i, 100, nil)))
	}
	_, ok := x.NextDue()
	require.False(t, ok)
}

func TestRecordsLeaveByDueTimeThenOffset(t *testing.T) {
	t.Parallel()
	x := New()
	x.Add(Entry{Due: t0 + 2000, Offset: 0})
	x.Add(Entry{Due: t0 + 5, Offset: 1})
	x.Add(Entry{Due: t0, Offset: 2})
	x.Add(Entry{Due: t0 + 5, Offset: 3})
	x.Add(Entry{Due: t0 - 4000, Offset: 4})
	require.Equal(t, []int64{4, 2, 1, 3, 0}, offsets(x.PopDue(t0+2000, 100, nil)))
}

func TestPopDueAppendsAndStopsAtTheLimit(t *testing.T) {
	t.Parallel()
	x := New()
	for i := range int64(10) {
		x.Add(Entry{Due: t0 + 1000*i, Offset: i})
	}
	got := x.PopDue(math.MaxInt64, 3, []Entry{{Offset: 77}})
	require.Equal(t, []int64{77, 0, 1, 2}, offsets(got))
	require.Empty(t, x.PopDue(math.MaxInt64, 0, nil))
	require.Empty(t, x.PopDue(math.MaxInt64, -1, nil))
	require.Equal(t, 7, x.Len())
}

// A reported failure elsewhere: of 500 records due at one instant, those that
// arrived while the second was being drained overtook others or left early.
func TestF01_RecordsOfOneDueTimeKeepOffsetOrderWhileTheirSecondDrains(t *testing.T) {
	t.Parallel()
	x := New()
	due := t0 - 990 + 10_000 // the beginning of a second
	var got []Entry
	now := due - 8000
	offset := int64(0)
	for ; offset < 500; offset++ { // the last hundred arrive while the second drains
		x.Add(Entry{Due: due, Offset: offset})
		got = x.PopDue(now, 3, got)
		if now < due {
			require.Empty(t, got)
		}
		now += 20
	}
	require.Equal(t, 300, len(got))
	for ; x.Len() > 0; offset++ {
		x.Add(Entry{Due: due, Offset: offset})
		got = x.PopDue(now, 7, got)
	}
	require.Equal(t, int(offset), len(got))
	for i, e := range got {
		require.Equal(t, int64(i), e.Offset)
	}
}

func TestLateRecordsTakeTheirPlaceInTheSecondBeingDrained(t *testing.T) {
	t.Parallel()
	x := New()
	second := t0 - 990
	for i := range int64(6) {
		x.Add(Entry{Due: second + 100*i, Offset: i})
	}
	require.Equal(t, []int64{0, 1}, offsets(x.PopDue(second+999, 2, nil)))
	x.Add(Entry{Due: second + 900, Offset: 10}) // behind all
	x.Add(Entry{Due: second + 250, Offset: 11}) // between
	x.Add(Entry{Due: second, Offset: 12})       // before all that are left
	x.Add(Entry{Due: second - 1, Offset: 13})   // in an earlier second
	x.Add(Entry{Due: second + 100, Offset: 1})  // given back
	x.Add(Entry{Due: second + 950, Offset: 14})
	require.Equal(t, []int64{13, 12, 1, 2, 11, 3, 4, 5, 10, 14}, offsets(x.PopDue(second+999, 100, nil)))
}

func TestNextDueIsExactInASecondBeingDrained(t *testing.T) {
	t.Parallel()
	x := New()
	second := t0 - 990
	x.Add(Entry{Due: second + 10, Offset: 1})
	x.Add(Entry{Due: second + 700, Offset: 2})
	require.Len(t, x.PopDue(second+10, 10, nil), 1)
	next := func() int64 {
		due, ok := x.NextDue()
		require.True(t, ok)
		return due
	}
	require.Equal(t, second+700, next())
	x.Add(Entry{Due: second + 500, Offset: 3})
	require.Equal(t, second+500, next())
	x.Add(Entry{Due: second + 20_000, Offset: 4})
	require.Equal(t, second+500, next())
	require.Empty(t, x.PopDue(second+499, 10, nil))
}

func TestDueTimesBeforeTheEpochAndFarAhead(t *testing.T) {
	t.Parallel()
	x := New()
	dues := []int64{
		math.MinInt64, math.MinInt64 + 1, -1001, -1000, -999, -1, 0, 1, 999, 1000,
		time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli(), math.MaxInt64 - 1, math.MaxInt64,
	}
	for i := range dues {
		i = (i * 5) % len(dues) // in disorder
		x.Add(Entry{Due: dues[i], Offset: int64(i)})
	}
	for _, due := range dues {
		next, ok := x.NextDue()
		require.True(t, ok)
		require.Equal(t, due, next)
		if due > math.MinInt64 {
			require.Empty(t, x.PopDue(due-1, 1, nil))
		}
		got := x.PopDue(due, 1, nil)
		require.Len(t, got, 1)
		require.Equal(t, due, got[0].Due)
	}
}

func TestLaneAndPayloadComeBackAndMayBeMissing(t *testing.T) {
	t.Parallel()
	x := New()
	want := []Entry{
		{Due: t0, Offset: 1, Lane: math.MaxUint32, Message: payload(1)},
		{Due: t0, Offset: 2, Lane: 0},
		{Due: t0, Offset: math.MaxInt64, Lane: 1 << 31, Message: payload(3)},
	}
	for _, e := range want {
		x.Add(e)
	}
	require.Equal(t, want, x.PopDue(t0, 10, nil))
}

func TestClearForgetsEverything(t *testing.T) {
	t.Parallel()
	x := New()
	for i := range int64(1000) {
		x.Add(Entry{Due: t0 + i, Offset: i})
	}
	x.PopDue(t0+100, 10, nil)
	x.Clear()
	require.Zero(t, x.Len())
	_, ok := x.NextDue()
	require.False(t, ok)
	require.Empty(t, x.PopDue(math.MaxInt64, 10, nil))
	x.Add(Entry{Due: t0, Offset: 5})
	require.Equal(t, []int64{5}, offsets(x.PopDue(t0, 10, nil)))
}

// A burst must not be paid for until the process ends, nor a record that has left
// until its second has.
func TestMemoryGoesAsRecordsLeave(t *testing.T) {
	const n = 200_000
	for _, spread := range []int64{1, 1000, 1000 * n} {
		before := heapBytes()
		x := New()
		for i := range int64(n) {
			x.Add(Entry{Due: t0 + i*7919%spread, Offset: i, Message: make([]byte, 240)})
		}
		full := heapBytes() - before
		chunk := make([]Entry, 0, 1000)
		for x.Len() > n/2 {
			x.PopDue(math.MaxInt64, cap(chunk), chunk)
		}
		clear(chunk[:cap(chunk)])
		half := heapBytes() - before
		require.Less(t, half, full*6/10, "spread %d", spread)
		for x.Len() > 10 {
			x.PopDue(math.MaxInt64, 10, chunk)
		}
		clear(chunk[:cap(chunk)])
		rest := heapBytes() - before
		require.Less(t, rest, full/10, "spread %d", spread)
		runtime.KeepAlive(x)
	}
}

func heapBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
