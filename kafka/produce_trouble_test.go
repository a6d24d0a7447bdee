package kafka

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"delay-scheduler/delay"
	"delay-scheduler/forward"
	"delay-scheduler/internal/testkafka"
)

// proxied is what both kinds of private brokers have.
type proxied interface {
	testkafka.Nodes
	Proxy(node int32) *testkafka.Proxy
}

// ended is what the log of a topic holds so far.
func ended(t *testing.T, b testkafka.Broker, topic string) int {
	t.Helper()
	ends, err := testkafka.Admin(t, b).ListEndOffsets(t.Context(), topic)
	if err != nil {
		return -1
	}
	total := 0
	for _, partitions := range ends {
		for _, o := range partitions {
			total += int(o.Offset)
		}
	}
	return total
}

func TestProducerInTrouble(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		nodes := b.(proxied)
		t.Run("an answer that is lost after the append", func(t *testing.T) { answerLost(t, nodes) })
		t.Run("connections that break all the time", func(t *testing.T) { connectionsBreak(t, nodes) })
		t.Run("a broker that never answers", func(t *testing.T) { silentLeader(t, nodes) })
		t.Run("an offline partition", func(t *testing.T) { offlinePartition(t, nodes) })
		// What only replication can show.
		if cluster, ok := b.(*testkafka.Cluster); ok {
			t.Run("a follower that is frozen", func(t *testing.T) { frozenFollower(t, cluster) })
			t.Run("a broker that throttles", func(t *testing.T) { throttles(t, cluster) })
			t.Run("a leader that stops", func(t *testing.T) { leaderStops(t, cluster) })
			t.Run("too few replicas", func(t *testing.T) { tooFewReplicas(t, cluster) })
		}
	}, testkafka.WithBrokers(3), testkafka.WithProxy(), testkafka.WithProperty("replica.lag.time.max.ms", "20000"))
}

func answerLost(t *testing.T, b proxied) {
	const n = 500
	topic := testkafka.UniqueName(t)
	b.CreateTopicOn(topic, [][]int32{{1}, {1}}, nil)
	p, acks := testProducer(t, b, func(o *ProducerOptions) { o.RequestTimeout = 500 * time.Millisecond })
	produceNumbered(p, topic, 0, n, 10)
	acks.wait(t, n, 20*time.Second)
	b.Proxy(1).DropResponses()
	produceNumbered(p, topic, n, 2*n, 10)
	// It is in the log, after several attempts on several connections, and nothing of it is
	// acknowledged.
	require.Eventually(t, func() bool { return counter(t, p.loop.metrics.disconnected) >= 2 }, 20*time.Second, 10*time.Millisecond)
	require.Len(t, acks.all(), n)
	b.Proxy(1).Resume()
	got := acks.wait(t, 2*n, 20*time.Second)
	require.Equal(t, map[forward.Class]int{0: 2 * n}, classes(got))
	requireTagsInOrder(t, got, 2*n, 10)
	requireOnce(t, readProduced(t, b, topic, 2*n), 2*n)
	require.Zero(t, counter(t, p.loop.metrics.resequenced))
}

func connectionsBreak(t *testing.T, b proxied) {
	const n, keys = 20_000, 50
	topic := testkafka.UniqueName(t)
	b.CreateTopic(topic, 6, nil)
	p, acks := testProducer(t, b, func(o *ProducerOptions) { o.MaxBatchRecords = 100 })
	for i := range 20 {
		produceNumbered(p, topic, i*n/20, (i+1)*n/20, keys)
		acks.wait(t, i*n/20, 30*time.Second)
		for _, node := range b.NodeIDs() {
			b.Proxy(node).Drop()
		}
	}
	got := acks.wait(t, n, 30*time.Second)
	require.Equal(t, map[forward.Class]int{0: n}, classes(got))
	requireTagsInOrder(t, got, n, keys)
	requireOnce(t, readProduced(t, b, topic, n), n)
	require.Positive(t, counter(t, p.loop.metrics.disconnected))
}

