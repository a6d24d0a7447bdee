package scheduler

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"delay-scheduler/bucket"
	"delay-scheduler/delay"
)

// small is a budget that holds the payloads of a few hundred records.
const small = 256 << 10

// status is the snapshot of the one partition.
func (w *workbench) status() PartitionStatus {
	w.t.Helper()
	all := w.s.Partitions()
	require.Len(w.t, all, 1)
	return all[0]
}

// troubled says whether a reason is reported.
func (w *workbench) troubled(reason string) bool {
	return slices.ContainsFunc(w.s.Troubles(), func(t Trouble) bool { return t.Reason == reason })
}

// lateness gives, for each record that left, by how many ms it was late.
func (w *workbench) lateness() map[int64]int64 {
	out := map[int64]int64{}
	for _, s := range w.out.all() {
		out[s.offset] = s.at.UnixMilli() - s.due
	}
	return out
}

// once checks that each of the first n records left, and left once.
func (w *workbench) once(n int) {
	w.t.Helper()
	offsets := w.out.offsets()
	slices.Sort(offsets)
	require.Equal(w.t, n, len(slices.Compact(slices.Clone(offsets))), "records are missing")
	require.Equal(w.t, n, len(offsets), "records left twice")
	w.noneEarly()
	require.Zero(w.t, w.status().Pending)
	require.Zero(w.t, w.s.parts.Budget.Used(), "something stays charged that is not there any more")
}

// scatter appends records with due times that have nothing to do with their offsets.
func (w *workbench) scatter(n int, from, to time.Duration) {
	r := rand.New(rand.NewPCG(7, uint64(n)))
	for range n {
		w.topic.add("a", from+time.Duration(r.Int64N(int64(to-from))))
	}
}

func TestRecordsBeyondTheBudgetLeaveAtTheirMillisecond(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.limit = small
		w.scatter(20_000, 5*time.Second, 65*time.Second)
		w.start()
		w.after(4 * time.Second)
		st := w.status()
		require.EqualValues(t, 20_000, st.Position, "reading stops for nothing")
		require.Greater(t, st.Far, 15_000)
		require.NotZero(t, st.PayloadHorizon)
		require.LessOrEqual(t, w.s.parts.Budget.Used(), w.limit)
		w.after(70 * time.Second)
		w.once(20_000)
		for offset, ms := range w.lateness() {
			require.Zero(t, ms, "offset %d is late", offset)
		}
		require.Zero(t, w.status().AwaitingPayload)
		require.Less(t, w.s.parts.Budget.Used(), int64(16<<10))
		require.Empty(t, w.s.Troubles())
	})
}

func TestBurstLargerThanTheBudgetLeavesInOffsetOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.limit = small
		at := time.Now().Add(5 * time.Second).UnixMilli()
		for range 20_000 {
			w.topic.addDue("a", at)
		}
		w.start()
		w.after(30 * time.Second)
		w.once(20_000)
		require.True(t, slices.IsSorted(w.out.offsets()[:500]))
		for _, ranges := range w.topic.recalls() {
			require.Len(t, ranges, 1, "what lies in a row is read in one go")
		}
	})
}

func TestSlowBrokerDelaysOnlyRecordsWithoutPayload(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.limit = small
		w.scatter(3000, 10*time.Second, 11*time.Second)
		w.topic.recall.wait = 20 * time.Second
		w.start()
		w.after(time.Second)
		far := w.status().Far
		require.Greater(t, far, 500)
		for range 50 {
			w.topic.add("a", 12*time.Second) // after those, and there is room by then
		}
		w.after(14 * time.Second)
		require.True(t, w.troubled(TroublePayload))
		onTime := 0
		for _, ms := range w.lateness() {
			require.Zero(t, ms)
			onTime++
		}
		require.GreaterOrEqual(t, onTime, 3000-far, "a record with its payload waits for those without")
		w.after(10 * time.Minute)
		w.once(3050)
		require.False(t, w.troubled(TroublePayload))
	})
}

func TestRecordsDueTogetherKeepTheirOrderAlthoughAPayloadIsLate(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.limit = small
		r := rand.New(rand.NewPCG(3, 3))
		begin := time.Now().Add(10 * time.Second).UnixMilli()
		for range 5000 {
			w.topic.addDue("a", begin+100*r.Int64N(10)) // 500 at each of ten instants
		}
		w.topic.recall.wait = time.Second
		w.start()
		w.after(10 * time.Minute)
		w.once(5000)
		last := map[int64]int64{}
		for _, s := range w.out.all() {
			require.Less(t, last[s.due]-1, s.offset, "due %d", s.due)
			last[s.due] = s.offset + 1
		}
	})
}

