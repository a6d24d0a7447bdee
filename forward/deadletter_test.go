package forward

import (
	"testing"
	"testing/synctest"
	"time"

	"delay-scheduler/delay"

	"github.com/stretchr/testify/require"
)

// One record that is too large between small ones: they are delivered, it goes to the
// dead-letter topic, and where that does not take it either, a pointer to it does.
func TestF39_OversizeRecordFailsAloneAndForGood(t *testing.T) {
	for _, tt := range []struct {
		name      string
		deadLimit int
		value     int
		pointer   string
	}{
		{name: "dead-letter topic takes it", deadLimit: 2 << 20, value: 3 << 19},
		{name: "dead-letter topic refuses it too", deadLimit: 1 << 20, value: 0, pointer: "a-delay/0/50"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, Options{MaxInFlight: 1 << 20}, []string{"orders", "a-dlq"}, func(w *world) {
				w.cluster.set("orders", func(t *topic) { t.limit = 1 << 20 })
				w.cluster.set("a-dlq", func(t *topic) { t.limit = tt.deadLimit })
				o := w.owner("a-delay", 0)
				es := entries(0, 101, 100)
				es[50] = entry(50, 3<<19)
				o.send("orders", es...)
				synctest.Wait()
				require.Equal(t, 100, o.outcome(delay.Sent))
				require.Equal(t, delay.DeadLettered, o.got[50])
				require.Equal(t, 101, w.cluster.produced("orders"))
				require.Equal(t, "open", w.lane("orders").State)
				dead := w.cluster.log("a-dlq")
				require.Len(t, dead, 1)
				require.Len(t, dead[0].Value, tt.value)
				require.Equal(t, "RECORD_TOO_LARGE", dead[0].header("dlq-reason"))
				require.Contains(t, dead[0].header("dlq-detail"), "message too large")
				require.Equal(t, "50", dead[0].header("original-offset"))
				require.Equal(t, tt.pointer, dead[0].header("dlq-pointer"))
				require.Zero(t, w.lane("a-dlq").InFlightBytes)
				require.Empty(t, w.f.Degraded())
			})
		})
	}
}

func TestRecordThatItsTargetRejectsIsADeadLetter(t *testing.T) {
	inBubble(t, Options{}, []string{"orders", "a-dlq"}, func(w *world) {
		w.cluster.set("orders", func(t *topic) {
			t.refuse = func(r delay.Outgoing) *Error {
				if string(r.Key) == "3" {
					return errInvalid
				}
				return nil
			}
		})
		o := w.owner("a-delay", 0)
		o.send("orders", entries(0, 10, 10)...)
		synctest.Wait()
		require.Equal(t, 9, o.outcome(delay.Sent))
		require.Equal(t, delay.DeadLettered, o.got[3])
		dead := w.cluster.log("a-dlq")[0]
		require.Equal(t, "TARGET_REFUSED", dead.header("dlq-reason"))
		require.Contains(t, dead.header("dlq-detail"), "invalid record")
	})
}

func TestMalformedRecordsGoToTheDeadLetterTopic(t *testing.T) {
	inBubble(t, Options{}, []string{"a-dlq"}, func(w *world) {
		o := w.owner("a-retry", 2)
		o.send(malformed, refusedEntry(7))
		synctest.Wait()
		require.Equal(t, delay.DeadLettered, o.got[7])
		dead := w.cluster.log("a-dlq")[0]
		require.Equal(t, "MALFORMED_HEADER", dead.header("dlq-reason"))
		require.Equal(t, `delay-ms "soon"`, dead.header("dlq-detail"))
		require.Equal(t, "2", dead.header("original-partition"))
		require.Equal(t, "body", string(dead.Value))
	})
}

