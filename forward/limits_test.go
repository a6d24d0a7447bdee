package forward

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"delay-scheduler/delay"

	"github.com/stretchr/testify/require"
)

func TestIdleLanesAreDropped(t *testing.T) {
	inBubble(t, Options{IdleAfter: time.Minute}, []string{"orders"}, func(w *world) {
		o := w.owner("a-delay", 0)
		o.send("orders", entry(0, 5))
		o.send("typo", entry(1, 5))
		pass(time.Minute + 2*tick)
		require.Empty(t, w.lane("orders").Target)
		require.Equal(t, "parked", w.lane("typo").State, "somebody waits for it")
		o.do(func() { o.pending["typo"] = nil; o.port.Withdraw(); o.port.Resume() })
		pass(time.Minute + 2*tick)
		require.Empty(t, w.f.Lanes())
		o.send("orders", entry(2, 5))
		synctest.Wait()
		require.Equal(t, 2, o.outcome(delay.Sent))
		require.Equal(t, 2, w.cluster.askedFor("orders"))
	})
}

func TestLeastRecentlyUsedIdleLaneGivesWay(t *testing.T) {
	inBubble(t, Options{MaxLanes: 3}, []string{"t0", "t1", "t2", "t3"}, func(w *world) {
		o := w.owner("a-delay", 0)
		for i, target := range []string{"t0", "t1", "t2", "t0", "t3"} {
			o.send(target, entry(int64(i), 5))
			pass(2 * time.Second)
		}
		require.Equal(t, 5, o.outcome(delay.Sent))
		require.Len(t, w.f.Lanes(), 3)
		require.Empty(t, w.lane("t1").Target)
	})
}

func TestBusyLanesAreNotDroppedAndTheNextWaits(t *testing.T) {
	inBubble(t, Options{MaxLanes: 2}, []string{"t0", "t1", "t2"}, func(w *world) {
		o := w.owner("a-delay", 0)
		for i := range int64(2) {
			w.cluster.set(fmt.Sprint("t", i), func(t *topic) { t.delay = time.Minute })
			o.send(fmt.Sprint("t", i), entry(i, 5))
		}
		pass(2 * time.Second)
		o.send("t2", entry(2, 5))
		pass(30 * time.Second)
		require.Len(t, w.f.Lanes(), 2)
		require.Zero(t, w.cluster.produced("t2"))
		pass(32 * time.Second)
		require.Equal(t, 3, o.outcome(delay.Sent))
	})
}

// A producer that invents names: memory and questions stay bounded, known targets are
// not touched, other partitions' new targets neither, and what it sent is dead-lettered
// in time.
func TestInventedNamesStayBounded(t *testing.T) {
	const lanes, names = 20, 300
	o := Options{MaxLanes: lanes, GiveUpAfter: time.Minute}
	inBubble(t, o, []string{"orders", "bills", "a-dlq", "b-dlq"}, func(w *world) {
		hostile, other := w.owner("a-delay", 0), w.owner("b-delay", 0)
		other.send("orders", entry(0, 5))
		synctest.Wait()
		for i := range int64(names) {
			hostile.send(fmt.Sprint("invented-", i), entry(i, 5))
		}
		for i := range int64(120) {
			other.send("orders", entry(i+1, 5))
			synctest.Wait()
			require.Equal(t, int(i)+2, other.outcome(delay.Sent))
			pass(time.Second)
			w.f.mu.Lock()
			require.LessOrEqual(t, len(w.f.lanes), lanes)
			require.LessOrEqual(t, len(w.f.names.byName), namesPerLane*lanes)
			w.f.mu.Unlock()
		}
		other.send("bills", entry(1000, 5))
		pass(3 * time.Second)
		require.Equal(t, 122, other.outcome(delay.Sent))
		asked := 0
		for i := range names {
			n := w.cluster.askedFor(fmt.Sprint("invented-", i))
			require.LessOrEqual(t, n, 123/5+15) // a parked lane probes every 5 s in the mean
			asked += n
		}
		// In a second: 1 new name, 2 refused ones, and each of 20 lanes a fifth of a probe
		// or, when new, a few.
		require.Less(t, asked, 123*(1+2+4)*2)
		pass(2 * time.Hour)
		require.Equal(t, names, hostile.outcome(delay.DeadLettered))
	})
}

// What is known of a refused name outlives its lane: it is not asked for again at once,
// and the window goes on.
func TestRefusedNameIsRememberedWithoutItsLane(t *testing.T) {
	inBubble(t, Options{MaxLanes: 1, GiveUpAfter: time.Minute}, []string{"a-dlq"}, func(w *world) {
		p := w.open("a-delay", 0)
		p.Send("typo", entries(0, 1, 5))
		synctest.Wait()
		w.f.mu.Lock()
		asked := w.f.lanes["typo"].askedAt
		first := w.f.lanes["typo"].refused.firstAt
		require.True(t, w.f.evict(w.boot()))
		w.f.mu.Unlock()
		require.Empty(t, w.f.Lanes())
		p.Send("typo", entries(0, 1, 5))
		require.Equal(t, "parked", w.lane("typo").State)
		pass(askEvery - time.Second)
		require.Equal(t, 1, w.cluster.askedFor("typo"))
		pass(2 * time.Second)
		require.GreaterOrEqual(t, w.cluster.askedFor("typo"), 2)
		w.f.mu.Lock()
		require.Equal(t, first, w.f.lanes["typo"].refused.firstAt)
		require.Greater(t, w.f.lanes["typo"].askedAt, asked)
		w.f.mu.Unlock()
		p.Close()
	})
}

func TestNameCacheForgetsTheOldest(t *testing.T) {
	c := newNameCache(10)
	for i := range 100 {
		c.put(fmt.Sprint(i), refusedName{askedAt: time.Duration(i) * time.Second})
	}
	require.Len(t, c.byName, 10)
	for name, n := range c.byName {
		require.GreaterOrEqual(t, n.askedAt, 90*time.Second, name)
	}
	c.sweep(2*time.Minute, 25*time.Second)
	require.Len(t, c.byName, 5)
}
