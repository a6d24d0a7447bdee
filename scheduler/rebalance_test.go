package scheduler

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRevokeInMidSendLosesNothingAndRepeatsOnlyWhatIsInDoubt(t *testing.T) {
	for name, ack := range map[string]time.Duration{"acknowledged in time": 500 * time.Millisecond, "unanswered": time.Hour} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *workbench) {
				for range 1000 {
					w.topic.add("a", time.Second)
				}
				w.start()
				w.out.set(func() { w.out.ack = ack })
				w.after(1200 * time.Millisecond)
				require.Equal(t, 1000, len(w.out.all()))
				ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Second)
				defer cancel()
				w.s.Release(ctx)
				other := w.group.next() // the partition goes to somebody else
				w.s.Quiesce(w.t.Context())
				w.s.Assign(other, nil)
				synctest.Wait()
				w.out.set(func() { w.out.ack = time.Millisecond })
				w.s.Assign(w.group.next(), []Claim{w.group.claim()})
				w.after(3 * time.Second)
				want := 1000
				if ack == time.Hour {
					want = 2000
				}
				require.Equal(t, want, len(w.out.all()))
			})
		})
	}
}

func TestStateIsKeptOverARebalanceWhenTheGroupHoldsOurLastCommit(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		for i := range 2000 {
			w.topic.add("a", time.Duration(i%100)*100*time.Millisecond)
		}
		w.start()
		w.after(3 * time.Second)
		w.s.Release(w.t.Context())
		w.s.Quiesce(w.t.Context())
		w.s.Assign(w.group.next(), []Claim{w.group.claim()})
		w.after(10 * time.Second)
		require.Equal(t, 2000, len(w.out.all()))
		require.Len(t, w.topic.opened, 1, "the partition was read again although its state was good")
	})
}

func TestStateIsRebuiltWhenSomebodyElseCommitted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.topic.add("a", 5*time.Second)
		w.start()
		w.after(2 * time.Second)
		w.s.Release(w.t.Context())
		w.s.Quiesce(w.t.Context())
		s := w.group.next()
		s.Commit([]Commit{{Offset: 1, Metadata: "", Done: func(error) {}}}) // another owner finished it
		w.s.Assign(w.group.next(), []Claim{w.group.claim()})
		w.after(10 * time.Second)
		require.Zero(t, len(w.out.all()))
		require.Equal(t, []int64{-1, 1}, w.topic.opened)
	})
}

func TestCompletionsThatCouldNotBeCommittedAreRememberedForTheNextClaim(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		for range 100 {
			w.topic.add("a", 5*time.Second)
		}
		w.start()
		w.after(4 * time.Second)
		w.group.mu.Lock()
		w.group.fail = func(Commit) error { return ErrUnavailable } // the coordinator is gone
		w.group.mu.Unlock()
		w.after(2 * time.Second)
		require.Equal(t, 100, len(w.out.all()))
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
		defer cancel()
		w.s.Release(ctx)
		w.group.mu.Lock()
		w.group.fail = nil
		w.group.mu.Unlock()
		w.s.Quiesce(w.t.Context())
		w.s.Assign(w.group.next(), nil) // somebody else's for a while, who does nothing
		w.s.Quiesce(w.t.Context())
		w.s.Assign(w.group.next(), []Claim{w.group.claim()})
		w.after(10 * time.Second)
		require.Equal(t, 100, len(w.out.all()), "completed records were sent again")
	})
}

func TestWorkGoesOnUnderTheOldGenerationWhileTheGroupReforms(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		for i := range 100 {
			w.topic.add("a", time.Duration(i)*100*time.Millisecond)
		}
		w.start()
		w.after(2 * time.Second)
		w.s.Release(w.t.Context())
		before := len(w.out.all())
		w.after(4 * time.Second)
		require.Greater(t, len(w.out.all()), before+30, "everything stood still")
		w.group.next() // another generation: the next commit is refused
		w.after(time.Second)
		stopped := len(w.out.all())
		w.after(4 * time.Second)
		require.Equal(t, stopped, len(w.out.all()), "sent after the generation was over")
		w.s.Quiesce(w.t.Context())
		w.s.Assign(w.group.next(), []Claim{w.group.claim()})
		w.after(10 * time.Second)
		seen := map[int64]int{}
		for _, s := range w.out.all() {
			seen[s.offset]++
		}
		require.Len(t, seen, 100)
	})
}

func TestLeaseEndsSendsWhenCommitsAreNotTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.topic.add("a", 9*time.Second)
		w.start()
		w.after(time.Second)
		w.group.mu.Lock()
		w.group.fail = func(Commit) error { return ErrUnavailable }
		w.group.mu.Unlock()
		w.after(20 * time.Second)
		require.Zero(t, len(w.out.all()), "sent without a lease")
		w.group.mu.Lock()
		w.group.fail = nil
		w.group.mu.Unlock()
		w.after(2 * time.Second)
		require.Equal(t, 1, len(w.out.all()))
	})
}

func TestIdlePartitionCommitsWithinAThirdOfTheSession(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.topic.add("a", time.Hour)
		w.start()
		w.after(5 * time.Second)
		_, _, before := w.group.committed()
		w.after(time.Minute)
		_, _, now := w.group.committed()
		require.GreaterOrEqual(t, now-before, 17)
	})
}

func TestOffsetMovedByHandIsNotDefeatedByWhatIsRemembered(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		for range 10 {
			w.topic.add("a", time.Second)
		}
		w.start()
		w.group.mu.Lock()
		w.group.fail = func(Commit) error { return ErrUnavailable }
		w.group.mu.Unlock()
		w.after(3 * time.Second)
		w.s.Quiesce(w.t.Context())
		w.s.Assign(w.group.next(), nil)
		w.group.mu.Lock()
		w.group.fail, w.group.offset, w.group.metadata = nil, 0, ""
		w.group.mu.Unlock()
		w.s.Assign(w.group.next(), []Claim{w.group.claim()})
		w.after(3 * time.Second)
		require.Equal(t, 20, len(w.out.all()))
	})
}
