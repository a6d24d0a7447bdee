package forward

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"delay-scheduler/delay"

	"github.com/stretchr/testify/require"
)

// 1,000 records for a topic that does not exist, mixed with 1,000 for one that does,
// and ten minutes more of the mix.
func TestF37_MissingTargetHoldsBackNobodyAndEndsInTheDeadLetterTopic(t *testing.T) {
	inBubble(t, Options{GiveUpAfter: 30 * time.Second}, []string{"orders", "a-dlq"}, func(w *world) {
		w.cluster.set("orders", func(t *topic) { t.delay = 5 * time.Millisecond })
		o := w.owner("a-delay", 0)
		offset, due := int64(0), map[int64]time.Time{}
		mix := func(n int) {
			for range n {
				due[offset], due[offset+1] = time.Now(), time.Now()
				o.send("orders", entry(offset, 200))
				o.send("orders-typo", entry(offset+1, 200))
				offset += 2
			}
		}
		mix(1000)
		for range 600 {
			pass(time.Second)
			mix(2)
		}
		pass(time.Minute)
		require.Equal(t, 2200, o.outcome(delay.Sent))
		require.Equal(t, 2200, o.outcome(delay.DeadLettered))
		require.Zero(t, w.cluster.produced("orders-typo"))
		for id, at := range o.at {
			if id%2 == 0 {
				require.LessOrEqual(t, at.Sub(due[id]), 50*time.Millisecond)
			} else {
				require.LessOrEqual(t, at.Sub(due[id]), 31*time.Second)
			}
		}
		dead := w.cluster.log("a-dlq")
		require.Len(t, dead, 2200)
		require.Equal(t, "UNKNOWN_TOPIC", dead[0].header("dlq-reason"))
		require.Contains(t, dead[0].header("dlq-detail"), `"orders-typo"`)
		require.Contains(t, dead[0].header("dlq-detail"), "given up after 30s")
		require.Equal(t, "a-delay", dead[0].header("original-topic"))
		// The wait is the first records' alone: those that came after the verdict went on
		// at once.
		require.Less(t, o.at[offset-1].Sub(due[offset-1]), time.Second)
		require.LessOrEqual(t, w.cluster.askedFor("orders-typo"), 660/3, "full jitter up to ten seconds")
		require.True(t, w.lane("orders-typo").GivenUp)
	})
}

func TestTopicCreatedInsideTheWindowGetsItsRecords(t *testing.T) {
	inBubble(t, Options{GiveUpAfter: 30 * time.Second}, []string{"a-dlq"}, func(w *world) {
		o := w.owner("a-delay", 0)
		o.send("late", entries(0, 1000, 50)...)
		pass(20 * time.Second)
		require.Equal(t, "parked", w.lane("late").State)
		require.Contains(t, w.lane("late").Error, "unknown topic")
		require.Equal(t, []Trouble{{TroubleLane, "late", "unknown topic or partition"}}, w.f.Degraded())
		w.cluster.set("late", func(t *topic) { t.missing = false })
		pass(11 * time.Second)
		require.Equal(t, 1000, o.outcome(delay.Sent))
		requireAscending(t, w.cluster.log("late"))
		require.Empty(t, w.cluster.log("a-dlq"))
		require.Empty(t, w.f.Degraded())
		require.Equal(t, "open", w.lane("late").State)
	})
}

// The window counts from the lane's first refusal, not from each record.
func TestGiveUpCountsFromTheFirstRefusal(t *testing.T) {
	inBubble(t, Options{GiveUpAfter: time.Minute}, []string{"a-dlq"}, func(w *world) {
		o := w.owner("a-delay", 0)
		o.send("gone", entry(0, 5))
		pass(50 * time.Second)
		o.send("gone", entry(1, 5))
		pass(9 * time.Second)
		require.Zero(t, o.outcome(delay.DeadLettered))
		pass(1500 * time.Millisecond)
		require.Equal(t, 2, o.outcome(delay.DeadLettered))
		o.send("gone", entry(2, 5))
		synctest.Wait()
		require.Equal(t, 3, o.outcome(delay.DeadLettered))

		// Probing goes on, so it heals.
		w.cluster.set("gone", func(t *topic) { t.missing = false })
		pass(11 * time.Second)
		o.send("gone", entry(3, 5))
		synctest.Wait()
		require.Equal(t, 1, o.outcome(delay.Sent))

		// And the next trouble has a window of its own.
		w.cluster.set("gone", func(t *topic) { t.missing = true })
		o.send("gone", entry(4, 5))
		pass(58 * time.Second)
		require.Equal(t, 3, o.outcome(delay.DeadLettered))
		pass(3 * time.Second)
		require.Equal(t, 4, o.outcome(delay.DeadLettered))
	})
}

