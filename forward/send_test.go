package forward

import (
	"testing"
	"testing/synctest"
	"time"

	"delay-scheduler/delay"

	"github.com/stretchr/testify/require"
)

func TestNothingEntersTheProducerBeforeTheTargetIsKnown(t *testing.T) {
	inBubble(t, Options{}, []string{"orders"}, func(w *world) {
		w.cluster.hangs = make(chan struct{})
		p := w.open("a-delay", 3)
		require.Zero(t, p.Send("orders", entries(0, 10, 20)))
		pass(5 * time.Second)
		require.Zero(t, p.Send("orders", entries(0, 10, 20)))
		require.Zero(t, w.cluster.produced("orders"))
		require.Equal(t, "resolving", w.lane("orders").State)

		close(w.cluster.hangs)
		<-p.Ready()
		require.Equal(t, 10, p.Send("orders", entries(0, 10, 20)))
		require.Equal(t, 10, p.InFlight())
		<-p.Ready()
		synctest.Wait()
		got := drain(p)
		require.Len(t, got, 10)
		require.Equal(t, delay.Sent, got[7])
		require.Zero(t, p.InFlight())
		require.Equal(t, 1, w.cluster.askedFor("orders"))
		p.Close()
	})
}

func TestRecordsForAnExpectedTargetAreTakenAtOnce(t *testing.T) {
	inBubble(t, Options{}, []string{"orders"}, func(w *world) {
		p := w.open("a-delay", 3)
		p.Expect("orders")
		p.Expect("orders")
		pass(time.Second)
		require.Equal(t, 1, w.cluster.askedFor("orders"))
		require.Equal(t, 10, p.Send("orders", entries(0, 10, 20)))
		require.Equal(t, 1, w.cluster.askedFor("orders"))
		p.Close()
		p.Expect("orders")
	})
}

func TestSentRecordIsWhatTheProtocolSays(t *testing.T) {
	inBubble(t, Options{}, []string{"orders"}, func(w *world) {
		o := w.owner("a-delay", 3)
		o.send("orders", entries(17, 2, 20)...)
		synctest.Wait()
		log := w.cluster.log("orders")
		require.Len(t, log, 2)
		r := log[1]
		require.Equal(t, "orders", r.Topic)
		require.Equal(t, "18", string(r.Key))
		require.Len(t, r.Value, 20)
		require.Equal(t, "x", r.header("trace"))
		require.Equal(t, "a-delay/3/18/1790000000000", r.header("delay-id"))
		require.Equal(t, "1790000000018", r.header("delay-due"))
		require.Len(t, r.Headers, 3)
		require.Len(t, log[0].Headers, 3)
		require.Equal(t, "a-delay/3/17/1790000000000", log[0].header("delay-id"))
	})
}

func TestSendTakesMoreThanAChunkInOrder(t *testing.T) {
	inBubble(t, Options{}, []string{"orders"}, func(w *world) {
		o := w.owner("a-delay", 0)
		o.send("orders", entries(0, 3*chunk+7, 5)...)
		synctest.Wait()
		require.Equal(t, 3*chunk+7, o.outcome(delay.Sent))
		requireAscending(t, w.cluster.log("orders"))
	})
}

func TestEntryWithoutPayloadIsNotTaken(t *testing.T) {
	inBubble(t, Options{}, []string{"orders"}, func(w *world) {
		p := w.open("a-delay", 0)
		p.Send("orders", entries(0, 1, 1))
		<-p.Ready()
		es := entries(0, 4, 1)
		es[2].Message = nil
		require.Equal(t, 2, p.Send("orders", es))
		require.Zero(t, p.Send("orders", es[2:]))
		p.Close()
	})
}

func TestSendWithoutProducerWaitsForOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{}, []string{"orders"})
		defer w.end()
		w.f.Close()
		w.f = New(Options{}, nil, time.Now, w.boot, w.f.log, nil)
		w.cluster.sink = w.f.Acks
		o := w.owner("a-delay", 0)
		o.send("orders", entries(0, 3, 5)...)
		pass(time.Minute)
		require.Empty(t, w.f.Lanes())
		w.f.Use(w.cluster)
		synctest.Wait()
		require.Equal(t, 3, o.outcome(delay.Sent))
	})
}

// A target that answers slowly has its own records wait, and nobody else's.
func TestF17_SlowTargetDelaysNobodyElse(t *testing.T) {
	targets := []string{"t0", "t1", "t2", "t3", "slow"}
	inBubble(t, Options{MaxInFlight: 1 << 20}, targets, func(w *world) {
		w.cluster.set("slow", func(t *topic) { t.delay = 3 * time.Second })
		for _, fast := range targets[:4] {
			w.cluster.set(fast, func(t *topic) { t.delay = 5 * time.Millisecond })
		}
		o := w.owner("a-delay", 0)
		due := time.Now()
		for i := range int64(5000) {
			o.send(targets[i%5], entry(i, 400))
		}
		pass(1500 * time.Millisecond)
		o.mu.Lock()
		n := 0
		for offset, at := range o.at {
			require.NotEqual(t, int64(4), offset%5)
			require.Less(t, at.Sub(due), 1500*time.Millisecond)
			n++
		}
		o.mu.Unlock()
		require.Equal(t, 4000, n)
		require.LessOrEqual(t, w.lane("slow").InFlightBytes, int64(1<<19), "half, for what it took while the others had nothing")
		pass(time.Minute)
		require.Equal(t, 5000, o.outcome(delay.Sent))
	})
}

// An outage of one target while a new port opens and another withdraws: none of the
// calls blocks.
func TestF35_OutageBlocksNoCall(t *testing.T) {
	inBubble(t, Options{MaxInFlight: 1 << 16}, []string{"orders", "outage"}, func(w *world) {
		w.cluster.set("outage", func(t *topic) { t.delay = 40 * time.Second })
		o := w.owner("a-delay", 0)
		o.send("outage", entries(0, 500, 100)...)
		synctest.Wait()
		before := time.Now()
		o.do(o.port.Withdraw)
		p := w.owner("a-delay", 1)
		p.send("orders", entries(0, 100, 100)...)
		synctest.Wait()
		require.Equal(t, 100, p.outcome(delay.Sent))
		o.do(o.port.Resume)
		require.Zero(t, time.Since(before))
		pass(3 * time.Hour)
		require.Equal(t, 500, o.outcome(delay.Sent))
		requireAscending(t, w.cluster.log("outage"))
	})
}
