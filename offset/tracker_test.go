package offset

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	laneA = uint64(11)
	laneB = uint64(22)
)

func newTracker(start int64) *Tracker {
	return New(Options{TopicID: TopicID{1}, Start: start, Fingerprint: 5, Nonce: 6})
}

// restarted is the next owner of what was encoded, under rules.
func restarted(t *testing.T, e Encoded, rules uint64) *Tracker {
	t.Helper()
	next := New(Options{TopicID: TopicID{1}, Start: e.Offset, Fingerprint: rules, Nonce: 7})
	set, err := Decode(e.Metadata, TopicID{1}, e.Offset)
	require.NoError(t, err)
	next.Restore(set)
	return next
}

func finish(tr *Tracker, offset, due int64, lane uint64) {
	tr.Due(offset, due, lane)
	tr.Complete(offset, due, lane)
}

func TestWatermarkStopsAtTheFirstPendingRecordAndSkipsGaps(t *testing.T) {
	tr := newTracker(10)
	require.Equal(t, int64(10), tr.Low())
	for _, o := range []int64{12, 13, 20, 21} {
		require.False(t, tr.Read(o, 100, laneA, false))
	}
	require.Equal(t, int64(12), tr.Low(), "10 and 11 do not exist")
	require.Equal(t, int64(22), tr.Next())
	finish(tr, 20, 100, laneA)
	require.Equal(t, int64(12), tr.Low())
	finish(tr, 12, 100, laneA)
	require.Equal(t, int64(13), tr.Low())
	finish(tr, 13, 100, laneA)
	require.Equal(t, int64(21), tr.Low(), "14 to 19 do not exist, 20 is done")
	require.Equal(t, 1, tr.Pending())
	tr.Advance(40)
	require.Equal(t, int64(21), tr.Low())
	require.Equal(t, int64(18), tr.Above())
	finish(tr, 21, 100, laneA)
	require.Equal(t, int64(40), tr.Low())
	require.Zero(t, tr.Above())
	require.NoError(t, tr.verify())
}

func TestNothingCompletedStillWritesAHeader(t *testing.T) {
	tr := newTracker(10)
	e := tr.Encode(4096)
	require.Less(t, len(e.Metadata), 80)
	set, err := Decode(e.Metadata, TopicID{1}, 10)
	require.NoError(t, err)
	require.Equal(t, uint64(6), set.Nonce)
	require.Equal(t, uint64(5), set.Fingerprint)
}

func TestEncodeIsTheSameUntilSomethingChanges(t *testing.T) {
	tr := newTracker(0)
	for o := range int64(2000) {
		lane := uint64(o % 50)
		tr.Read(o, o, lane, false)
		tr.Due(o, o, lane)
		if o%50 >= 30 || o == 29 {
			tr.Complete(o, o, lane)
		}
	}
	e := tr.Encode(4096)
	for range 20 {
		require.Equal(t, e, tr.Encode(4096))
	}
}

func TestCompletionsOutOfOrderAreExceptions(t *testing.T) {
	tr := newTracker(0)
	for o := range int64(10) {
		tr.Read(o, 1000+o, laneA, false)
		tr.Due(o, 1000+o, laneA)
	}
	tr.Complete(5, 1005, laneA)
	tr.Complete(9, 1009, laneA)
	require.Equal(t, 8, tr.Exceptions())
	next := restarted(t, tr.Encode(4096), 5)
	require.True(t, next.Restoring())
	for o := range int64(10) {
		require.Equal(t, o == 5 || o == 9, next.Read(o, 1000+o, laneA, false), "offset %d", o)
	}
	require.False(t, next.Restoring())
	require.Equal(t, 8, next.Open(), "what is overdue has left the index already")
}

func TestRefusedRecordsDoNotMoveTheHorizon(t *testing.T) {
	tr := newTracker(0)
	tr.Read(0, 5000, laneA, false)
	tr.Read(1, Refused, laneB, false)
	tr.Read(2, Refused, laneB, false)
	tr.Read(3, 2000, laneA, false)
	finish(tr, 2, Refused, laneB)
	next := restarted(t, tr.Encode(4096), 5)
	require.False(t, next.Read(0, 5000, laneA, false))
	require.False(t, next.Read(1, Refused, laneB, false))
	require.True(t, next.Read(2, Refused, laneB, false))
	require.False(t, next.Read(3, 2000, laneA, false))
}

