package forward

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"delay-scheduler/bucket"
	"delay-scheduler/delay"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func TestNothingIsSentWithoutALease(t *testing.T) {
	inBubble(t, Options{}, []string{"orders"}, func(w *world) {
		p := w.f.Open("a-delay", 0, &delay.Rules{})
		require.Zero(t, p.Send("orders", entries(0, 1, 5)))
		require.Empty(t, w.f.Lanes())
		p.SetLease(w.boot() + time.Minute)
		<-p.Ready()
		p.Send("orders", entries(0, 1, 5))
		<-p.Ready()
		require.Equal(t, 1, p.Send("orders", entries(0, 1, 5)))
		pass(time.Minute)
		require.Zero(t, p.Send("orders", entries(1, 1, 5)))
		require.Zero(t, p.SendDeadLetters([]bucket.Entry{refusedEntry(2)}))
		require.Equal(t, 1, w.cluster.produced("orders"))
		<-p.Ready()
		p.SetLease(w.boot() + time.Minute)
		<-p.Ready()
		require.Equal(t, 1, p.Send("orders", entries(1, 1, 5)))
		p.Close()
	})
}

// The lease ends while the records are being built, or the lane is parked: what was
// reserved is given back whole.
func TestReservationIsGivenBackWhenItCannotBeUsed(t *testing.T) {
	inBubble(t, Options{}, []string{"orders"}, func(w *world) {
		p := w.open("a-delay", 0)
		p.Send("orders", entries(0, 1, 5))
		<-p.Ready()
		es := entries(0, 3, 5)
		during := func(what func()) func(f *Forwarder, sizes []int64, at time.Duration) reservation {
			return func(f *Forwarder, sizes []int64, at time.Duration) reservation {
				r := f.reserve(p, "orders", sizes, at)
				what()
				return r
			}
		}
		require.Zero(t, p.send(es, during(func() { p.SetLease(w.boot()) })))
		p.SetLease(w.boot() + time.Hour)
		require.Zero(t, p.send(es, during(func() {
			w.f.mu.Lock()
			defer w.f.mu.Unlock()
			w.f.park(w.f.lanes["orders"], errDown, w.boot())
		})))
		require.Zero(t, w.cluster.produced("orders"))
		require.Zero(t, w.lane("orders").InFlight)
		require.Zero(t, w.lane("orders").InFlightBytes)
		require.Zero(t, p.InFlight())
		pass(time.Second)
		require.Equal(t, 3, p.Send("orders", es))
		synctest.Wait()
		require.Equal(t, "open", w.lane("orders").State)
		p.Close()
	})
}

func TestWithdrawAndResumeInTheMiddleOfSending(t *testing.T) {
	inBubble(t, Options{MaxInFlight: 1 << 16}, []string{"orders"}, func(w *world) {
		w.cluster.set("orders", func(t *topic) { t.delay = 10 * time.Millisecond })
		o := w.owner("a-delay", 0)
		o.send("orders", entries(0, 2000, 100)...)
		for range 20 {
			pass(7 * time.Millisecond)
			o.do(o.port.Withdraw)
			synctest.Wait()
			before := w.cluster.produced("orders")
			pass(time.Second)
			require.Equal(t, before, w.cluster.produced("orders"))
			o.do(func() { require.Zero(t, o.port.InFlight()) })
			o.do(o.port.Resume)
		}
		pass(time.Minute)
		require.Equal(t, 2000, o.outcome(delay.Sent))
		requireAscending(t, w.cluster.log("orders"))
	})
}

func TestAbandonReportsInDoubtAndLateAnswersAreHarmless(t *testing.T) {
	inBubble(t, Options{}, []string{"orders", "a-dlq"}, func(w *world) {
		p := w.open("a-delay", 0)
		p.Send("orders", entries(0, 1, 5))
		<-p.Ready()
		w.cluster.set("orders", func(t *topic) { t.silent = true })
		require.Equal(t, 6, p.Send("orders", entries(0, 6, 5)))
		queue := w.cluster.topics["orders"].queue
		w.f.Acks([]Ack{{Tag: queue[0].Tag}})
		p.Abandon()
		got := drain(p)
		require.Equal(t, delay.Sent, got[0])
		for i := int64(1); i < 6; i++ {
			require.Equal(t, delay.InDoubt, got[i])
		}
		require.Zero(t, p.InFlight())
		require.Equal(t, 5, w.lane("orders").InFlight, "the producer still has them")

		w.f.Acks([]Ack{{Tag: queue[1].Tag}, {Tag: queue[2].Tag, Err: errLarge}})
		p.Close()
		p.Close()
		w.f.Acks([]Ack{{Tag: queue[3].Tag}, {Tag: queue[4].Tag, Err: errLarge}, {Tag: queue[5].Tag, Err: errDown, Uncertain: true}})
		require.Zero(t, w.lane("orders").InFlightBytes)
		require.Empty(t, drain(p))
		require.Empty(t, w.f.waiting)
		p.Resume()
		require.Zero(t, p.Send("orders", entries(9, 1, 5)))
	})
}

