package scheduler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"delay-scheduler/offset"
)

const week = 7 * 24 * time.Hour

// oldLog is what a group finds that has lost its commits: a malformed record and two that
// were overdue long ago, one that will be due in an hour, and one that is fresh.
func (w *workbench) oldLog() {
	w.group.keptFor = week
	w.topic.putAt(time.Now().Add(-week-time.Hour).UnixMilli(), header("target-topic", "a"))
	w.topic.addOld("a", week+time.Hour, time.Hour)
	w.topic.addOld("b", 2*time.Hour, time.Hour)
	w.topic.addOld("a", week, week+time.Hour)
	w.topic.add("a", time.Second)
}

// offsets are those that left, in the order in which they did.
func (w *workbench) offsets() []int64 {
	left := []int64{}
	for _, s := range w.out.all() {
		left = append(left, s.offset)
	}
	return left
}

func (w *workbench) held() *Held {
	w.t.Helper()
	all := w.s.Partitions()
	require.Len(w.t, all, 1)
	return all[0].Held
}

func (w *workbench) decide(since int64) bool {
	w.t.Helper()
	h := w.held()
	require.NotNil(w.t, h)
	return w.s.Decide("a-delay", 0, offset.Decision{Below: h.Below, Due: h.Due, Since: since})
}

func TestGroupThatLostItsCommitsHoldsWhatIsOverdueAndSchedulesTheRest(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.oldLog()
		w.start()
		w.after(2 * time.Second)
		require.Equal(t, []int64{4}, w.offsets())
		require.Equal(t, &Held{Records: 3, From: 0, Below: 5, Due: time.Now().Add(-2 * time.Second).UnixMilli()}, w.held())
		require.Equal(t, TroubleHeld, w.s.Troubles()[0].Reason)

		late := w.topic.addOld("a", time.Hour, time.Second)
		w.after(time.Second)
		require.Equal(t, []int64{4, late}, w.offsets(), "what is written later has nothing to do with it")
		w.after(time.Hour)
		require.Equal(t, []int64{4, late, 3}, w.offsets())
		o, _, _ := w.group.committed()
		require.Zero(t, o, "what is held is pending")
		w.noneEarly()
	})
}

func TestWhatIsHeldStaysHeldAfterACrash(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.oldLog()
		w.start()
		w.after(2 * time.Second)
		before := w.held()
		w.crash()
		w.after(time.Hour)
		w.start()
		w.after(2 * time.Second)
		require.Equal(t, []int64{4, 3}, w.offsets())
		require.Equal(t, before, w.held())
	})
}

func TestDecisionToSendSendsEachHeldRecordOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.oldLog()
		w.start()
		w.after(2 * time.Second)
		require.False(t, w.s.Decide("a-delay", 0, offset.Decision{Below: 99}), "another hold than there is")
		due := w.held().Due
		require.True(t, w.decide(0))
		require.False(t, w.s.Decide("a-delay", 0, offset.Decision{Below: 5, Due: due}), "it was decided already")
		w.after(time.Second)
		require.Nil(t, w.held())
		require.Equal(t, []int64{4, 0, 1, 2}, w.offsets())
		require.Empty(t, w.s.Troubles())

		w.crash()
		w.start()
		w.after(2 * time.Hour)
		require.Equal(t, []int64{4, 0, 1, 2, 3}, w.offsets())
		o, _, _ := w.group.committed()
		require.EqualValues(t, 5, o)
	})
}

func TestDecisionToDropCountsThemAsDone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.oldLog()
		w.start()
		w.after(2 * time.Second)
		require.True(t, w.decide(offset.Everything))
		w.after(2 * time.Second)
		require.Nil(t, w.held())
		o, _, _ := w.group.committed()
		require.EqualValues(t, 3, o)
		w.crash()
		w.start()
		w.after(2 * time.Hour)
		require.Equal(t, []int64{4, 3}, w.offsets())
	})
}

func TestDecisionSinceATimeSendsWhatWasDueFromThenOn(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.oldLog()
		w.start()
		w.after(2 * time.Second)
		require.True(t, w.decide(time.Now().Add(-2*time.Hour).UnixMilli()))
		w.after(2 * time.Second)
		require.Equal(t, []int64{4, 2}, w.offsets())
	})
}

func TestDecisionWaitsForWhatIsInFlight(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.oldLog()
		w.out.slow["slow"] = 2 * time.Second
		w.topic.add("slow", time.Second)
		w.start()
		w.after(1500 * time.Millisecond)
		require.True(t, w.decide(0))
		w.after(10 * time.Second)
		require.Equal(t, []int64{4, 5, 0, 1, 2}, w.offsets(), "nothing twice")
	})
}

func TestYoungLogIsNotHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.group.keptFor = week
		w.topic.addOld("a", week-time.Minute, time.Hour)
		w.start()
		w.after(time.Second)
		require.Nil(t, w.held())
		require.Equal(t, []int64{0}, w.offsets())
	})
}

func TestCommitKeepsAnOldLogFromBeingHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.oldLog()
		w.group.offset = 1 // as somebody set it by hand
		w.start()
		w.after(2 * time.Second)
		require.Nil(t, w.held())
		require.Equal(t, []int64{1, 2, 4}, w.offsets())
	})
}

func TestLogThatEndsBeforeTheCommitIsHeldAndNeverReplayedByItself(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.group.keptFor = week
		w.group.offset = 100
		w.topic.add("a", time.Second)
		w.topic.add("b", time.Hour)
		w.start()
		w.after(time.Second)
		w.topic.add("a", time.Second)
		w.after(2 * time.Hour)
		require.Equal(t, []int64{2}, w.offsets(), "only what is new")
		require.Equal(t, &Held{From: 0, Below: 2, Due: offset.Everything}, w.held())
		o, _, _ := w.group.committed()
		require.EqualValues(t, 3, o)

		w.crash()
		w.start()
		w.after(time.Second)
		require.Equal(t, []int64{2}, w.offsets())
		require.True(t, w.decide(0))
		w.after(time.Second)
		require.ElementsMatch(t, []int64{2, 0, 1}, w.offsets())
		require.Nil(t, w.held())
	})
}

func TestDroppingALogThatEndsBeforeTheCommitSendsNothingOfIt(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.group.offset = 100
		w.topic.add("a", time.Second)
		w.start()
		w.after(2 * time.Second)
		require.True(t, w.decide(offset.Everything))
		w.topic.add("a", time.Second)
		w.after(2 * time.Second)
		require.Equal(t, []int64{1}, w.offsets())
		require.Nil(t, w.held())
	})
}
