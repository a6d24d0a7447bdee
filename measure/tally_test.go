package measure

import (
	"testing"

	"github.com/stretchr/testify/require"

	"delay-scheduler/delay"
)

// came is a record that came out so many ms after it was due.
func came(number uint64, due, late int64) delay.Record {
	out := makeRecord(mark{number: number, due: due, sent: due - 10}, []byte("t"), LeastValue)
	return delay.Record{Topic: "t", Timestamp: due + late, AppendTime: true, Key: out.Key, Value: out.Value}
}

func TestEarlyAndCopiesAreCountedAndWarmUpsAreNot(t *testing.T) {
	y := newTally(1_700_000_000)
	const due = 1_700_000_001_000
	require.NoError(t, y.add([]delay.Record{
		came(0, due, 5), came(1, due, 0), came(2, due, -3), came(1, due, 7), came(warmUp+1, due, 99_999),
	}))

	require.Equal(t, 1, y.duplicates)
	require.Equal(t, 1, y.early)
	require.Equal(t, int64(3), y.worstEarly)
	require.Equal(t, 3, y.late.Count())
	require.Equal(t, int64(5), y.late.Max())
	require.Equal(t, int64(due+5), y.last)
	require.Zero(t, y.unstamped)
}

func TestRecordOfSomebodyElseIsNoneOfOurs(t *testing.T) {
	err := newTally(0).add([]delay.Record{{Topic: "t", Offset: 7, Value: []byte("short")}})
	require.EqualError(t, err, "t/0 at offset 7 is none of ours")
}

func TestVerdictNamesWhatWasNotKept(t *testing.T) {
	r := run{Options: Options{Delays: Fixed(0)}, tally: newTally(0)}
	require.NoError(t, r.tally.add([]delay.Record{came(0, 1000, -1), came(1, 1000, 1), came(1, 1000, 1)}))
	r.result.Records, r.result.DeadLetters = 5, 1
	r.conclude()

	require.Equal(t, []string{"1 early", "2 lost", "1 twice", "1 refused"}, r.result.Broken())
	require.Equal(t, 2, r.result.Forwarded)
	require.Empty(t, (&Result{}).Broken())
}

func TestRecordHasTheSizeThatWasAskedFor(t *testing.T) {
	for _, size := range []int{LeastValue, LeastValue + 1, 200} {
		r := makeRecord(mark{number: 3, due: 4, sent: 5}, []byte("orders"), size)
		require.Len(t, r.Value, size)
		m, err := readMark(&delay.Record{Value: r.Value})
		require.NoError(t, err)
		require.Equal(t, mark{3, 4, 5}, m)
	}
}

func TestSeriesOfALongRunHasNoMoreSlotsThanOneOfAShortRun(t *testing.T) {
	s := newSeries(100)
	for second := range int64(3 * maxSlots) {
		s.add(100+second, second%7)
	}
	require.LessOrEqual(t, len(s.slots), maxSlots)
	total, last := 0, -1
	for _, p := range s.seconds() {
		require.Greater(t, p.At, last)
		total, last = total+p.Records, p.At
		require.LessOrEqual(t, p.Max, int64(6))
	}
	require.Equal(t, 3*maxSlots, total)
	require.GreaterOrEqual(t, last, 3*maxSlots-int(s.width))
}

func TestSeriesLeavesOutSecondsWithoutRecords(t *testing.T) {
	s := newSeries(100)
	s.add(103, 5)
	s.add(103, 7)
	s.add(110, 1)
	require.Equal(t, []Second{{At: 0, Records: 2, P50: 5, P99: 7, Max: 7}, {At: 7, Records: 1, P50: 1, P99: 1, Max: 1}}, s.seconds())
}
