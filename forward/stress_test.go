package forward

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"delay-scheduler/delay"

	"github.com/stretchr/testify/require"
)

// Owners without timers send through a small room to targets that come and go, answer
// late and refuse records, while they withdraw, resume and lose their lease. If one
// wake-up were lost something would be left over; if an order were broken a log shows it.
func TestNoWakeUpIsLostAndNoOrderBroken(t *testing.T) {
	const owners, targets, records = 6, 5, 1500
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var names []string
	for i := range targets {
		names = append(names, fmt.Sprint("t", i))
	}
	o := Options{MaxInFlight: 1 << 16, MaxLanes: 6, GiveUpAfter: 24 * time.Hour}
	inBubble(t, o, append(names, "a-dlq"), func(w *world) {
		for i, name := range names {
			w.cluster.set(name, func(t *topic) {
				t.delay = time.Duration(i) * time.Millisecond
				t.limit = 30_000
			})
		}
		var all sync.WaitGroup
		for i := range owners {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			o := w.owner("a-delay", int32(i))
			all.Go(func() { disturb(o, rng, names, records) })
		}
		rng := rand.New(rand.NewPCG(seed, 99))
		for range 200 {
			name := append(names, "a-dlq")[rng.IntN(targets+1)]
			fault := rng.IntN(3)
			w.cluster.set(name, func(t *topic) { t.down, t.missing = fault == 1, fault == 2 })
			pass(time.Duration(rng.IntN(300)) * time.Millisecond)
		}
		for _, name := range append(names, "a-dlq") {
			w.cluster.set(name, func(t *topic) { t.down, t.missing = false, false })
		}
		all.Wait()
		pass(time.Hour)
		for _, o := range w.owners {
			o.mu.Lock()
			require.Len(t, o.got, records)
			o.mu.Unlock()
			require.Zero(t, o.outcome(delay.InDoubt))
		}
		for _, name := range names {
			requireAscending(t, w.cluster.log(name))
		}
		w.f.mu.Lock()
		defer w.f.mu.Unlock()
		require.Zero(t, w.f.room.used)
		require.Zero(t, w.f.room.excess)
		require.Empty(t, w.f.hungry)
		require.Empty(t, w.f.waiting)
	})
}

// disturb sends an owner's records and gets in the way of it.
func disturb(o *owner, rng *rand.Rand, names []string, records int64) {
	for i := range records {
		size := rng.IntN(400)
		if rng.IntN(100) == 0 {
			size = rng.IntN(40_000)
		}
		o.send(names[rng.IntN(len(names))], entry(i, size))
		switch rng.IntN(200) {
		case 0:
			o.do(o.port.Withdraw)
			pass(time.Duration(rng.IntN(1000)) * time.Millisecond)
			o.do(o.port.Resume)
		case 1:
			o.do(func() { o.port.SetLease(o.w.boot()) })
			pass(time.Duration(rng.IntN(1000)) * time.Millisecond)
			o.do(func() { o.port.SetLease(1 << 62) })
		}
		if rng.IntN(10) == 0 {
			pass(time.Duration(rng.IntN(30)) * time.Millisecond)
		}
	}
}

// The same without a fake clock, so that everything happens at once.
func TestManyPortsAtOnce(t *testing.T) {
	const ports, records = 8, 1500
	w := newWorld(t, Options{MaxInFlight: 1 << 16}, []string{"t0", "t1", "t2"})
	defer w.end()
	w.cluster.set("t2", func(t *topic) { t.limit = 1000 })
	w.cluster.set("a-dlq", func(t *topic) { t.missing = false })
	var all sync.WaitGroup
	for i := range ports {
		o := w.owner("a-delay", int32(i))
		all.Go(func() {
			for n := int64(0); n < records; n += 10 {
				o.send(fmt.Sprint("t", n/10%3), entries(n, 10, int(n%1500))...)
			}
		})
	}
	all.Wait()
	for _, o := range w.owners {
		require.Eventually(t, func() bool {
			return o.outcome(delay.Sent)+o.outcome(delay.DeadLettered) == records
		}, time.Minute, 5*time.Millisecond)
	}
	for i := range 3 {
		requireAscending(t, w.cluster.log(fmt.Sprint("t", i)))
	}
}

func TestBubbleCanBeLeftWhileProbing(t *testing.T) {
	inBubble(t, Options{}, nil, func(w *world) {
		o := w.owner("a-delay", 0)
		for i := range int64(100) {
			o.send(fmt.Sprint("typo-", i), entry(i, 5))
		}
		synctest.Wait()
	})
}
