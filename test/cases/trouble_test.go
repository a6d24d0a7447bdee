package cases

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"delay-scheduler/internal/testkafka"
)

// twoNodes is a cluster whose second node can be hurt without anything but the topics
// placed there noticing: the group is coordinated by the first.
func twoNodes(t *testing.T) (*world, *testkafka.Cluster) {
	t.Helper()
	testkafka.Need(t)
	c := testkafka.Start(t, testkafka.WithBrokers(2), testkafka.WithProxy())
	w := newWorld(t, c)
	c.CreateTopicOn(w.topic("delay"), [][]int32{{0}}, testkafka.LogAppendTime())
	c.CreateTopicOn(w.topic("dlq"), [][]int32{{0}}, testkafka.LogAppendTime())
	return w, c
}

func coordinateOn(t *testing.T, c *testkafka.Cluster, group string, node int32) {
	t.Helper()
	if c.Coordinator(group) != node {
		c.MoveCoordinator(group)
	}
	require.Equal(t, node, c.Coordinator(group))
}

func TestF17LongDelayAndSlowTargetDelayNobodyElse(t *testing.T) {
	t.Parallel()
	w, c := twoNodes(t)
	for i := range 4 {
		c.CreateTopicOn(w.topic(fmt.Sprintf("t%d", i)), [][]int32{{0}}, testkafka.LogAppendTime())
	}
	c.CreateTopicOn(w.topic("slow"), [][]int32{{1}}, testkafka.LogAppendTime())
	w.start()
	coordinateOn(t, c, w.name, 0)
	c.Proxy(1).Delay(3 * time.Second)
	target := func(i int) string {
		if i%5 == 4 {
			return "slow"
		}
		return fmt.Sprintf("t%d", i%5)
	}
	records := []*kgo.Record{w.later("t0", 3600_000)}
	for i := range 1000 {
		records = append(records, w.later(target(i), 1000))
	}
	for i := range 10 {
		records = append(records, w.later(target(i), 500))
	}
	w.produce(records...)
	for i := range 4 {
		for _, r := range w.arrived(fmt.Sprintf("t%d", i), 202, 15*time.Second) {
			due := number(t, header(r, "delay-due"))
			require.GreaterOrEqual(t, ms(r), due)
			require.LessOrEqual(t, ms(r), due+slack)
		}
	}
	c.Proxy(1).Delay(0)
	w.arrived("slow", 202, 20*time.Second)
}

func TestF35OutageOfATargetCostsNoMembershipAndNoJoin(t *testing.T) {
	t.Parallel()
	w, c := twoNodes(t)
	c.CreateTopicOn(w.topic("well"), [][]int32{{0}}, testkafka.LogAppendTime())
	c.CreateTopicOn(w.topic("out"), [][]int32{{1}}, testkafka.LogAppendTime())
	a := w.start()
	coordinateOn(t, c, w.name, 0)
	// Without idempotence: a new producer would have to ask any node for an id.
	client := testkafka.Client(t, c, kgo.DisableIdempotentWrite())
	fifty := func(wait int64) {
		for range 50 {
			require.NoError(t, client.ProduceSync(t.Context(), w.later("well", wait), w.later("out", 500)).FirstErr())
		}
	}
	fifty(300_000)
	w.arrived("out", 50, 10*time.Second)
	c.Proxy(1).Pause()
	fifty(500)
	began := time.Now()
	b := w.start() // a new member, in the middle of the outage
	require.Less(t, time.Since(began), 10*time.Second, "the join took too long")
	w.broker = well{w.broker, c.Proxy(0).Addr()} // what reads must not ask the one that is out
	w.arrived("well", 50, 10*time.Second)
	ended := time.NewTimer(scaled(12*time.Second, 15*time.Minute)) // two session timeouts
	<-ended.C
	require.LessOrEqual(t, a.metric("delay_scheduler_rebalances_total"), 3.0, "the member was expelled")
	require.LessOrEqual(t, b.metric("delay_scheduler_rebalances_total"), 3.0, "the member was expelled")
	c.Proxy(1).Resume()
	w.broker = c
	require.Eventually(t, func() bool { return a.pending()+b.pending() == 50 }, 30*time.Second, 100*time.Millisecond)
	require.GreaterOrEqual(t, len(testkafka.ReadAll(t, w.broker, w.topic("out"), 100, 10*time.Second)), 100)
}

func TestF37MissingTargetIsGivenUpAndHoldsBackNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	w.create("delay", "orders", "dlq")
	p := w.start(fmt.Sprintf("forward:\n  give_up_after: %v", scaled(4*time.Second, 30*time.Second)))
	mix := func(n int) {
		var records []*kgo.Record
		for range n {
			records = append(records, w.later("orders-typo", 500), w.later("orders", 500))
		}
		w.produce(records...)
	}
	mix(500)
	for _, r := range w.arrived("orders", 500, 10*time.Second) {
		require.LessOrEqual(t, ms(r), number(t, header(r, "delay-due"))+slack)
	}
	p.awaitDegraded("lane", true)
	dead := w.arrived("dlq", 500, scaled(20*time.Second, time.Minute))
	for _, r := range dead {
		require.Equal(t, "UNKNOWN_TOPIC", header(r, "dlq-reason"))
		require.Contains(t, header(r, "dlq-detail"), w.topic("orders-typo"))
		require.GreaterOrEqual(t, ms(r), number(t, header(r, "dlq-time")))
	}
	mix(500) // the topic is known to be missing
	w.arrived("dlq", 1000, 20*time.Second)
	w.arrived("orders", 1000, 10*time.Second)
	p.awaitPending(0, 10*time.Second)
}

