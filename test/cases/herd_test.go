package cases

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"delay-scheduler/internal/testkafka"
)

// herd is what falls due at one instant, and what it is judged by.
type herd struct {
	records    int
	wait       time.Duration // until the instant
	laterBound time.Duration // for those that fall due afterwards, for another target
}

func TestF43ManyRecordsOfOneInstantAreSentOnceAndHoldUpNobody(t *testing.T) {
	t.Parallel()
	herds := []herd{{100_000, 14 * time.Second, 2 * time.Second}}
	if long {
		herds = []herd{{500_000, 40 * time.Second, 5 * time.Second}, {1_000_000, 70 * time.Second, 5 * time.Second}}
	}
	for _, h := range herds {
		t.Run(fmt.Sprint(h.records), func(t *testing.T) { stampede(t, h) })
	}
}

// stampede has two instances and three targets: a fast one, one whose broker answers
// slowly, and one for a hundred records that are due three seconds later.
func stampede(t *testing.T, h herd) {
	const partitions, later, gap = 6, 100, 3000
	w, c := twoNodes(t)
	on := func(node int32, partitions int) (placed [][]int32) {
		for range partitions {
			placed = append(placed, []int32{node})
		}
		return placed
	}
	c.CreateTopicOn(w.topic("herd-delay"), on(0, partitions), testkafka.LogAppendTime())
	c.CreateTopicOn(w.topic("herd-dlq"), on(0, 1), testkafka.LogAppendTime())
	c.CreateTopicOn(w.topic("fast"), on(0, 3), testkafka.LogAppendTime())
	c.CreateTopicOn(w.topic("slow"), on(1, 3), testkafka.LogAppendTime())
	c.CreateTopicOn(w.topic("later"), on(0, 1), testkafka.LogAppendTime())
	coordinateOn(t, c, w.name, 0)
	both := []*process{w.start(), w.start()}
	require.Eventually(t, func() bool {
		return len(both[0].status().Partitions) > 0 && len(both[0].status().Partitions)+len(both[1].status().Partitions) == partitions+1
	}, 20*time.Second, 50*time.Millisecond)
	joined := both[0].metric("delay_scheduler_rebalances_total") + both[1].metric("delay_scheduler_rebalances_total")

	due := time.Now().Add(h.wait).UnixMilli()
	w.stream(h.records+later, func(i int) *kgo.Record {
		to, at := []string{"fast", "slow"}[i%2], due
		if i >= h.records {
			to, at = "later", due+gap
		}
		r := w.record("herd-delay", to, text("next-retry-time", fmt.Sprint(at)))
		r.Value, r.Partition = sized(i, 200), int32(i/2%partitions)
		return r
	})
	require.Less(t, time.Now().UnixMilli(), due, "they fell due while they were written")
	c.Proxy(1).Delay(300 * time.Millisecond)
	bounded(t, both, h.records+later, h.wait+scaled(50*time.Second, 5*time.Minute))
	rejoined := both[0].metric("delay_scheduler_rebalances_total") + both[1].metric("delay_scheduler_rebalances_total")
	require.InDelta(t, joined, rejoined, 0, "a member was expelled")
	observed := both[0].metric("delay_scheduler_lateness_seconds_count") + both[1].metric("delay_scheduler_lateness_seconds_count")
	require.EqualValues(t, h.records+later, observed, "lateness is exported for each")
	idle(t, both)

	c.Proxy(1).Delay(0)
	arrived := make(map[int]bool, h.records)
	for suffix, want := range map[string]int{"fast": h.records / 2, "slow": h.records / 2, "later": later} {
		recs := w.complete(suffix, want, scaled(30*time.Second, 3*time.Minute))
		for _, r := range recs {
			arrived[numbered(t, r)] = true
		}
		l := late(t, recs)
		t.Logf("%s: %v", suffix, l)
		if suffix == "later" {
			require.Less(t, l.at(100), (h.laterBound + slack*time.Millisecond).Milliseconds(), "held up by the many")
		}
	}
	require.Len(t, arrived, h.records+later, "twice")
}

// bounded waits until so many were forwarded, and meanwhile looks at what is in flight.
func bounded(t *testing.T, all []*process, n int, within time.Duration) {
	t.Helper()
	most, sent := 0.0, 0.0
	require.Eventually(t, func() bool {
		sent = 0
		for _, p := range all {
			sent += p.metric("delay_scheduler_forwarded_records_total")
			used := p.metric("delay_scheduler_in_flight_bytes")
			most = max(most, used)
			if limit := p.metric("delay_scheduler_in_flight_limit_bytes"); used > limit {
				t.Errorf("%v bytes are in flight, the limit is %v", used, limit)
			}
		}
		return int(sent) >= n
	}, within, 100*time.Millisecond, "%v of %d were sent", lazy(func() any { return sent }), n)
	require.Positive(t, most, "nothing was ever seen in flight")
	t.Logf("%.0f KiB were in flight at the most", most/1024)
}

// idle says that what has nothing to do takes a tenth of a processor at the most.
func idle(t *testing.T, all []*process) {
	t.Helper()
	for i, p := range all {
		share := 1.0
		require.Eventually(t, func() bool {
			before, began := p.metric("process_cpu_seconds_total"), time.Now()
			pause := time.NewTimer(2 * time.Second)
			<-pause.C
			share = (p.metric("process_cpu_seconds_total") - before) / time.Since(began).Seconds()
			return share < 0.1
		}, 20*time.Second, 10*time.Millisecond, "the process does not come to rest")
		t.Logf("process %d takes %.1f %% of a processor when all is sent", i, 100*share)
	}
}