func TestRecordRefusedByFormerRulesIsNotLost(t *testing.T) {
	tr := newTracker(0)
	tr.Read(0, 9000, laneA, false)
	tr.Read(1, Refused, laneB, true) // allowed under the next rules, then due at 1000
	tr.Read(2, Refused, laneB, true)
	tr.Read(3, 2000, laneA, false)
	tr.Complete(2, Refused, laneB)
	finish(tr, 3, 2000, laneA)
	e := tr.Encode(4096)
	for _, rules := range []uint64{5, 99} {
		next := restarted(t, e, rules)
		require.False(t, next.Read(0, 9000, laneA, false))
		require.False(t, next.Read(1, 1000, laneA, false), "rules %d", rules)
		require.Equal(t, rules == 5, next.Read(2, Refused, laneB, true), "rules %d", rules)
		require.True(t, next.Read(3, 2000, laneA, false), "rules %d", rules)
	}
}

func TestDueTimesOfOtherRulesCountAsNotDone(t *testing.T) {
	tr := newTracker(0)
	tr.Read(0, 9000, laneA, false)
	for o := int64(1); o <= 4; o++ {
		tr.Read(o, 1000, laneA, o%2 == 0)
		finish(tr, o, 1000, laneA)
	}
	next := restarted(t, tr.Encode(4096), 99)
	next.Read(0, 9000, laneA, false)
	require.True(t, next.Read(1, 1000, laneA, false))
	require.False(t, next.Read(2, 700, laneB, true))
	// Killed in the middle, the rest is still known to be of other rules.
	again := restarted(t, next.Encode(4096), 99)
	again.Read(0, 9000, laneA, false)
	require.True(t, again.Read(1, 1000, laneA, false))
	require.False(t, again.Read(2, 700, laneB, true))
	require.True(t, again.Read(3, 1000, laneA, false))
	require.False(t, again.Read(4, 700, laneB, true))
}

func TestRecordsCompletedBeforeTheyAreDue(t *testing.T) {
	tr := newTracker(0)
	for o := range int64(6) {
		tr.Read(o, 1000*(o+1), laneA, false)
	}
	tr.Complete(3, 4000, laneA)
	tr.Complete(4, 5000, laneA)
	require.Equal(t, 2, tr.Exceptions())
	check := func() {
		next := restarted(t, tr.Encode(4096), 5)
		for o := tr.Low(); o < tr.Next(); o++ {
			require.Equal(t, !tr.pending.has(o), next.Read(o, 1000*(o+1), laneA, false), "offset %d", o)
		}
		require.NoError(t, next.verify())
		require.NoError(t, tr.verify())
	}
	check()
	tr.Due(0, 1000, laneA)
	finish(tr, 1, 2000, laneA)
	check()
	tr.Due(2, 3000, laneA)
	tr.Due(5, 6000, laneA)
	require.Zero(t, tr.early.len(), "their time has passed, the horizon covers them")
	check()
	tr.Complete(0, 1000, laneA)
	check()
}

func TestMistakesOfTheOwnerNeverLoseARecord(t *testing.T) {
	tr := newTracker(5)
	require.True(t, tr.Read(4, 1, laneA, false), "before the start")
	require.True(t, tr.Read(math.MaxInt64, 1, laneA, false))
	require.True(t, tr.Read(-1, 1, laneA, false))
	require.False(t, tr.Read(7, 100, laneA, false))
	require.True(t, tr.Read(7, 100, laneA, false), "known already")
	tr.Advance(6)
	tr.Due(6, 100, laneA)
	tr.Due(99, 100, laneA)
	tr.Complete(6, 50, laneA)
	tr.Complete(99, 50, laneA)
	tr.Restore(&Set{TopicID: TopicID{1}, segments: []segment{{to: 100, whole: true}}})
	require.Equal(t, int64(7), tr.Low())
	require.Equal(t, int64(8), tr.Next())
	tr.Due(7, 100, laneA)
	tr.Due(7, 100, laneA)
	require.Equal(t, 1, tr.Open())
	tr.Complete(7, 99, laneA) // another due time: not this record
	require.Equal(t, 1, tr.Pending())
	tr.Complete(7, 100, laneB) // another lane
	tr.Complete(7, 100, laneA)
	require.Zero(t, tr.Pending())
	require.Zero(t, tr.Open())
	require.Equal(t, int64(8), tr.Low())
	require.NoError(t, tr.verify())
	require.Equal(t, int64(0), New(Options{Start: -1}).Low())
}