// The producer promises one answer for each record. If it breaks the promise nothing
// is completed that was not sent.
func TestSecondAnswerChangesNothing(t *testing.T) {
	inBubble(t, Options{}, []string{"orders"}, func(w *world) {
		p := w.open("a-delay", 0)
		p.Send("orders", entries(0, 1, 5))
		<-p.Ready()
		w.cluster.set("orders", func(t *topic) { t.silent = true })
		require.Equal(t, 2, p.Send("orders", entries(0, 2, 5)))
		tag := w.cluster.topics["orders"].queue[0].Tag
		for range 3 {
			w.f.Acks([]Ack{{Tag: tag}, {Tag: tag}, {Tag: tag, Err: errDown}, {Tag: tag, Err: errLarge, Uncertain: true}})
		}
		require.Equal(t, map[int64]delay.Outcome{0: delay.Sent}, drain(p))
		require.Equal(t, 1, p.InFlight())
		require.Equal(t, 1, w.lane("orders").InFlight)
		require.Equal(t, "open", w.lane("orders").State)
		p.Close()
	})
}

func TestCloseEndsTheForwarderWhateverItDoes(t *testing.T) {
	inBubble(t, Options{}, []string{"orders"}, func(w *world) {
		w.cluster.hangs = make(chan struct{})
		o := w.owner("a-delay", 0)
		o.send("orders", entry(0, 5))
		o.send("typo", entry(1, 5))
		synctest.Wait()
		w.f.Close()
		w.f.Close()
		o.send("bills", entry(2, 5))
		synctest.Wait()
		require.Zero(t, w.cluster.produced("bills"))
	})
}

func TestStartStopStress(t *testing.T) {
	c := newCluster("orders")
	c.sink = func([]Ack) {}
	start := time.Now()
	var all sync.WaitGroup
	for g := range 10 {
		all.Go(func() {
			for range 50 {
				f := New(Options{}, c, time.Now, func() time.Duration { return time.Since(start) }, zap.NewNop(), nil)
				p := f.Open("a-delay", int32(g), &delay.Rules{})
				p.SetLease(time.Hour)
				p.Send("orders", entries(0, 3, 5))
				p.Send("typo", entries(3, 3, 5))
				if rand.IntN(2) == 0 {
					f.Close()
				}
				p.Close()
				f.Close()
			}
		})
	}
	all.Wait()
	c.works.Wait()
}

func TestMetricsCountWhatHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{GiveUpAfter: 5 * time.Second}, []string{"orders", "a-dlq"})
		defer w.end()
		w.f.Close()
		reg := prometheus.NewPedanticRegistry()
		w.f = New(w.f.opts, w.cluster, time.Now, w.boot, zap.NewNop(), reg)
		w.cluster.sink = w.f.Acks
		w.cluster.set("orders", func(t *topic) { t.limit = 100 })
		o := w.owner("a-delay", 0)
		o.send("orders", entries(0, 10, 5)...)
		o.send("orders", entry(10, 200))
		o.send("typo", entry(11, 5))
		pass(time.Minute)
		families, err := reg.Gather()
		require.NoError(t, err)
		names, counts := map[string]int{}, map[string]float64{}
		for _, f := range families {
			names[f.GetName()] = len(f.GetMetric())
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					counts[l.GetValue()] = m.GetCounter().GetValue()
				}
				if len(m.GetLabel()) == 0 {
					counts[f.GetName()] = m.GetCounter().GetValue()
				}
			}
		}
		require.InDelta(t, 10, counts["delay_scheduler_forwarded_records_total"], 0)
		require.InDelta(t, 1, counts["RECORD_TOO_LARGE"], 0)
		require.InDelta(t, 1, counts["UNKNOWN_TOPIC"], 0)
		require.InDelta(t, 1, counts["unknown-topic"], 0)
		require.Equal(t, map[string]int{
			"delay_scheduler_forwarded_records_total": 1, "delay_scheduler_dead_letters_total": len(delay.Reasons()),
			"delay_scheduler_lateness_seconds": 1, "delay_scheduler_lanes": int(laneStates),
			"delay_scheduler_in_flight_bytes": 1, "delay_scheduler_in_flight_limit_bytes": 1,
			"delay_scheduler_returned_total": 1, "delay_scheduler_in_doubt_total": 1, "delay_scheduler_parks_total": 6,
		}, names)
	})
}
