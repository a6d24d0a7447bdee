package forward

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"delay-scheduler/delay"

	"github.com/stretchr/testify/require"
)

// The bound that the room promises: never more than the limit and one record for each
// lane with something in flight; and each lane is sure of its minimum.
func TestRoomIsBoundedAndSharedOut(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	const lanes, limit = 20, 1 << 20
	r := newRoom(limit, lanes)
	require.Equal(t, int64(limit/4/lanes), r.minimum)
	var used [lanes]int64
	var records [lanes][]int64
	for range 50_000 {
		i := rng.IntN(lanes)
		if rng.IntN(3) == 0 && len(records[i]) > 0 {
			r.move(&used[i], -records[i][0])
			records[i] = records[i][1:]
			continue
		}
		n := rng.Int64N(3000)
		if rng.IntN(50) == 0 {
			n = rng.Int64N(limit)
		}
		if used[i]+n <= r.minimum {
			require.True(t, r.fits(used[i], n), "the minimum")
		}
		if !r.fits(used[i], n) {
			continue
		}
		if used[i] > 0 && used[i] < r.used {
			require.LessOrEqual(t, used[i]+n, int64(limit/4))
		} else if used[i] > 0 {
			require.LessOrEqual(t, used[i]+n, int64(limit/2), "alone")
		}
		r.move(&used[i], n)
		records[i] = append(records[i], n)
		var sum, largest int64
		for j := range lanes {
			sum += used[j]
			one := int64(0)
			for _, n := range records[j] {
				one = max(one, n)
			}
			largest += one
		}
		require.Equal(t, sum, r.used)
		require.LessOrEqual(t, sum, limit+largest)
	}
	for i := range lanes {
		r.move(&used[i], -used[i])
	}
	require.Zero(t, r.used)
	require.Zero(t, r.excess)
}

func TestRoomWithEqualRecordsStaysBelowTheLimit(t *testing.T) {
	r := newRoom(1<<20, 100)
	var used [100]int64
	for i := range used {
		for r.fits(used[i], 100) {
			r.move(&used[i], 100)
		}
	}
	require.LessOrEqual(t, r.used, int64(1<<20))
	require.InDelta(t, 1<<19, used[0], 100, "a lane that is alone comes to half")
	require.False(t, r.fits(used[0], 1), "and takes no more beside others")
	require.GreaterOrEqual(t, used[99], r.minimum-100, "the last has its minimum")
}

// Lanes that never answer take parts of what is left, so that there is something for
// the next, and the one that works is not slowed.
func TestSilentTargetsCannotTakeAllRoom(t *testing.T) {
	names := []string{"orders"}
	for i := range 10 {
		names = append(names, fmt.Sprint("silent", i))
	}
	inBubble(t, Options{MaxInFlight: 1 << 20, MaxLanes: 100}, names, func(w *world) {
		o := w.owner("a-delay", 0)
		for i := range int64(10) {
			w.cluster.set(names[i+1], func(t *topic) { t.silent = true })
			o.send(names[i+1], entries(10_000*(i+1), 3000, 300)...)
			synctest.Wait()
		}
		o.send("orders", entries(0, 3000, 300)...)
		synctest.Wait()
		require.Equal(t, 3000, o.outcome(delay.Sent))
		require.LessOrEqual(t, w.f.room.used, int64(1<<20))
		require.LessOrEqual(t, w.lane("silent0").InFlightBytes, int64(1<<19))
		require.LessOrEqual(t, w.lane("silent1").InFlightBytes, int64(1<<18))
	})
}