// A pass for a few late records says nothing of how long a window takes.
func TestWindowIsBegunEarlyAlsoAfterAShortPass(t *testing.T) {
	r := recalling{stream: &fakeRecall{quit: make(chan struct{})}, took: 20 * time.Second, began: 0}
	p := &partition{recall: r, account: bucket.NewBudget(1 << 20).Open()}
	p.endPass(5 * time.Millisecond)
	require.GreaterOrEqual(t, p.recall.lead(), 40*time.Second)
}

func TestFailedReadsAreTriedAgainAndSaid(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.limit = small
		w.scatter(3000, 5*time.Second, 6*time.Second)
		w.topic.set(func(f *recallFaults) { f.stuck, f.err = true, errors.New("the leader is away") })
		w.start()
		w.after(10 * time.Second)
		require.Contains(t, fmt.Sprint(w.s.Troubles()), "the leader is away")
		require.Less(t, len(w.out.all()), 3000)
		w.topic.set(func(f *recallFaults) { f.stuck, f.err = false, nil })
		w.after(time.Minute)
		w.once(3000)
	})
}

func TestRecordsDeletedFromTheLogAreCountedAndHoldBackNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.limit = small
		w.scatter(5000, 20*time.Second, 40*time.Second)
		w.start()
		w.after(time.Second)
		require.Greater(t, w.status().Far, 2000)
		w.topic.cut(2500)
		w.after(time.Minute)
		st := w.status()
		require.NotZero(t, st.Gone)
		require.EqualValues(t, 5000, len(w.out.all())+int(st.Gone))
		require.True(t, w.troubled(TroubleGoneRecords))
		o, _, _ := w.group.committed()
		require.EqualValues(t, 5000, o, "they pin the watermark")
		require.Zero(t, st.Pending)
	})
}

func TestCompactedRecordIsGoneOnlyOnceItWasAskedForByItself(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.limit = small
		w.scatter(3000, 20*time.Second, 21*time.Second)
		last := w.topic.add("a", 25*time.Second)
		w.start()
		w.after(time.Second)
		w.topic.compact(last)
		w.after(2 * time.Minute)
		require.EqualValues(t, 1, w.status().Gone)
		require.Equal(t, 3000, len(w.out.all()))
		alone := false
		for _, ranges := range w.topic.recalls() {
			for _, r := range ranges {
				alone = alone || r.From == last
			}
		}
		require.True(t, alone, "a range that began before it proves nothing")
	})
}

func TestAnotherRecordUnderAPendingOffsetIsNotSentForIt(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.limit = small
		w.scatter(3000, 20*time.Second, 21*time.Second)
		last := w.topic.add("a", 25*time.Second)
		w.start()
		w.after(time.Second)
		w.topic.replace(last, "b", 40*time.Second)
		w.after(2 * time.Minute)
		w.once(3001)
		for _, s := range w.out.all() {
			require.Equal(t, s.offset == last, s.target == "b", "offset %d", s.offset)
		}
	})
}

// TestAPassSaysWhichRecordsItWantsWhereTheyLieFarApart: others need not be made of what
// is read over.
func TestAPassSaysWhichRecordsItWantsWhereTheyLieFarApart(t *testing.T) {
	r := &recalling{alone: map[int64]struct{}{900_003: {}}}
	for _, o := range []int64{10, 11, 12, 100, 150, 900_000, 900_003} {
		r.wanted = append(r.wanted, bucket.Wanted{Offset: o})
	}
	require.Equal(t, []Range{
		{From: 10, Below: 151, Only: []int64{10, 11, 12, 100, 150}},
		{From: 900_000, Below: 900_001},
		{From: 900_003, Below: 900_004, Exact: true},
	}, r.ranges(512))
}

func TestWhatWaitsForATargetInTroubleGivesUpItsPayloadsFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.limit = 1 << 20
		w.out.refuse["parked"] = true
		for range 20_000 {
			w.topic.add("parked", time.Second)
		}
		w.start()
		w.after(5 * time.Second)
		w.scatter(2000, 3*time.Second, 8*time.Second)
		w.after(10 * time.Second)
		require.Equal(t, 2000, len(w.out.all()))
		for offset, ms := range w.lateness() {
			require.Zero(t, ms, "offset %d is late for another target's trouble", offset)
		}
		require.LessOrEqual(t, w.s.parts.Budget.Used(), w.limit)
		w.out.set(func() { w.out.refuse["parked"] = false })
		w.after(time.Minute)
		w.once(22_000)
	})
}

