package scheduler

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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

func TestBacklogOfOneTargetDelaysAnotherByMillisecondsOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.out.refuse["parked"] = true
		at := time.Now().Add(5 * time.Second).UnixMilli()
		for range 60_000 { // far more than may wait before popping slows down
			w.topic.addDue("parked", at)
		}
		w.topic.addDue("well", at)
		w.start()
		w.after(6 * time.Second)
		require.Equal(t, 1, len(w.out.all()), "the other target's record waits behind the backlog")
		require.Less(t, w.out.all()[0].at.UnixMilli()-at, int64(200))
		w.out.set(func() { w.out.refuse["parked"] = false })
		w.after(10 * time.Second)
		require.Equal(t, 60_001, len(w.out.all()))
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

// What is in flight when a log is cut, or found to hold another record, is answered before
// the log is read again: else it would be sent a second time.
func TestWhatIsInFlightWhenALogWasCutIsNotSentTwice(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.out.slow["a"] = 3 * time.Second
		for i := range 100 {
			w.topic.add("a", time.Duration(i%2)*time.Hour+time.Second)
		}
		w.start()
		w.after(2 * time.Second)
		require.Equal(t, 50, len(w.out.all()), "they are in flight")
		w.topic.truncate(60)
		w.after(2 * time.Hour)
		w.topic.add("a", time.Second)
		w.after(5 * time.Second)
		offsets := map[int64]int{}
		for _, s := range w.out.all() {
			offsets[s.offset]++
		}
		require.Equal(t, 2, offsets[60], "another record under that offset")
		for o := range int64(60) {
			require.Equal(t, 1, offsets[o], "offset %d", o)
		}
	})
}

func TestPartitionStopsReadingAtTheBudgetAndGoesOnWhenThereIsRoom(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.limit = 64 << 10 // the index alone takes more
		w.scatter(20_000, 5*time.Second, 30*time.Second)
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

func TestTransactionThatHangsIsReportedWhileItDoes(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.start()
		w.topic.tell(Batch{Hanging: &Transaction{Offset: 7, ProducerID: 4711, Open: time.Minute}})
		w.after(time.Second)
		require.Equal(t, TroubleHanging, w.s.Troubles()[0].Reason)
		require.Contains(t, w.s.Troubles()[0].Detail, "producer id 4711")
		w.topic.tell(Batch{})
		w.after(time.Second)
		require.Empty(t, w.s.Troubles())
	})
}