// A large record needs its lane empty. It gets it although another port sends small
// ones all the time.
func TestLargeRecordDoesNotStarve(t *testing.T) {
	inBubble(t, Options{MaxInFlight: 1 << 20}, []string{"orders"}, func(w *world) {
		w.cluster.set("orders", func(t *topic) { t.delay = 2 * time.Millisecond })
		busy, large := w.owner("a-delay", 0), w.owner("a-delay", 1)
		next := int64(0)
		for range 100 {
			busy.send("orders", entries(next, 100, 2000)...)
			next += 100
		}
		large.send("orders", entry(0, 900_000))
		for range 100 {
			pass(time.Millisecond)
			busy.send("orders", entries(next, 10, 2000)...)
			next += 10
		}
		require.Equal(t, 1, large.outcome(delay.Sent))
		require.Less(t, busy.outcome(delay.Sent), int(next))
		pass(time.Minute)
		require.Equal(t, int(next), busy.outcome(delay.Sent))
	})
}

// Ports that all have more than there is room for get equal parts over many turns: a
// single turn is worth what happens to be free when its port comes.
func TestPortsOfOneLaneTakeTurns(t *testing.T) {
	inBubble(t, Options{MaxInFlight: 1 << 17}, []string{"orders"}, func(w *world) {
		w.cluster.set("orders", func(t *topic) { t.delay = 5 * time.Millisecond })
		const each = 8000
		var owners []*owner
		for i := range int32(4) {
			owners = append(owners, w.owner("a-delay", i))
			owners[i].send("orders", entries(0, each, 2000)...)
		}
		pass(3 * time.Second)
		sent := 0
		for _, o := range owners {
			require.Less(t, o.outcome(delay.Sent), each, "nobody is through")
			sent += o.outcome(delay.Sent)
		}
		require.Greater(t, sent, each, "that took many turns")
		for _, o := range owners {
			require.InEpsilon(t, sent/len(owners), o.outcome(delay.Sent), 0.3)
		}
		pass(time.Minute)
	})
}

// A port that is called and does not come holds up the others only for a moment.
func TestUnusedTurnLapses(t *testing.T) {
	inBubble(t, Options{MaxInFlight: 1 << 16}, []string{"orders"}, func(w *world) {
		w.cluster.set("orders", func(t *topic) { t.silent = true })
		p := w.open("a-delay", 0)
		p.Send("orders", entries(0, 1, 5))
		<-p.Ready()
		require.Equal(t, 1, p.Send("orders", entries(0, 1, 1<<15)))
		absent := w.open("a-delay", 1)
		require.Zero(t, absent.Send("orders", entries(0, 1, 1<<15)))
		o := w.owner("a-delay", 2)
		o.send("orders", entries(0, 1, 1<<15)...)
		synctest.Wait()
		require.Equal(t, 1, w.cluster.produced("orders"))
		w.f.Acks([]Ack{{Tag: w.cluster.topics["orders"].queue[0].Tag}})
		synctest.Wait()
		require.Len(t, absent.Ready(), 1)
		require.Equal(t, 1, w.cluster.produced("orders"))
		pass(grantFor + fastTick)
		require.Equal(t, 2, w.cluster.produced("orders"))
		p.Close()
		absent.Close()
	})
}

func TestPortThatLeavesGivesUpItsTurn(t *testing.T) {
	for name, leave := range map[string]func(p *Port){
		"withdraw": (*Port).Withdraw, "abandon": (*Port).Abandon, "close": (*Port).Close,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{MaxInFlight: 1 << 16}, []string{"orders"}, func(w *world) {
				w.cluster.set("orders", func(t *topic) { t.silent = true })
				p := w.open("a-delay", 0)
				p.Send("orders", entries(0, 1, 5))
				<-p.Ready()
				require.Equal(t, 1, p.Send("orders", entries(0, 1, 5000)))
				require.Zero(t, p.Send("orders", entries(1, 1, 1<<15)))
				o := w.owner("a-delay", 1)
				o.send("orders", entries(0, 3, 100)...)
				synctest.Wait()
				require.Equal(t, 1, w.cluster.produced("orders"), "behind the large one")
				leave(p)
				synctest.Wait()
				require.Equal(t, 4, w.cluster.produced("orders"))
				p.Close()
			})
		})
	}
}