// What a target in trouble keeps, to go on with at once, is little also where its records
// are large; and a large one of its own bars no other target's.
func TestLargeRecordsForATargetInTroubleTakeNobodysRoom(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.limit = 1 << 20
		w.out.refuse["parked"] = true
		for i := range 300 {
			size := 10 << 10
			if i == 0 {
				size = 2 << 20
			}
			w.topic.putLarge(size, header("target-topic", "parked"), header("delay-ms", "1000"))
		}
		w.start()
		w.after(5 * time.Second)
		large := w.topic.putLarge(2<<20, header("target-topic", "a"), header("delay-ms", "3000"))
		w.scatter(2000, 3*time.Second, 8*time.Second)
		w.after(10 * time.Second)
		late := w.lateness()
		require.Len(t, late, 2001)
		require.Less(t, late[large], int64(2000))
		delete(late, large)
		for offset, ms := range late {
			require.LessOrEqual(t, ms, int64(100), "offset %d is late for another target's trouble", offset)
		}
		w.out.set(func() { w.out.refuse["parked"] = false })
		w.after(time.Minute)
		w.once(2301)
	})
}

func TestLargeRecordsForManyTargetsInTroubleTakeNobodysRoom(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.limit = 1 << 20
		for i := range 400 {
			target := fmt.Sprint("parked-", i%20)
			w.out.refuse[target] = true
			w.topic.putLarge(50<<10, header("target-topic", target), header("delay-ms", "1000"))
		}
		w.start()
		w.after(5 * time.Second)
		w.scatter(2000, 3*time.Second, 30*time.Second)
		w.after(30 * time.Second)
		late := w.lateness()
		require.Len(t, late, 2000)
		for offset, ms := range late {
			require.LessOrEqual(t, ms, int64(100), "offset %d is late for another target's trouble", offset)
		}
		w.out.set(func() { clear(w.out.refuse) })
		w.after(time.Minute)
		w.once(2400)
	})
}

func TestRecordLargerThanTheBudgetGoesStraightThrough(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.limit = small
		w.scatter(2000, 3*time.Second, 30*time.Second)
		var large []int64
		for i := range 5 {
			large = append(large, w.topic.putLarge(2*small, header("target-topic", "a"), header("delay-ms", fmt.Sprint(10_000+500*i))))
		}
		w.start()
		w.after(40 * time.Second)
		w.once(2005)
		late := w.lateness()
		for _, offset := range large {
			require.Less(t, late[offset], int64(2000))
			delete(late, offset)
		}
		for offset, ms := range late {
			require.LessOrEqual(t, ms, int64(100), "offset %d is late for a large one", offset)
		}
	})
}

func TestNothingIsLostOrSentTwiceThroughRestartsWithTwoTiers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.limit = small
		w.scatter(20_000, 2*time.Second, 62*time.Second)
		w.start()
		for range 5 {
			w.after(7 * time.Second)
			w.s.Drain(t.Context())
			w.crash()
			w.start()
		}
		w.after(2 * time.Minute)
		w.once(20_000)
	})
}

func TestCrashWithTwoTiersLosesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.limit = small
		w.scatter(20_000, 2*time.Second, 62*time.Second)
		w.start()
		for range 5 {
			w.after(7300 * time.Millisecond)
			w.crash()
			w.start()
		}
		w.after(2 * time.Minute)
		offsets := w.out.offsets()
		slices.Sort(offsets)
		require.Equal(t, 20_000, len(slices.Compact(offsets)))
		w.noneEarly()
	})
}

func TestRebuildSaysHowFarItIs(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.scatter(5000, time.Hour, 2*time.Hour)
		w.start()
		w.after(time.Second)
		st := w.status()
		require.False(t, st.Rebuilding)
		require.EqualValues(t, 1, st.RebuildShare)
		require.EqualValues(t, 5000, st.RebuildRecords)
	})
	r := beginRebuild(0)
	require.Zero(t, r.share(0))
	r.aim(100, &Batch{LogStart: 0, LogEnd: 300}, time.Now())
	require.InDelta(t, 0.25, r.share(150), 0.001)
	require.Equal(t, 30*time.Second, r.left(150, 10*time.Second))
}

// putLarge appends a record with a value of that size.
func (f *fakeTopic) putLarge(size int, headers ...delay.Header) int64 {
	o := f.put(headers...)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.records[len(f.records)-1].Value = make([]byte, size)
	return o
}