// A topic that metadata shows and that refuses to be written to: each probe succeeds,
// and each trial fails.
func TestForbiddenTargetIsGivenUpAlthoughProbesSucceed(t *testing.T) {
	inBubble(t, Options{GiveUpAfter: 30 * time.Second}, []string{"secret", "orders", "a-dlq"}, func(w *world) {
		w.cluster.set("secret", func(t *topic) { t.forbidden = true })
		o := w.owner("a-delay", 0)
		o.send("secret", entries(0, 100, 50)...)
		o.send("orders", entries(1000, 100, 50)...)
		pass(29 * time.Second)
		require.Equal(t, 100, o.outcome(delay.Sent))
		require.Zero(t, o.outcome(delay.DeadLettered))
		tried := w.cluster.produced("secret")
		require.Less(t, tried, 100+20*trialRecords)
		pass(20 * time.Second)
		require.Equal(t, 100, o.outcome(delay.DeadLettered))
		require.Equal(t, "NOT_AUTHORIZED", w.cluster.log("a-dlq")[0].header("dlq-reason"))

		w.cluster.set("secret", func(t *topic) { t.forbidden = false })
		pass(10 * time.Second)
		o.send("secret", entries(2000, 100, 50)...)
		synctest.Wait()
		require.Equal(t, 200, o.outcome(delay.Sent))
	})
}

// A name that the cluster rejects will not become right.
func TestRejectedNameIsGivenUpAtOnce(t *testing.T) {
	inBubble(t, Options{}, []string{"a-dlq"}, func(w *world) {
		c := &resolver{cluster: w.cluster, answer: func(name string) *Error {
			if name == "bad" {
				return &Error{Class: Rejected, Err: errors.New("invalid topic")}
			}
			return nil
		}}
		w.f.Use(c)
		o := w.owner("a-delay", 0)
		o.send("bad", entries(0, 5, 5)...)
		synctest.Wait()
		require.Equal(t, 5, o.outcome(delay.DeadLettered))
		require.Equal(t, "TARGET_REFUSED", w.cluster.log("a-dlq")[0].header("dlq-reason"))
	})
}

type resolver struct {
	*cluster
	answer func(name string) *Error
}

// Resolve implements Producer.
func (r *resolver) Resolve(_ context.Context, name string) *Error { return r.answer(name) }

// Order must survive parking: what came back goes before what is new, for each source
// and also among equal due times.
func TestOrderIsKeptThroughParkReturnAndResend(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			inBubble(t, Options{MaxInFlight: 1 << 17}, []string{"orders"}, func(w *world) {
				rng := rand.New(rand.NewPCG(seed, 1))
				w.cluster.set("orders", func(t *topic) { t.delay = 3 * time.Millisecond })
				sources := []*owner{w.owner("a-delay", 0), w.owner("a-delay", 1), w.owner("b-delay", 0)}
				next := int64(0)
				for range 200 {
					for range rng.IntN(40) {
						e := entry(next, rng.IntN(300))
						e.Due = e.Due / 50 * 50 // equal due times
						sources[rng.IntN(3)].send("orders", e)
						next++
					}
					down := rng.IntN(3) == 0
					w.cluster.set("orders", func(t *topic) { t.down = down })
					pass(time.Duration(rng.IntN(200)) * time.Millisecond)
				}
				w.cluster.set("orders", func(t *topic) { t.down = false })
				pass(time.Minute)
				sum := 0
				for _, o := range sources {
					sum += o.outcome(delay.Sent)
				}
				require.Equal(t, int(next), sum)
				log := w.cluster.log("orders")
				require.Len(t, log, int(next))
				requireAscending(t, log)
			})
		})
	}
}

func TestHalfOpenLaneLetsFewThrough(t *testing.T) {
	inBubble(t, Options{}, []string{"orders"}, func(w *world) {
		w.cluster.set("orders", func(t *topic) { t.down = true })
		o := w.owner("a-delay", 0)
		o.send("orders", entries(0, 300, 5)...)
		pass(3 * time.Second)
		require.Equal(t, "parked", w.lane("orders").State)
		require.Zero(t, w.cluster.produced("orders"))
		w.cluster.set("orders", func(t *topic) { t.down, t.delay = false, 20*time.Second })
		pass(11 * time.Second)
		require.Equal(t, "half-open", w.lane("orders").State)
		require.Equal(t, trialRecords, w.cluster.produced("orders"))
		pass(20 * time.Second)
		require.Equal(t, "open", w.lane("orders").State)
		require.Equal(t, 300, w.cluster.produced("orders"))
	})
}

func TestProbesBackOff(t *testing.T) {
	inBubble(t, Options{ProbeMin: 100 * time.Millisecond, ProbeMax: 10 * time.Second}, nil, func(w *world) {
		w.cluster.set("orders", func(t *topic) { t.missing, t.down = false, true })
		o := w.owner("a-delay", 0)
		o.send("orders", entry(0, 5))
		pass(10 * time.Minute)
		// Full jitter: about half the longest wait each in the long run.
		require.InDelta(t, 600/5, w.cluster.askedFor("orders"), 60)
		require.NotNil(t, w.lane("orders").NextProbe)
	})
}