func TestF37TargetCreatedWithinTheWindowGetsItsRecords(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	w.create("delay", "dlq")
	p := w.start()
	w.produce(w.later("born", 100), w.later("born", 200))
	require.Eventually(t, func() bool { return p.degraded("lane") }, 10*time.Second, 20*time.Millisecond)
	w.create("born")
	w.arrived("born", 2, 20*time.Second)
	w.exactly("dlq", 0, 0, 300*time.Millisecond)
}

func TestF39OversizeRecordIsDeadLetteredAndItsNeighboursArrive(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	large := testkafka.LogAppendTime()
	large["max.message.bytes"] = "2097152"
	w.createWith("delay", 1, large)
	w.create("a", "dlq")
	p := w.start("forward:\n  compression: gzip")
	due := time.Now().Add(4 * time.Second).UnixMilli()
	record := func(value []byte) *kgo.Record {
		r := w.record("delay", "a", text("deliver-at", fmt.Sprint(due)))
		r.Key, r.Value = []byte("one"), value
		return r
	}
	noise := make([]byte, 1500_000)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	client := testkafka.Client(t, w.broker, kgo.ProducerBatchMaxBytes(2_000_000), kgo.ProducerBatchCompression(kgo.NoCompression()))
	for i := range 101 {
		r := record([]byte("small"))
		if i == 50 {
			r = record(noise)
		}
		require.NoError(t, client.ProduceSync(t.Context(), r).FirstErr())
	}
	require.NoError(t, client.ProduceSync(t.Context(), record(bytes.Repeat([]byte("fits compressed "), 90_000))).FirstErr())
	require.Len(t, w.arrived("a", 101, 20*time.Second)[100].Value, 1440_000)
	dead := w.arrived("dlq", 1, 10*time.Second)[0]
	require.Equal(t, "RECORD_TOO_LARGE", header(dead, "dlq-reason"))
	// The dead-letter topic refuses it too: a pointer says where it is.
	require.Less(t, len(dead.Value), 1000)
	require.Equal(t, w.topic("delay"), header(dead, "original-topic"))
	require.Equal(t, "50", header(dead, "original-offset"))
	p.awaitPending(0, 10*time.Second)
}

func TestF33TransactionMarkersAndGapsDoNotHoldUpLoading(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	w.create("delay", "a", "dlq")
	client := testkafka.Client(t, w.broker, kgo.TransactionalID(w.name))
	for i := range 30 { // one record a transaction; every third is aborted
		require.NoError(t, client.BeginTransaction())
		require.NoError(t, client.ProduceSync(t.Context(), w.later("a", 1000)).FirstErr())
		require.NoError(t, client.EndTransaction(t.Context(), kgo.TransactionEndTry(i%3 != 0)))
	}
	_, err := testkafka.Admin(t, w.broker).DeleteRecords(t.Context(), deleteBelow(w.topic("delay"), 10))
	require.NoError(t, err)
	p := w.start()
	recs := w.exactly("a", 17, 15*time.Second, time.Second) // 15 and 5 deleted, 10 aborted in all
	require.NotEmpty(t, recs)
	require.Eventually(t, func() bool {
		at, ok := testkafka.Committed(t, w.broker, w.name, w.topic("delay"))[0]
		return ok && at.Offset == 60
	}, 15*time.Second, 100*time.Millisecond, "the watermark stops before the last marker")
	p.awaitPending(0, 5*time.Second)
}

func TestF31NewPartitionsAndTopicsAreReadFromTheirStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	w.createWith("a-delay", 6, testkafka.LogAppendTime())
	w.createWith("t", 3, testkafka.LogAppendTime())
	w.create("a-dlq", "b-dlq")
	p := w.start()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	load := testkafka.Client(t, w.broker)
	sent := make(chan int)
	go func() { // under load
		n := 0
		for ; ctx.Err() == nil; n++ {
			r := w.later("t", 1000)
			r.Topic, r.Key = w.topic("a-delay"), fmt.Append(nil, n)
			if load.ProduceSync(context.WithoutCancel(ctx), r).FirstErr() != nil {
				break
			}
		}
		sent <- n
	}()
	w.broker.AddPartitions(w.topic("a-delay"), 12)
	w.createWith("b-delay", 2, testkafka.LogAppendTime())
	var records []*kgo.Record
	for i := range 1000 {
		r := w.later("t", 3000)
		r.Topic, r.Partition = w.topic("a-delay"), int32(6+i%6)
		if i%10 == 0 {
			r.Topic, r.Partition = w.topic("b-delay"), int32(i/10%2)
		}
		records = append(records, r)
	}
	testkafka.ProduceTo(t, w.broker, records...)
	require.Eventually(t, func() bool { return len(p.status().Partitions) == 14 }, 30*time.Second, 50*time.Millisecond)
	stop()
	n := <-sent
	for _, r := range w.exactly("t", n+1000, 30*time.Second, 3*time.Second) {
		require.GreaterOrEqual(t, ms(r), number(t, header(r, "delay-due")))
	}
}
