package bucket

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"delay-scheduler/delay"
)

func TestTheFarthestPayloadsGoFirst(t *testing.T) {
	t.Parallel()
	x := New()
	for i := range int64(10) {
		require.True(t, x.Add(Entry{Due: t0 + 1000*i, Offset: i, Message: payload(i)}))
	}
	freed, n := x.Spill(2*Cost(8)+1, math.MinInt64)
	require.Equal(t, 3*Cost(8), freed)
	require.Equal(t, 3, n)
	require.Equal(t, 10, x.Len())
	require.Equal(t, 3, x.Far())
	require.Equal(t, Key{Due: t0 + 7000, Offset: 7}, x.Edge())
	require.False(t, x.Add(Entry{Due: t0 + 7000, Offset: 8, Message: payload(8)}))
	require.True(t, x.Add(Entry{Due: t0 + 7000, Offset: 6, Message: payload(6)}))

	freed, n = x.Spill(math.MaxInt64, t0+3000)
	require.Equal(t, 4, n)
	require.Equal(t, 4*Cost(8), freed)
	require.Equal(t, t0+4000, x.Edge().Due)
	freed, n = x.Spill(1, t0+3000)
	require.Zero(t, freed)
	require.Zero(t, n)
}

func TestOnlyWhatIsDueAfterTheBoundIsSpilled(t *testing.T) {
	t.Parallel()
	x := New()
	second := t0 - 990
	for i := range int64(1000) {
		x.Add(Entry{Due: second + i, Offset: i, Message: payload(i)})
	}
	_, n := x.Spill(math.MaxInt64, second+998)
	require.Equal(t, 1, n)
	_, n = x.Spill(math.MaxInt64, second+699)
	require.Equal(t, 299, n)
	_, n = x.Spill(math.MaxInt64, second+999)
	require.Zero(t, n)
	require.Equal(t, Key{Due: second + 700, Offset: 700}, x.Edge())
	verify(t, x)
}

func TestASecondThatIsBeingDrainedIsNeverSpilled(t *testing.T) {
	t.Parallel()
	x := New()
	second := t0 - 990
	for i := range int64(100) {
		x.Add(Entry{Due: second + i, Offset: i, Message: payload(i)})
	}
	require.Len(t, x.PopDue(second, 10, nil), 1)
	_, n := x.Spill(math.MaxInt64, math.MinInt64)
	require.Zero(t, n)
	x.Add(Entry{Due: second - 1, Offset: 200}) // before it
	x.Add(Entry{Due: second + 1000, Offset: 201})
	_, n = x.Spill(math.MaxInt64, math.MinInt64)
	require.Equal(t, 1, n)
}

// A burst gives up about what is needed, from its end, and no pass over all of it is made
// for each of many small needs.
func TestABurstIsSpilledInPieces(t *testing.T) {
	t.Parallel()
	const n = 100_000
	for _, spread := range []int64{1, 1000} {
		x := New()
		for i := range int64(n) {
			x.Add(Entry{Due: t0 + 10 + i*7919%spread, Offset: i, Message: payload(i)})
		}
		calls := 0
		for left := n; left > n/10; left = n - x.Far() {
			need := int64(left) * Cost(8) / 100
			freed, moved := x.Spill(need, math.MinInt64)
			require.GreaterOrEqual(t, freed, need)
			require.LessOrEqual(t, moved, left/cutLeast*2+1, "spread %d", spread)
			require.GreaterOrEqual(t, moved, left/cutLeast)
			calls++
		}
		require.Less(t, calls, 100)
		verify(t, x)
		var keys []Key
		for _, e := range x.PopDue(math.MaxInt64, n, nil) {
			keys = append(keys, Key{Due: e.Due, Offset: e.Offset})
		}
		require.Len(t, keys, n)
		for i := range keys[1:] {
			require.True(t, keys[i].Less(keys[i+1]))
		}
	}
}

func TestARecordMayBeFilledOnceAndOnlyWhereItWasPut(t *testing.T) {
	t.Parallel()
	x := farIndex()
	x.Add(Entry{Due: t0, Offset: 1, Lane: 5})
	x.Add(Entry{Due: t0, Offset: 2, Lane: 6})
	x.Draw(1, t0, nil) // what farIndex put there
	require.Len(t, x.PopDue(t0, 1, nil), 1)

	wanted := x.Draw(5, t0, nil)
	require.Len(t, wanted, 2)
	require.True(t, x.Fill(wanted[0], payload(1)))
	require.False(t, x.Fill(wanted[0], payload(7)), "it has one")
	require.Equal(t, []Entry{{Due: t0, Offset: 1, Lane: 5, Message: payload(1)}}, x.PopDue(t0, 1, nil))
	require.False(t, x.Fill(wanted[0], payload(1)), "it has left")
	x.Add(Entry{Due: t0, Offset: 1})
	require.False(t, x.Fill(wanted[0], payload(1)), "it came back to another place")
	require.True(t, x.Fill(wanted[1], payload(2)))
	require.Equal(t, []delay.Message{nil, payload(2)}, messages(x.PopDue(t0, 5, nil)))
	require.False(t, x.Fill(wanted[1], payload(2)), "the second is gone")

	x.Add(Entry{Due: t0 + 1, Offset: 2}) // where offset 1 was, in a new second
	require.False(t, x.Fill(wanted[0], payload(1)))
}

func messages(entries []Entry) []delay.Message {
	var all []delay.Message
	for _, e := range entries {
		all = append(all, e.Message)
	}
	return all
}

func TestWhatIsDueInTheFarTierLeavesWithoutPayload(t *testing.T) {
	t.Parallel()
	x := farIndex()
	for i := range int64(5000) {
		x.Add(Entry{Due: t0 + i%50, Offset: i, Lane: uint32(i % 3), Message: payload(i)})
	}
	require.Empty(t, x.PopDue(t0-1, 10, nil))
	got := x.PopDue(t0+9, 10_000, nil)
	require.Len(t, got, 1001)
	for i, e := range got[1:] {
		require.Nil(t, e.Message)
		require.Equal(t, uint32(e.Offset%3), e.Lane)
		if i > 0 {
			require.True(t, (Key{got[i].Due, got[i].Offset}).Less(Key{e.Due, e.Offset}))
		}
	}
	require.Equal(t, Key{Due: t0 + 10, Offset: 10}, x.Edge())
	require.Empty(t, x.PopDue(t0+9, 10, nil))
	x.Clear()
	require.Equal(t, Endless, x.Edge())
}

// A burst of a million at one instant is drawn in the order of its offsets, in a time
// that grows with what is drawn and not with what is there.
func TestAFarBurstIsDrawnInPieces(t *testing.T) {
	const n, piece = 1_000_000, 10_000
	x := farIndex()
	for i := range int64(n) {
		x.Add(Entry{Due: t0 + 600_000, Offset: i})
	}
	x.PopDue(t0, 1, nil)
	full := x.Bytes()
	var wanted []Wanted
	start := time.Now()
	next := int64(0)
	for x.Far() > 0 {
		wanted = x.Draw(piece, math.MaxInt64, wanted[:0])
		require.Len(t, wanted, piece)
		for _, w := range wanted {
			if w.Offset != next {
				t.Fatalf("offset %d instead of %d", w.Offset, next)
			}
			next++
		}
		x.PopDue(math.MaxInt64, piece, nil)
		require.LessOrEqual(t, x.Bytes(), full+full/4)
	}
	t.Logf("%v a record", time.Since(start)/n)
	require.Equal(t, int64(n), next)
	require.Less(t, x.Bytes(), full/20)
}