func TestUncertainSendIsInDoubtAndNeverADeadLetter(t *testing.T) {
	inBubble(t, Options{}, []string{"orders", "a-dlq"}, func(w *world) {
		w.cluster.set("orders", func(t *topic) { t.silent = true })
		o := w.owner("a-delay", 0)
		o.send("orders", entries(0, 3, 5)...)
		synctest.Wait()
		w.f.Acks([]Ack{
			{Tag: w.cluster.topics["orders"].queue[0].Tag, Uncertain: true},
			{Tag: w.cluster.topics["orders"].queue[1].Tag, Err: errDown, Uncertain: true},
			{Tag: w.cluster.topics["orders"].queue[2].Tag, Err: errLarge, Uncertain: true},
		})
		synctest.Wait()
		require.Equal(t, 3, o.outcome(delay.InDoubt))
		require.Empty(t, w.cluster.log("a-dlq"))
		require.Equal(t, "parked", w.lane("orders").State)
	})
}

func TestProducerThatCannotGoOnIsReplaced(t *testing.T) {
	inBubble(t, Options{}, []string{"orders", "bills"}, func(w *world) {
		w.cluster.set("orders", func(t *topic) { t.refuse = func(delay.Outgoing) *Error { return errFatal } })
		o := w.owner("a-delay", 0)
		o.send("bills", entries(100, 10, 5)...)
		synctest.Wait()
		o.send("orders", entries(0, 10, 5)...)
		synctest.Wait()
		o.send("bills", entries(200, 10, 5)...)
		pass(time.Minute)
		require.Equal(t, 10, o.outcome(delay.Sent))
		require.Equal(t, []Trouble{{TroubleProducer, "producer", "fenced"}}, w.f.Degraded())

		second := newCluster("orders", "bills")
		second.sink = w.f.Acks
		w.f.Use(second)
		pass(time.Minute)
		require.Equal(t, 30, o.outcome(delay.Sent))
		require.Len(t, second.log("bills"), 10)
		require.Empty(t, w.f.Degraded())
	})
}

// One partition of a target fails and another works: the lane flaps, and both end well.
func TestRefusalsOfAnEarlierEpochDoNotParkAgain(t *testing.T) {
	inBubble(t, Options{}, []string{"orders"}, func(w *world) {
		p := w.open("a-delay", 0)
		p.Send("orders", entries(0, 1, 5))
		<-p.Ready()
		w.cluster.set("orders", func(t *topic) { t.silent = true })
		require.Equal(t, 3, p.Send("orders", entries(0, 3, 5)))
		old := w.cluster.topics["orders"].queue
		w.cluster.topics["orders"].queue = nil
		w.f.Acks([]Ack{{Tag: old[0].Tag, Err: errDown}})
		require.Equal(t, "parked", w.lane("orders").State)
		require.Len(t, drain(p), 1)
		require.Zero(t, p.Send("orders", entries(0, 1, 5)))
		pass(time.Second)
		require.Equal(t, "half-open", w.lane("orders").State)
		require.Equal(t, 1, p.Send("orders", entries(0, 1, 5)))

		w.f.Acks([]Ack{{Tag: old[1].Tag, Err: errDown}})
		require.Equal(t, "half-open", w.lane("orders").State)
		w.f.Acks([]Ack{{Tag: old[2].Tag}})
		require.Equal(t, "half-open", w.lane("orders").State)
		w.f.Acks([]Ack{{Tag: w.cluster.topics["orders"].queue[0].Tag}})
		require.Equal(t, "open", w.lane("orders").State)
		require.Zero(t, w.lane("orders").InFlightBytes)
		p.Close()
	})
}

// What came back and was not taken yet is older than whatever is offered now.
func TestNothingOvertakesWhatCameBack(t *testing.T) {
	inBubble(t, Options{}, []string{"orders", "bills"}, func(w *world) {
		p := w.open("a-delay", 0)
		p.Send("orders", entries(0, 1, 5))
		<-p.Ready()
		w.cluster.set("orders", func(t *topic) { t.silent = true })
		p.Send("orders", entries(0, 1, 5))
		w.f.Acks([]Ack{{Tag: w.cluster.topics["orders"].queue[0].Tag, Err: errDown}})
		pass(time.Second)
		require.Equal(t, "half-open", w.lane("orders").State)
		require.Zero(t, p.Send("orders", entries(1, 1, 5)))
		<-p.Ready()
		require.Equal(t, map[int64]delay.Outcome{0: delay.Returned}, drain(p))
		require.Equal(t, 1, p.Send("orders", entries(0, 1, 5)))
		p.Close()
	})
}

func TestWallClockStepsChangeNoInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{}, []string{"a-dlq"})
		defer w.end()
		w.f.Close()
		step := time.Duration(0)
		w.f = New(Options{GiveUpAfter: time.Minute}, w.cluster, func() time.Time { return time.Now().Add(step) }, w.boot, w.f.log, nil)
		w.cluster.sink = w.f.Acks
		o := w.owner("a-delay", 0)
		o.send("gone", entry(0, 5))
		pass(10 * time.Second)
		o.do(func() { step = -24 * time.Hour })
		pass(10 * time.Second)
		o.do(func() { step = 24 * time.Hour })
		pass(39 * time.Second)
		require.Zero(t, o.outcome(delay.DeadLettered))
		pass(2 * time.Second)
		require.Equal(t, 1, o.outcome(delay.DeadLettered))
	})
}