func silentLeader(t *testing.T, b proxied) {
	const n = 300
	alive, dead := testkafka.UniqueName(t)+"-alive", testkafka.UniqueName(t)+"-dead"
	b.CreateTopicOn(alive, [][]int32{{0}, {2}}, nil)
	b.CreateTopicOn(dead, [][]int32{{1}}, nil)
	p, acks := testProducer(t, b, func(o *ProducerOptions) { o.RequestTimeout = time.Second })
	require.Nil(t, p.Resolve(t.Context(), alive))
	require.Nil(t, p.Resolve(t.Context(), dead))
	produceNumbered(p, dead, 0, n, 1)
	acks.wait(t, n, 20*time.Second)
	b.Proxy(1).Pause()
	produceNumbered(p, dead, n, 2*n, 1)
	for i := range 20 {
		produceNumbered(p, alive, i*n, (i+1)*n, 10)
		acks.wait(t, n+(i+1)*n, 10*time.Second)
	}
	// Also what the metadata says is found out without the broker that is silent.
	require.Nil(t, p.Resolve(t.Context(), alive))
	require.Len(t, acks.all(), 21*n)
	b.Proxy(1).Resume()
	got := acks.wait(t, 22*n, 30*time.Second)
	require.Equal(t, 22*n, len(got))
	// What was never sent may have come back; the rest is there once.
	requireOnce(t, readProduced(t, b, alive, 20*n), 20*n)
	requireOnce(t, readProduced(t, b, dead, classes(got)[0]-20*n), classes(got)[0]-20*n)
}

func offlinePartition(t *testing.T, b proxied) {
	const n, keys = 400, 40
	topic := testkafka.UniqueName(t)
	b.CreateTopicOn(topic, [][]int32{{0}, {1}, {2}}, nil)
	offline := func(i int) bool { return partitionOf([]byte(strconv.Itoa(i%keys)), 3) == 1 }
	var online int
	for i := range n {
		if !offline(i) {
			online++
		}
	}
	p, acks := testProducer(t, b, nil)
	produceNumbered(p, topic, 0, keys, keys)
	acks.wait(t, keys, 20*time.Second)
	undo := b.Leaderless(topic, 1)
	produceNumbered(p, topic, keys, n, keys)
	acks.wait(t, online+keys-keys*online/n, 20*time.Second)
	if b.Real() {
		// The broker closed the idle connection, so nothing is in doubt. (The embedded one
		// answers NOT_LEADER in a way that leaves it open.)
		acks.wait(t, n, 20*time.Second)
	}
	for _, a := range acks.all() {
		if a.Err != nil {
			require.True(t, offline(a.Tag.(numberedTag).number), "record %d is not for the partition without a leader", a.Tag)
			require.Equal(t, forward.Transient, a.Err.Class)
			require.False(t, a.Uncertain)
		}
	}
	undo()
	require.Eventually(t, func() bool { return p.Resolve(t.Context(), topic) == nil && b.Leader(topic, 1) == 1 }, 30*time.Second, 50*time.Millisecond)
	got := acks.wait(t, n, 30*time.Second)
	requireTagsInOrder(t, got, n, keys)
	// Those that came back are sent again when the lane has asked.
	require.Nil(t, p.Resolve(t.Context(), topic))
	again := 0
	for _, a := range got {
		if i := a.Tag.(numberedTag).number; a.Err != nil {
			produceNumbered(p, topic, i, i+1, keys)
			again++
		}
	}
	require.Equal(t, n, classes(acks.wait(t, n+again, 60*time.Second))[0])
	requireOnce(t, readProduced(t, b, topic, n), n)
}