func TestSetOfAnotherTopicIsIgnored(t *testing.T) {
	tr := newTracker(0)
	tr.Restore(&Set{TopicID: TopicID{2}, segments: []segment{{to: 10, whole: true}}}, nil)
	require.False(t, tr.Restoring())
	require.False(t, tr.Read(3, 1, laneA, false))
}

func TestMemoryOfWhatCouldNotBeCommitted(t *testing.T) {
	tr := newTracker(0)
	for o := range int64(100) {
		tr.Read(o, 1000+o, laneA, false)
	}
	for o := range int64(30) {
		finish(tr, o, 1000+o, laneA)
	}
	e := tr.Encode(4096)
	for o := int64(30); o < 80; o++ {
		tr.Due(o, 1000+o, laneA)
		if o != 50 {
			tr.Complete(o, 1000+o, laneA)
		}
	}
	memory := tr.Snapshot()
	finish(tr, 50, 1050, laneA) // after the snapshot: not in it

	next := New(Options{TopicID: TopicID{1}, Start: 0, Fingerprint: 5})
	next.Restore(nil, memory) // the group has an older offset than the memory
	for o := range int64(40) {
		require.True(t, next.Read(o, 1000+o, laneA, false))
	}
	// Killed in the middle, what is not read again yet is still remembered.
	set, err := Decode(next.Encode(4096).Metadata, TopicID{1}, 40)
	require.NoError(t, err)
	again := New(Options{TopicID: TopicID{1}, Start: 40, Fingerprint: 5})
	other, err := Decode(e.Metadata, TopicID{1}, 30)
	require.NoError(t, err)
	again.Restore(other, set)
	for o := int64(40); o < 100; o++ {
		require.Equal(t, o < 80 && o != 50, again.Read(o, 1000+o, laneA, false), "offset %d", o)
	}
}

func TestMoreSegmentsThanAllowedAreDroppedAndCounted(t *testing.T) {
	set := &Set{TopicID: TopicID{1}, Fingerprint: 5}
	for i := range int64(12) {
		set.segments = append(set.segments, segment{from: 10 * i, to: 10*i + 10, horizon: Key{500, 0}})
	}
	tr := newTracker(0)
	tr.Restore(set)
	tr.Read(0, 1000, laneA, false)
	for o := int64(1); o < 5; o++ {
		require.True(t, tr.Read(o, 400, laneA, false))
	}
	e := tr.Encode(4096)
	require.Equal(t, int64(50), e.Dropped, "the last five of thirteen segments")
	next := restarted(t, e, 5)
	next.Read(0, 1000, laneA, false)
	for o := int64(1); o < 120; o++ {
		require.Equal(t, o < 70, next.Read(o, 400, laneA, false), "offset %d", o)
	}
}

func TestEveryLimitIsKept(t *testing.T) {
	tr := newTracker(0)
	for o := range int64(3000) {
		tr.Read(o, o*7919%5000, uint64(o%3), false)
	}
	for d := range int64(5000) {
		for o := d * 4679 % 5000; o < 3000; o += 5000 {
			tr.Due(o, d, uint64(o%3))
			if o%5 != 0 && d < 4000 {
				tr.Complete(o, d, uint64(o%3))
			}
		}
	}
	last := tr.Above()
	for limit := -5; limit < 1500; limit++ {
		e := tr.Encode(limit)
		require.LessOrEqual(t, len(e.Metadata), max(limit, 0))
		require.LessOrEqual(t, e.Dropped, last+64, "limit %d", limit)
		last = e.Dropped
		if e.Metadata != "" {
			_, err := Decode(e.Metadata, TopicID{1}, e.Offset)
			require.NoError(t, err)
		}
	}
	require.Zero(t, last)
	require.NotEmpty(t, tr.Encode(64).Metadata, "a header")
	require.Equal(t, tr.Above(), tr.Encode(64).Dropped)
	require.Empty(t, tr.Encode(40).Metadata)
	require.Equal(t, tr.Above(), tr.Encode(40).Dropped)
}
