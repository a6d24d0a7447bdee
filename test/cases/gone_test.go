package cases

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"delay-scheduler/internal/testkafka"
)

// keep lets the broker delete all but so many bytes of the world's delay topic, and waits
// until it has: the log's start is above what is asked.
func (w *world) keep(bytes, above int64) (start int64) {
	w.t.Helper()
	admin := testkafka.Admin(w.t, w.broker)
	value := fmt.Sprint(bytes)
	_, err := admin.AlterTopicConfigs(w.t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.bytes", Value: &value}}, w.topic("delay"))
	require.NoError(w.t, err)
	last := int64(-1)
	require.Eventually(w.t, func() bool {
		starts, err := admin.ListStartOffsets(w.t.Context(), w.topic("delay"))
		require.NoError(w.t, err)
		o, _ := starts.Lookup(w.topic("delay"), 0)
		still := o.Offset > above && o.Offset == last
		last = o.Offset
		return still
	}, 30*time.Second, 1500*time.Millisecond, "the broker deletes nothing")
	return last
}

// What is pending without its payload is in the log only. When the broker deletes those
// segments the records cannot be delivered: that is found, counted and shown, and is
// nobody else's trouble.
func TestSegmentsDeletedUnderPendingRecordsAreCountedAndTheOthersAreSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	const n, size, window = 40_000, 1000, 12_000
	configs := testkafka.LogAppendTime()
	configs["segment.bytes"] = "1048576"
	w.createWith("delay", 1, configs)
	w.create("a", "dlq")
	settings := []string{w.static("one"), memory(16, 4)}
	p := w.start(settings...)
	began := time.Now().Add(15 * time.Second)
	w.stream(n, func(i int) *kgo.Record {
		r := w.record("delay", "a", text("deliver-at", fmt.Sprint(began.UnixMilli()+rand.Int64N(window))))
		r.Value = sized(i, size)
		return r
	})
	p.awaitRead("delay", 20*time.Second)
	p.awaitPending(n, 5*time.Second)
	require.Positive(t, p.far("delay"), "all of it fits into the budget")
	start := w.keep(8<<20, n/2)
	require.True(t, time.Now().Before(began), "the first fell due before the segments were deleted")

	shown := false
	require.Eventually(t, func() bool {
		shown = shown || p.degraded("gone_records")
		return p.pending() == 0
	}, 45*time.Second, 100*time.Millisecond, "the partition does not go on")
	gone := int(p.metric("delay_scheduler_gone_records_total"))
	require.True(t, shown, "the process says nothing of the loss")
	require.Contains(t, p.said(t), "gone")
	require.Positive(t, gone, "no record lost its payload")
	p.staysWithin(16, 4)

	recs := w.complete("a", n-gone, 20*time.Second)
	arrived := make(map[int]bool, n)
	for _, r := range recs {
		arrived[numbered(t, r)] = true
	}
	require.Len(t, arrived, n-gone, "twice")
	for i := range n {
		require.True(t, arrived[i] || int64(i) < start, "record %d is in the log from %d and was not sent", i, start)
	}
	t.Logf("%d of %d records below %d were gone; %v", gone, n, start, late(t, recs))
	require.Less(t, int64(gone), start, "what had its payload was sent")
	require.Less(t, late(t, recs).at(99), int64(3*slack), "the others were held up")

	w.passed(n)
	p.kill()
	w.start(settings...)
	w.produce(w.later("a", 0))
	w.arrivedOf("a", 20*time.Second, n-gone+1)
	w.passed(n + 1)
	w.complete("a", n-gone+1, 20*time.Second)
}

// passed waits until the group has committed an offset of the delay topic's partition 0.
func (w *world) passed(offset int64) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		return testkafka.Committed(w.t, w.broker, w.name, w.topic("delay"))[0].Offset == offset
	}, 20*time.Second, 200*time.Millisecond, "the watermark does not pass to %d", offset)
}