// A dead-letter topic that is missing: what belongs there stays pending and is known to
// be a dead letter, the process is degraded, and everything else goes on.
func TestMissingDeadLetterTopicHoldsBackNobody(t *testing.T) {
	inBubble(t, Options{GiveUpAfter: 30 * time.Second}, []string{"orders"}, func(w *world) {
		w.cluster.set("orders", func(t *topic) { t.limit = 1000 })
		o := w.owner("a-delay", 0)
		o.send("orders", entry(0, 2000))
		o.send(malformed, refusedEntry(1))
		o.send("typo", entries(2, 10, 5)...)
		pass(10 * time.Minute)
		o.send("orders", entries(100, 50, 5)...)
		synctest.Wait()
		require.Equal(t, 50, o.outcome(delay.Sent))
		require.Zero(t, o.outcome(delay.DeadLettered))
		require.Equal(t, 51, w.cluster.produced("orders"), "the large one is not tried again")
		o.do(func() { require.Equal(t, 1, o.port.InFlight()) })
		require.Equal(t, 1, o.port.Held(), "what waits for its dead-letter topic is not under way")
		require.Equal(t, 1, w.lane("a-dlq").Waiting)
		require.Equal(t, []Trouble{
			{TroubleDeadLetterTopic, "a-dlq", errUnknown.Error()},
			{TroubleLane, "typo", errUnknown.Error()},
		}, w.f.Degraded())

		w.cluster.set("a-dlq", func(t *topic) { t.missing = false })
		pass(11 * time.Second)
		require.Equal(t, 12, o.outcome(delay.DeadLettered))
		require.Zero(t, o.port.Held())
		require.Len(t, w.cluster.log("a-dlq"), 12)
		require.Equal(t, []Trouble{{TroubleLane, "typo", errUnknown.Error()}}, w.f.Degraded())
	})
}

// Records for a target that was given up stay with their owner while the dead-letter
// topic is in trouble, so they are delivered when the target is the first to recover.
func TestGivenUpTargetThatRecoversBeforeTheDeadLetterTopic(t *testing.T) {
	inBubble(t, Options{GiveUpAfter: 30 * time.Second}, nil, func(w *world) {
		o := w.owner("a-delay", 0)
		o.send("late", entries(0, 100, 5)...)
		pass(5 * time.Minute)
		require.True(t, w.lane("late").GivenUp)
		o.do(func() { require.Zero(t, o.port.InFlight()) })
		w.cluster.set("late", func(t *topic) { t.missing = false })
		pass(11 * time.Second)
		require.Equal(t, 100, o.outcome(delay.Sent))
		requireAscending(t, w.cluster.log("late"))
	})
}

// A dead-letter topic that fails after metadata showed it: nothing is lost, and nothing
// is sent to the target again.
func TestDeadLetterTopicThatFailsInBetween(t *testing.T) {
	inBubble(t, Options{}, []string{"orders", "a-dlq"}, func(w *world) {
		w.cluster.set("orders", func(t *topic) { t.limit = 10 })
		o := w.owner("a-delay", 0)
		o.send("orders", entry(0, 20))
		synctest.Wait()
		require.Equal(t, 1, o.outcome(delay.DeadLettered))
		for i, fault := range []func(t *topic, on bool){
			func(t *topic, on bool) { t.down = on },
			func(t *topic, on bool) { t.forbidden = on },
			func(t *topic, on bool) { t.missing = on },
		} {
			w.cluster.set("a-dlq", func(t *topic) { fault(t, true) })
			o.send("orders", entries(int64(100*i)+1, 50, 20)...)
			pass(time.Minute)
			require.Equal(t, 1+50*i, o.outcome(delay.DeadLettered))
			w.cluster.set("a-dlq", func(t *topic) { fault(t, false) })
			pass(15 * time.Second)
			require.Equal(t, 51+50*i, o.outcome(delay.DeadLettered))
		}
		require.Equal(t, 151, w.cluster.produced("orders"))
		require.Len(t, w.cluster.log("a-dlq"), 151)
	})
}

// A record that its dead-letter topic takes in no form waits without holding up others.
func TestDeadLetterThatIsRefusedInEveryForm(t *testing.T) {
	inBubble(t, Options{}, []string{"orders", "a-dlq"}, func(w *world) {
		w.cluster.set("orders", func(t *topic) { t.limit = 10 })
		w.cluster.set("a-dlq", func(t *topic) {
			t.refuse = func(r delay.Outgoing) *Error {
				if string(r.Key) == "0" {
					return errInvalid
				}
				return nil
			}
		})
		o := w.owner("a-delay", 0)
		o.send("orders", entries(0, 5, 20)...)
		pass(time.Minute)
		require.Equal(t, 4, o.outcome(delay.DeadLettered))
		require.Equal(t, []Trouble{{TroubleDeadLetterTopic, "a-dlq", "refuses records and the pointers to them: invalid record"}}, w.f.Degraded())
		require.Less(t, w.cluster.produced("a-dlq"), 20)
		w.cluster.set("a-dlq", func(t *topic) { t.refuse = nil })
		pass(11 * time.Second)
		require.Equal(t, 5, o.outcome(delay.DeadLettered))
		log := w.cluster.log("a-dlq")
		pass(20 * time.Second)
		require.Empty(t, w.f.Degraded())
		require.Contains(t, log[4].header("dlq-detail"), "the dead-letter topic answered: invalid record")
	})
}

