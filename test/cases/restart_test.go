package cases

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"delay-scheduler/internal/testkafka"
)

func number(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	require.NoError(t, err)
	return n
}

func deleteBelow(topic string, offset int64) kadm.Offsets {
	o := kadm.Offsets{}
	o.AddOffset(topic, 0, offset, -1)
	return o
}

// copies counts records by their delay-id.
func copies(recs []*kgo.Record) map[string]int {
	n := map[string]int{}
	for _, r := range recs {
		n[header(r, "delay-id")]++
	}
	return n
}

// flood asks for n records due over a span of ms.
func (w *world) flood(n int, from, span int64) {
	w.t.Helper()
	var records []*kgo.Record
	for i := range n {
		records = append(records, w.later("a", from+int64(i)*span/int64(n)))
	}
	w.produce(records...)
}

func TestF21StopInMidDeliverySendsNothingTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	w.create("delay", "a", "dlq")
	p := w.start()
	w.flood(20_000, 2000, 4000)
	testkafka.ReadAll(t, w.broker, w.topic("a"), 10_000, 20*time.Second)
	p.stop()
	w.start()
	recs := w.exactly("a", 20_000, 30*time.Second, 2*time.Second)
	require.Len(t, copies(recs), 20_000)
}

func TestF21CrashInMidDeliveryRepeatsOnlyTheLastCommitIntervalUnderTheSameID(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	w.create("delay", "a", "dlq")
	group := "group:\n  id: " + w.name + "\n  instance_id: one"
	p := w.start(group)
	w.flood(20_000, 2000, 4000)
	testkafka.ReadAll(t, w.broker, w.topic("a"), 10_000, 20*time.Second)
	killed := time.Now().UnixMilli()
	p.kill()
	w.start(group)
	require.Eventually(t, func() bool {
		recs := testkafka.ReadAll(t, w.broker, w.topic("a"), 1<<30, 2*time.Second)
		return len(copies(recs)) == 20_000
	}, 30*time.Second, 100*time.Millisecond, "lost")
	first := map[string]int64{}
	for _, r := range testkafka.ReadAll(t, w.broker, w.topic("a"), 1<<30, 2*time.Second) {
		id := header(r, "delay-id")
		if at, again := first[id]; again {
			require.GreaterOrEqual(t, at, killed-2000, "sent again although committed")
			continue
		}
		first[id] = ms(r)
	}
}

func TestF21LostAnswerOfAProduceRequestMakesNoDuplicate(t *testing.T) {
	t.Parallel()
	testkafka.Need(t)
	c := testkafka.Start(t, testkafka.WithProxy())
	w := newWorld(t, c)
	w.create("delay", "a", "dlq")
	w.start()
	w.flood(5000, 1000, 4000)
	for range 5 {
		n := len(testkafka.ReadAll(t, w.broker, w.topic("a"), 1<<30, 500*time.Millisecond))
		c.Proxy(0).DropResponses()
		testkafka.ReadAll(t, internal{c}, w.topic("a"), n+100, time.Second)
		c.Proxy(0).Resume()
		c.Proxy(0).Drop()
	}
	recs := w.exactly("a", 5000, 60*time.Second, 2*time.Second)
	require.Len(t, copies(recs), 5000)
}

func TestF23NothingIsLostWhileInstancesComeAndGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	w.create("a", "dlq")
	w.createWith("delay", 6, testkafka.LogAppendTime())
	a := w.start()
	var records []*kgo.Record
	span := scaled(20*time.Second, 10*time.Minute).Milliseconds()
	for i := range 20_000 {
		r := w.later("a", int64(i)*span/20_000) // falling due all the time
		r.Key = []byte(strconv.Itoa(i))
		records = append(records, r)
	}
	w.produce(records...)
	for began, round := time.Now(), 0; round < 3 || time.Since(began) < scaled(0, 10*time.Minute); round++ {
		b := w.start()
		a.stop()
		a = w.start()
		b.stop()
	}
	atLeast(t, w, 20_000, scaled(40*time.Second, 12*time.Minute))
	recs := testkafka.ReadAll(t, w.broker, w.topic("a"), 1<<30, 3*time.Second)
	require.Len(t, copies(recs), 20_000)
	require.LessOrEqual(t, len(recs), 20_000+500, "more came again than was in flight at a move")
	for _, r := range recs {
		require.GreaterOrEqual(t, ms(r), number(t, header(r, "delay-due")))
	}
}

func TestF25LongDelayPinsTheWatermarkAndNothingIsRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	w.create("delay", "a", "dlq")
	group := "group:\n  id: " + w.name + "\n  instance_id: one"
	p := w.start(group)
	var records []*kgo.Record
	for i := range 10 {
		wait := int64(1000)
		if i == 3 {
			wait = scaled(40*time.Second, time.Hour).Milliseconds()
		}
		records = append(records, w.later("a", wait))
	}
	w.produce(records...)
	w.arrived("a", 9, 20*time.Second)
	w.flood(20_000, 0, 1000)
	sent := 20_009
	for range 5 {
		w.arrived("a", sent, 20*time.Second)
		w.awaitAbove(3, int64(20_010))
		p.kill()
		p = w.start(group)
	}
	recs := w.exactly("a", sent+1, scaled(time.Minute, 61*time.Minute), 2*time.Second)
	require.Len(t, copies(recs), sent+1)
	for _, r := range recs {
		require.GreaterOrEqual(t, ms(r), number(t, header(r, "delay-due")))
	}
}

// awaitAbove waits until the commit has stood still at low and its metadata covers
// everything up to end: two commits in a row are the same.
func (w *world) awaitAbove(low, end int64) {
	w.t.Helper()
	last := ""
	require.Eventually(w.t, func() bool {
		c := testkafka.Committed(w.t, w.broker, w.name, w.topic("delay"))[0]
		require.LessOrEqual(w.t, c.Offset, low, "the commit passed a pending record (of %d)", end)
		same := c.Offset == low && c.Metadata != "" && c.Metadata == last
		last = c.Metadata
		return same
	}, 20*time.Second, 1500*time.Millisecond)
}

func atLeast(t *testing.T, w *world, n int, within time.Duration) {
	t.Helper()
	require.GreaterOrEqual(t, len(testkafka.ReadAll(t, w.broker, w.topic("a"), n, within)), n)
}
