package scheduler

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
			w.topic.put(header("target-topic", "a"), header("next-retry-time", fmt.Sprint(at)))
			w.after(20 * time.Millisecond)
		}
		w.after(time.Second)
		require.Equal(t, 600, len(w.out.all()))
		require.IsIncreasing(t, w.out.offsets())
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

func TestTargetInTroubleHoldsBackNobodyElse(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.out.refuse["parked"] = true
		w.out.slow["slow"] = 3 * time.Second
		for range 5000 {
			w.topic.add("parked", time.Second)
			w.topic.add("slow", time.Second)
			w.topic.add("well", time.Second)
		}
		w.start()
		w.after(1500 * time.Millisecond)
		count := map[string]int{}
		for _, s := range w.out.all() {
			count[s.target]++
		}
		require.Equal(t, 5000, count["well"])
		require.Zero(t, count["parked"])
		w.out.set(func() { w.out.refuse["parked"] = false })
		w.after(10 * time.Second)
		require.Equal(t, 15000, len(w.out.all()))
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

func TestReturnedRecordsGoAgainInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.out.bounce["a"] = 3
		for range 5000 {
			w.topic.add("a", time.Second)
		}
		w.start()
		w.after(10 * time.Second)
		require.Equal(t, 5000, len(w.out.all()))
	})
}

func TestMalformedRecordIsDeadLetteredAtOnceAndHoldsBackNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.topic.put(header("target-topic", "a"), header("delay-ms", "soon"))
		w.topic.put()
		w.topic.add("a", time.Second)
		w.start()
		w.after(2 * time.Second)
		require.Equal(t, 3, len(w.out.all()))
		require.Equal(t, "dlq", w.out.all()[0].target)
		o, _, _ := w.group.committed()
		require.EqualValues(t, 3, o)
	})
}

func TestMissingDeadLetterTopicKeepsTheRecordPendingAndTheRestGoing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.out.refuse["dlq"] = true
		w.topic.put(header("target-topic", "a"), header("delay-ms", "soon"))
		w.topic.add("a", time.Second)
		w.start()
		w.after(5 * time.Second)
		require.Equal(t, 1, len(w.out.all()))
		o, _, _ := w.group.committed()
		require.Zero(t, o)
		w.out.set(func() { w.out.refuse["dlq"] = false })
		w.after(3 * time.Second)
		require.Equal(t, 2, len(w.out.all()))
	})
}

func TestGapsInTheLogAreDone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.topic.skip(10)
		w.topic.add("a", time.Second)
		w.topic.skip(5) // markers at the end
		w.start()
		w.after(5 * time.Second)
		o, _, _ := w.group.committed()
		require.EqualValues(t, 16, o)
	})
}

func TestTruncatedLogIsReadAgainAndItsNewRecordsAreNotTakenForOldOnes(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		for i := range 100 {
			w.topic.add("a", time.Duration(i%2)*time.Hour+time.Second) // every second one is due at once
		}
		w.start()
		w.after(5 * time.Second)
		require.Equal(t, 50, len(w.out.all()))
		w.topic.truncate(60)
		w.after(time.Second)
		for range 30 {
			w.topic.add("b", time.Second) // offsets 60 to 89, known as done or pending from before
		}
		w.after(5 * time.Second)
		require.Equal(t, 80, len(w.out.all()), "a new record was taken for an old one")
		w.after(2 * time.Hour)
		require.Equal(t, 110, len(w.out.all()))
		o, _, _ := w.group.committed()
		require.EqualValues(t, 90, o)
		require.Zero(t, w.s.parts.Budget.Used())
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

func TestPartitionStopsReadingAtTheBudgetAndGoesOnWhenThereIsRoom(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.limit = 1 << 20
		for i := range 20000 {
			w.topic.add("a", time.Duration(5+i/1000)*time.Second)
		}
		w.start()
		w.after(2 * time.Second)
		require.LessOrEqual(t, w.s.parts.Budget.Used(), w.limit)
		require.Contains(t, fmt.Sprint(w.s.Troubles()), TroubleBudget)
		w.after(40 * time.Second)
		require.Equal(t, 20000, len(w.out.all()))
		require.Empty(t, w.s.Troubles())
		require.Zero(t, w.s.parts.Budget.Used())
		w.noneEarly()
	})
}

func TestDeletedTopicIsGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.topic.add("a", time.Hour)
		w.start()
		w.group.mu.Lock()
		w.group.fail = func(Commit) error { return ErrGone }
		w.group.mu.Unlock()
		w.after(10 * time.Second)
		require.Contains(t, fmt.Sprint(w.s.Troubles()), TroubleGone)
		w.s.Quiesce(w.t.Context())
		w.s.Assign(w.group.next(), nil)
		require.Empty(t, w.s.Troubles())
	})
}

func TestCommitMetadataShrinksWhenTheBrokerTakesLess(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.out.refuse["b"] = true
		for range 2000 {
			w.topic.add("a", time.Second)
			w.topic.add("b", time.Second)
		}
		w.start()
		w.group.mu.Lock()
		w.group.fail = func(c Commit) error {
			if len(c.Metadata) > 100 {
				return ErrMetadataTooLarge
			}
			return nil
		}
		w.group.mu.Unlock()
		w.after(10 * time.Second)
		_, m, n := w.group.committed()
		require.NotZero(t, n)
		require.LessOrEqual(t, len(m), 100)
	})
}

func TestRefusedCommitsAreTrouble(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.start()
		w.topic.add("a", time.Second)
		w.group.mu.Lock()
		w.group.fail = func(Commit) error { return errors.New("no") }
		w.group.mu.Unlock()
		w.after(20 * time.Second)
		require.Contains(t, fmt.Sprint(w.s.Troubles()), TroubleCommit)
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
