//go:build long

package cases

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"delay-scheduler/internal/testkafka"
)

// A thousand partitions in one process: their loops, commits and requests.
func TestProcessWithAThousandPartitionsSendsOnTimeAndRestarts(t *testing.T) {
	t.Parallel()
	testkafka.Need(t)
	const partitions, used, n = 1000, 300, 3000
	w := newWorld(t, testkafka.Start(t, testkafka.WithOptimizer()))
	w.createWith("delay", partitions, testkafka.LogAppendTime())
	w.create("a", "dlq")
	settings := []string{w.static("one")}
	p := w.start(settings...)
	assigned := func() bool { return len(p.status().Partitions) == partitions }
	require.Eventually(t, assigned, 20*time.Second, 50*time.Millisecond, "the partitions are not assigned")
	spread := func(wait, span int64) {
		w.stream(n, func(i int) *kgo.Record {
			return w.delayed("a", i, 200, wait+int64(i)*span/n, int32(i%used*(partitions/used)))
		})
	}
	spread(2000, 4000)
	l := late(t, w.complete("a", n, 20*time.Second))
	t.Logf("running: %v", l)
	require.Less(t, l.at(100), int64(slack), "late")

	spread(4000, 4000)
	crash := time.Now().UnixMilli()
	p.kill()
	p = w.start(settings...)
	require.Eventually(t, assigned, 20*time.Second, 50*time.Millisecond, "the partitions are not assigned again")
	p.awaitRead("delay", 20*time.Second)
	back := time.Now().UnixMilli()
	t.Logf("read again after %d ms", back-crash)
	p.awaitPending(0, 20*time.Second)
	recs := firsts(t, w.all("a"), crash)
	require.Len(t, recs, 2*n, "lost")
	l = late(t, recs, span{crash - 1000, back})
	t.Logf("after a crash: %v", l)
	require.Less(t, l.at(100), int64(slack), "late")
	p.stop()
	total := int64(0)
	for _, c := range testkafka.Committed(t, w.broker, w.name, w.topic("delay")) {
		total += c.Offset
	}
	require.EqualValues(t, 2*n, total, fmt.Sprintf("the committed offsets of %d partitions together", partitions))
}