// The dead-letter topic is itself the target that is missing.
func TestMissingTargetThatIsItsOwnDeadLetterTopic(t *testing.T) {
	inBubble(t, Options{GiveUpAfter: 30 * time.Second}, nil, func(w *world) {
		o := w.owner("a-delay", 0)
		o.send("a-dlq", entry(0, 5))
		pass(time.Hour)
		require.Zero(t, w.cluster.produced("a-dlq"))
		require.Less(t, w.cluster.askedFor("a-dlq"), 1500)
		w.cluster.set("a-dlq", func(t *topic) { t.missing = false })
		pass(11 * time.Second)
		require.Equal(t, 1, o.outcome(delay.Sent))
	})
}

func TestDeadLettersThatWaitTakeNoRoomOfOthers(t *testing.T) {
	inBubble(t, Options{MaxInFlight: 1 << 16}, []string{"orders"}, func(w *world) {
		w.cluster.set("orders", func(t *topic) { t.limit = 1000 })
		o := w.owner("a-delay", 0)
		o.send("orders", entries(0, 200, 2000)...)
		pass(time.Minute)
		require.Equal(t, 200, w.lane("a-dlq").Waiting)
		require.Zero(t, w.lane("orders").InFlightBytes)
		require.Zero(t, w.lane("a-dlq").InFlightBytes)
		o.send("orders", entries(1000, 200, 500)...)
		synctest.Wait()
		require.Equal(t, 200, o.outcome(delay.Sent))
	})
}

func TestWithdrawGivesBackDeadLettersThatWait(t *testing.T) {
	inBubble(t, Options{}, []string{"orders"}, func(w *world) {
		w.cluster.set("orders", func(t *topic) { t.limit = 10 })
		p, q := w.open("a-delay", 0), w.open("a-delay", 1)
		p.Send("orders", entries(0, 1, 5))
		<-p.Ready()
		require.Equal(t, 5, p.Send("orders", entries(0, 5, 20)))
		require.Equal(t, 1, q.Send("orders", entries(0, 1, 20)))
		synctest.Wait()
		require.Empty(t, drain(p))
		require.Equal(t, 6, w.lane("a-dlq").Waiting)
		p.Withdraw()
		got := drain(p)
		require.Len(t, got, 5)
		require.Equal(t, delay.Returned, got[2])
		require.Zero(t, p.InFlight())
		require.Equal(t, 1, w.lane("a-dlq").Waiting)

		// While withdrawn, what would become a dead letter comes back instead.
		w.cluster.set("orders", func(t *topic) { t.delay = time.Second })
		p.Resume()
		require.Equal(t, 5, p.Send("orders", entries(0, 5, 20)))
		p.Withdraw()
		pass(2 * time.Second)
		require.Equal(t, delay.Returned, drain(p)[3])
		p.Close()
		q.Close()
		require.Zero(t, w.lane("a-dlq").Waiting)
	})
}

func TestDeadLettersAreNotHandedOverAfterTheLease(t *testing.T) {
	inBubble(t, Options{}, []string{"orders"}, func(w *world) {
		w.cluster.set("orders", func(t *topic) { t.limit = 10 })
		p := w.open("a-delay", 0)
		p.Send("orders", entries(0, 1, 5))
		<-p.Ready()
		require.Equal(t, 5, p.Send("orders", entries(0, 5, 20)))
		synctest.Wait()
		p.SetLease(w.boot() + 10*time.Second)
		pass(10 * time.Second)
		w.cluster.set("a-dlq", func(t *topic) { t.missing = false })
		pass(time.Minute)
		require.Zero(t, w.cluster.produced("a-dlq"))
		p.SetLease(w.boot() + time.Minute)
		pass(2 * time.Second)
		require.Equal(t, 5, w.cluster.produced("a-dlq"))
		p.Close()
	})
}