// The broker answers REQUEST_TIMED_OUT although the leader has the batch. Topics that do
// not need the follower go on.
func frozenFollower(t *testing.T, b *testkafka.Cluster) {
	const n = 200
	slow, well := testkafka.UniqueName(t)+"-slow", testkafka.UniqueName(t)+"-well"
	b.CreateTopicOn(slow, [][]int32{{0, 1}}, map[string]string{"min.insync.replicas": "2"})
	b.CreateTopicOn(well, [][]int32{{0, 2}}, map[string]string{"min.insync.replicas": "2"})
	p, acks := testProducer(t, b, func(o *ProducerOptions) { o.RequestTimeout = time.Second })
	produceNumbered(p, slow, 0, 1, 1)
	produceNumbered(p, well, 0, 1, 1)
	acks.wait(t, 2, 20*time.Second)
	b.Freeze(1)
	produceNumbered(p, slow, 1, n, 1)
	for i := 1; i < n; i++ {
		produceNumbered(p, well, i, i+1, 1)
		acks.wait(t, 2+i, 10*time.Second)
	}
	require.Eventually(t, func() bool { return counter(t, p.loop.metrics.retries) >= 2 }, 20*time.Second, 10*time.Millisecond)
	b.Thaw(1)
	got := acks.wait(t, 2*n, 40*time.Second)
	require.Equal(t, map[forward.Class]int{0: 2 * n}, classes(got))
	requireOnce(t, readProduced(t, b, slow, n), n)
	requireOnce(t, readProduced(t, b, well, n), n)
	require.Zero(t, counter(t, p.loop.metrics.resequenced))
}

// The broker takes everything, answers, and wants to be left alone for a while. It counts
// over eleven seconds, so half of what is written is free.
func throttles(t *testing.T, b *testkafka.Cluster) {
	const n = 150
	topic := testkafka.UniqueName(t)
	b.CreateTopicOn(topic, [][]int32{{0}}, nil)
	quota := func(remove bool) {
		entry := kadm.AlterClientQuotaEntry{
			Entity: kadm.ClientQuotaEntity{{Type: "client-id"}},
			Ops:    []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: 20_000, Remove: remove}},
		}
		got, err := testkafka.Admin(t, b).AlterClientQuotas(t.Context(), []kadm.AlterClientQuotaEntry{entry})
		require.NoError(t, err)
		require.NoError(t, got[0].Err)
	}
	quota(false)
	defer quota(true)
	awaitThrottle(t, b)
	p, acks := provenProducer(t, b, topic, nil)
	p.Produce(topic, large(topic, provenRecords, n))
	require.Eventually(t, func() bool { return throttled(p) }, 20*time.Second, 10*time.Millisecond)
	got := acks.wait(t, n, 60*time.Second)
	require.Equal(t, map[forward.Class]int{0: n}, classes(got))
	requireTagsInOrder(t, got, n, 1)
	requireOnce(t, readProduced(t, b, topic, n), n)
	require.Zero(t, counter(t, p.loop.metrics.resequenced))
}

// awaitThrottle writes as a client of its own until broker 0 throttles it: a quota holds
// some time after it was answered for, and each client has its own account.
func awaitThrottle(t *testing.T, b *testkafka.Cluster) {
	t.Helper()
	const step = 100
	topic := testkafka.UniqueName(t)
	b.CreateTopicOn(topic, [][]int32{{0}}, nil)
	p, acks := testProducer(t, b, func(o *ProducerOptions) { o.ClientID = topic })
	deadline := time.Now().Add(20 * time.Second)
	for n := 0; !throttled(p); n += step {
		require.True(t, time.Now().Before(deadline), "%d records of 3 kB, and no throttle", n)
		p.Produce(topic, large(topic, n, n+step))
		acks.wait(t, n+step, 20*time.Second)
	}
}

func large(topic string, from, to int) []delay.Outgoing {
	var records []delay.Outgoing
	for i := from; i < to; i++ {
		r := outgoing(topic, "0", i)
		r.Headers = []delay.Header{{Key: []byte("large"), Value: incompressible(3000)}}
		records = append(records, r)
	}
	return records
}

func throttled(p *Producer) bool {
	seen := make(chan bool)
	p.loop.inbox.post(func(time.Time) {
		n := p.loop.nodes[0]
		seen <- n != nil && !n.throttledUntil.IsZero()
	})
	return <-seen
}

