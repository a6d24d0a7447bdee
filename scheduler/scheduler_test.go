package scheduler

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTargetIsLookedUpBeforeItsFirstRecordIsDue(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		at := time.Now().Add(time.Minute)
		w.topic.addDue("a", at.UnixMilli())
		w.topic.addDue("a", at.Add(time.Hour).UnixMilli())
		w.start()
		w.after(2 * time.Minute)
		require.Len(t, w.out.expected, 1)
		ahead := at.Sub(w.out.expected[0].at)
		require.Positive(t, ahead)
		require.LessOrEqual(t, ahead, expectWithin)
	})
}

func TestRecordLeavesAtItsMillisecond(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.start()
		waits := []time.Duration{0, time.Millisecond, 999 * time.Millisecond, 1001 * time.Millisecond, 90 * time.Minute, 24 * time.Hour}
		for _, d := range waits {
			w.topic.add("a", d)
		}
		w.after(25 * time.Hour)
		require.Equal(t, len(waits), len(w.out.all()))
		for _, s := range w.out.all() {
			require.Equal(t, s.due, s.at.UnixMilli(), "offset %d", s.offset)
		}
		o, _, _ := w.group.committed()
		require.EqualValues(t, len(waits), o)
	})
}

func TestRecordsOfOneDueTimeKeepTheirOrderWhileTheyArrive(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.start()
		at := time.Now().Add(10 * time.Second).UnixMilli()
		for range 600 { // the last ones arrive while, and after, their second drains
			w.topic.addDue("a", max(at, time.Now().UnixMilli()))
			w.after(20 * time.Millisecond)
		}
		w.after(time.Second)
		require.Equal(t, 600, len(w.out.all()))
		require.IsIncreasing(t, w.out.offsets())
		require.Equal(t, at, w.out.all()[499].due)
		w.noneEarly()
	})
}

func TestLongDelayHoldsBackNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.topic.add("a", time.Hour)
		for range 3000 {
			w.topic.add("a", time.Second)
		}
		w.start()
		w.after(3 * time.Second)
		require.Equal(t, 3000, len(w.out.all()))
		o, _, _ := w.group.committed()
		require.EqualValues(t, 0, o, "the commit passed a pending record")
		w.after(time.Hour)
		require.Equal(t, 3001, len(w.out.all()))
	})
}

func TestRestartSendsNothingTwiceAfterAStopAndNothingIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		for i := range 5000 {
			w.topic.add("a", time.Duration(i*7919%20000)*time.Millisecond)
		}
		w.start()
		for range 4 {
			w.after(4 * time.Second)
			ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
			w.s.Drain(ctx)
			cancel()
			w.crash()
			w.start()
		}
		w.after(20 * time.Second)
		require.Equal(t, 5000, len(w.out.all()), "lost or sent twice")
		w.noneEarly()
	})
}

func TestCrashRepeatsOnlyWhatWasSentSinceTheLastCommit(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		for i := range 20000 {
			w.topic.add("a", time.Duration(i*7919%20000)*time.Millisecond)
		}
		w.start()
		var crashes []time.Time
		for range 5 {
			w.after(3700 * time.Millisecond)
			crashes = append(crashes, time.Now())
			w.crash()
			w.start()
		}
		w.after(20 * time.Second)
		first := map[int64]time.Time{}
		for _, s := range w.out.all() {
			at, again := first[s.offset]
			if !again {
				first[s.offset] = s.at
				continue
			}
			within := false
			for _, c := range crashes {
				within = within || (at.After(c.Add(-1100*time.Millisecond)) && !at.After(c))
			}
			require.True(t, within, "offset %d was sent at %v, long before a crash, and again", s.offset, at)
		}
		require.Len(t, first, 20000)
	})
}

func TestStartStopStress(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		for range 200 {
			w.topic.add("a", 10*time.Millisecond)
		}
		for range 50 {
			w.start()
			w.after(5 * time.Millisecond)
			w.s.Release(w.t.Context())
			w.s.Stop()
			w.s.Stop()
		}
		w.s = nil
	})
}

func TestStopBeforeAnythingWasAssigned(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.start()
		w.s.Stop()
		w.s.Assign(w.group.next(), []Claim{w.group.claim()})
		require.Empty(t, w.s.Partitions())
	})
}
