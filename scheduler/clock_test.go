package scheduler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClockStepForwardIsHeldUntilFreshRecordsConfirmIt(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.start()
		w.topic.add("a", 2*time.Hour)
		w.after(time.Second)
		w.clock.stepBy(3 * time.Hour)
		w.after(10 * time.Second)
		require.Zero(t, len(w.out.all()))
		require.Equal(t, TroubleJump, w.s.Troubles()[0].Reason)
		// A broker that has made the same step.
		w.topic.putAt(w.clock.wall().UnixMilli(), header("target-topic", "b"), header("delay-ms", "0"))
		w.after(2 * time.Second)
		require.Equal(t, 2, len(w.out.all()))
		require.Empty(t, w.s.Troubles())
	})
}

func TestClockStepForwardIsBelievedWhenToldSo(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.jump = JumpSend
		w.start()
		w.topic.add("a", 30*time.Minute)
		w.after(time.Second)
		w.clock.stepBy(time.Hour)
		w.after(time.Second)
		require.Equal(t, 1, len(w.out.all()))
		w.noneEarly()
	})
}

func TestClockStepBackDelaysByTheStepAndNoMore(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.start()
		w.topic.add("a", 10*time.Minute)
		w.after(time.Second)
		w.clock.stepBy(-time.Hour)
		w.after(69 * time.Minute)
		require.Zero(t, len(w.out.all()))
		w.after(time.Minute + 2*time.Second)
		require.Equal(t, 1, len(w.out.all()))
		w.noneEarly()
		require.Less(t, w.out.all()[0].at.UnixMilli()-w.out.all()[0].due, int64(1000))
	})
}

func TestSuspendedMachineSendsOnlyAfterItsCommitIsTakenAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.start()
		w.topic.add("a", time.Hour)
		w.after(2 * time.Second)
		w.clock.suspend(2 * time.Hour) // the lease is long over
		w.group.next()                 // and somebody else has the partition
		w.after(5 * time.Second)
		require.Zero(t, len(w.out.all()), "a zombie sent")
		// The group gives it back: the record is overdue and leaves at once.
		w.s.Quiesce(w.t.Context())
		w.s.Assign(w.group.next(), []Claim{w.group.claim()})
		w.after(2 * time.Second)
		require.Equal(t, 1, len(w.out.all()))
	})
}

func TestSuspensionIsNoClockJump(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.start()
		w.topic.add("a", time.Hour)
		w.after(2 * time.Second)
		w.clock.suspend(2 * time.Hour)
		w.after(2 * time.Second) // the commit is accepted: the group kept us
		require.Equal(t, 1, len(w.out.all()))
		require.Empty(t, w.s.Troubles())
	})
}