func leaderStops(t *testing.T, b *testkafka.Cluster) {
	const n, keys = 30_000, 60
	topic := testkafka.UniqueName(t)
	b.CreateTopicOn(topic, [][]int32{{0, 1, 2}, {1, 2, 0}, {2, 0, 1}}, map[string]string{"min.insync.replicas": "2"})
	p, acks := testProducer(t, b, func(o *ProducerOptions) { o.MaxBatchRecords, o.Patience = 200, time.Minute })
	for i := range 10 {
		produceNumbered(p, topic, i*n/10, (i+1)*n/10, keys)
		acks.wait(t, i*n/10, 60*time.Second)
		switch i {
		case 2:
			b.Terminate(2)
		case 5:
			b.Restart(2)
		case 7:
			b.Kill(2)
		}
	}
	got := acks.wait(t, n, 60*time.Second)
	require.Equal(t, map[forward.Class]int{0: n}, classes(got))
	requireTagsInOrder(t, got, n, keys)
	b.Restart(2)
	requireOnce(t, readProduced(t, b, topic, n), n)
	require.Zero(t, counter(t, p.loop.metrics.resequenced))
}

func tooFewReplicas(t *testing.T, b *testkafka.Cluster) {
	const n = 100
	topic := testkafka.UniqueName(t)
	b.CreateTopicOn(topic, [][]int32{{0, 2}}, map[string]string{"min.insync.replicas": "2"})
	p, acks := testProducer(t, b, func(o *ProducerOptions) { o.RequestTimeout = time.Second })
	produceNumbered(p, topic, 0, n, 1)
	acks.wait(t, n, 20*time.Second)
	b.Terminate(2) // leaves the in-sync replicas at once
	require.Eventually(t, func() bool {
		before := len(acks.all())
		require.Nil(t, p.Resolve(t.Context(), topic))
		produceNumbered(p, topic, n, n+1, 1)
		last := acks.wait(t, before+1, 20*time.Second)[before]
		if last.Err == nil {
			n := ended(t, b, topic)
			t.Logf("still taken: %d in the log", n)
			return false
		}
		require.Equal(t, forward.Transient, last.Err.Class)
		require.False(t, last.Uncertain)
		return true
	}, 30*time.Second, 10*time.Millisecond)
	b.Restart(2)
	ended := ended(t, b, topic)
	before := len(acks.all())
	require.Eventually(t, func() bool {
		require.Nil(t, p.Resolve(t.Context(), topic))
		produceNumbered(p, topic, ended, ended+1, 1)
		before++
		return acks.wait(t, before, 20*time.Second)[before-1].Err == nil
	}, 30*time.Second, 10*time.Millisecond)
	readProduced(t, b, topic, ended+1)
	require.Zero(t, counter(t, p.loop.metrics.resequenced))
}

// Describe is allowed and Write is not: the metadata says so before the first record, and
// the broker if the right is taken away later.
func TestProducerMayNotWrite(t *testing.T) {
	b := testkafka.Start(t,
		testkafka.WithProperty("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
		testkafka.WithProperty("allow.everyone.if.no.acl.found", "true"))
	forbidden, later, allowed := testkafka.UniqueName(t)+"-a", testkafka.UniqueName(t)+"-b", testkafka.UniqueName(t)+"-c"
	for _, topic := range []string{forbidden, later, allowed} {
		b.CreateTopic(topic, 2, nil)
	}
	describeOnly := func(topic string) {
		_, err := testkafka.Admin(t, b).CreateACLs(t.Context(), kadm.NewACLs().Topics(topic).
			ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpDescribe).Allow("User:ANONYMOUS").AllowHosts())
		require.NoError(t, err)
	}
	p, acks := testProducer(t, b, nil)
	describeOnly(forbidden)
	require.Eventually(t, func() bool {
		err := p.Resolve(t.Context(), forbidden)
		return err != nil && err.Class == forward.NotAuthorized
	}, 20*time.Second, 50*time.Millisecond)
	produceNumbered(p, forbidden, 0, 20, 5)
	produceNumbered(p, allowed, 0, 20, 5)
	require.Equal(t, map[forward.Class]int{0: 20, forward.NotAuthorized: 20}, classes(acks.wait(t, 40, 20*time.Second)))
	requireOnce(t, readProduced(t, b, allowed, 20), 20)

	require.Nil(t, p.Resolve(t.Context(), later))
	describeOnly(later)
	require.Eventually(t, func() bool {
		n := len(acks.all())
		produceNumbered(p, later, 0, 1, 1)
		last := acks.wait(t, n+1, 20*time.Second)[n]
		return last.Err != nil && last.Err.Class == forward.NotAuthorized && !last.Uncertain
	}, 20*time.Second, 50*time.Millisecond)
}
