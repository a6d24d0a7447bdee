package cases

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"delay-scheduler/internal/testkafka"
)

// A crashed dynamic member leaves the group unable to re-form until its session times
// out. Those that are left work on meanwhile.
func TestCrashOfOneMemberStopsTheOthersForLessThanTwoSeconds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	w.create("dlq")
	w.createWith("a", 1, testkafka.LogAppendTime())
	w.createWith("delay", 6, testkafka.LogAppendTime())
	group := "group:\n  id: " + w.name + "\n  session_timeout: 10s"
	a, b := w.start(group), w.start(group)
	require.Eventually(t, func() bool { return len(a.status().Partitions) == 3 && len(b.status().Partitions) == 3 },
		20*time.Second, 50*time.Millisecond)
	mine := map[int32]bool{}
	for _, p := range a.status().Partitions {
		mine[p.Partition] = true
	}
	var records []*kgo.Record
	for i := range 6000 { // a thousand a partition, falling due over fifteen seconds
		r := w.later("a", int64(i)*15_000/6000+1000)
		r.Partition, r.Value = int32(i%6), []byte(strconv.Itoa(i%6))
		records = append(records, r)
	}
	testkafka.ProduceTo(t, w.broker, records...)
	testkafka.ReadAll(t, w.broker, w.topic("a"), 1000, 20*time.Second)
	b.kill()
	c := w.start(group) // and a replacement, which makes the group re-form at once
	require.True(t, c.status().Health.Ready)
	atLeast(t, w, 6000, 40*time.Second)
	worst := int64(0)
	for _, r := range testkafka.ReadAll(t, w.broker, w.topic("a"), 1<<30, 2*time.Second) {
		late := ms(r) - number(t, header(r, "delay-due"))
		require.GreaterOrEqual(t, late, int64(0))
		n := number(t, string(r.Value))
		if mine[int32(n)] {
			worst = max(worst, late)
		}
	}
	t.Logf("the partitions of those that were left were late by %d ms at most", worst)
	require.Less(t, worst, int64(2000))
}
