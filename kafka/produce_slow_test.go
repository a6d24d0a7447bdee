package kafka

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"delay-scheduler/delay"
	"delay-scheduler/forward"
	"delay-scheduler/internal/testkafka"
)

// holdBack lets produce requests that contain one of the topics' partitions wait until
// the returned func is called. An empty list of partitions means all.
func holdBack(t *testing.T, c *testkafka.FakeCluster, partitions []int32, topics ...string) (release func()) {
	t.Helper()
	gate := make(chan struct{})
	c.ControlKey(produceKey, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		for _, topic := range kreq.(*kmsg.ProduceRequest).Topics {
			for _, part := range topic.Partitions {
				if slices.Contains(topics, topic.Topic) && (partitions == nil || slices.Contains(partitions, part.Partition)) {
					c.SleepControl(func() { <-gate })
					return nil, nil, false
				}
			}
		}
		return nil, nil, false
	})
	release = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(release)
	return release
}

// patient makes tests about stuck topics independent of what times out.
func patient(o *ProducerOptions) {
	o.RequestTimeout, o.Patience = time.Minute, time.Minute
}

func TestAStuckTopicHoldsUpNoOther(t *testing.T) {
	const stuck, rounds = 5, 20
	c := testkafka.Fake(t, kfake.NumBrokers(1), kfake.SeedTopics(4, "well"))
	var names []string
	for i := range stuck {
		names = append(names, fmt.Sprintf("stuck-%d", i))
		c.CreateTopic(names[i], 4, nil)
	}
	release := holdBack(t, c, nil, names...)
	p, acks := testProducer(t, c, patient)
	for i, name := range append(names, "well") {
		require.Nil(t, p.Resolve(t.Context(), name), i)
	}
	// All at once, so that they share requests.
	for round := range rounds {
		for _, name := range names {
			produceNumbered(p, name, round*10, round*10+10, 10)
		}
		produceNumbered(p, "well", round*10, round*10+10, 10)
		// Nothing of the stuck topics can be among them.
		acks.wait(t, (round+1)*10, 20*time.Second)
	}
	require.Len(t, acks.all(), rounds*10)
	require.Positive(t, counter(t, p.loop.metrics.isolated))
	release()
	const all = (stuck + 1) * rounds * 10
	got := acks.wait(t, all, 20*time.Second)
	require.Equal(t, map[forward.Class]int{0: all}, classes(got))
	for _, name := range append(names, "well") {
		requireOnce(t, readProduced(t, c, name, rounds*10), rounds*10)
	}
}

func TestAStuckPartitionHoldsUpNoOtherOfItsTopic(t *testing.T) {
	const rounds, keys = 20, 40
	c := testkafka.Fake(t, kfake.NumBrokers(1), kfake.SeedTopics(4, "half"))
	release := holdBack(t, c, []int32{2}, "half")
	p, acks := testProducer(t, c, patient)
	require.Nil(t, p.Resolve(t.Context(), "half"))
	var well []string
	for i := range keys {
		if key := strconv.Itoa(i); partitionOf([]byte(key), 4) != 2 {
			well = append(well, key)
		}
	}
	for round := range rounds {
		produceNumbered(p, "half", round*keys, (round+1)*keys, keys)
		acks.wait(t, (round+1)*len(well), 20*time.Second)
	}
	require.Len(t, acks.all(), rounds*len(well))
	release()
	acks.wait(t, rounds*keys, 20*time.Second)
	requireOnce(t, readProduced(t, c, "half", rounds*keys), rounds*keys)
}

func TestMoreStuckTopicsThanConnectionsHoldUpNoOther(t *testing.T) {
	const stuck, n = slowConnections + 4, 20
	c := testkafka.Fake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "well"))
	var names []string
	for i := range stuck {
		names = append(names, fmt.Sprintf("stuck-%d", i))
		c.CreateTopic(names[i], 1, nil)
	}
	var released atomic.Bool
	c.ControlKey(produceKey, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		isStuck := func(topic kmsg.ProduceRequestTopic) bool { return slices.Contains(names, topic.Topic) }
		// Taken, and never answered.
		return nil, nil, !released.Load() && slices.ContainsFunc(kreq.(*kmsg.ProduceRequest).Topics, isStuck)
	})
	p, acks := testProducer(t, c, func(o *ProducerOptions) { o.RequestTimeout, o.Patience = time.Second, time.Minute })
	for _, name := range append(names, "well") {
		require.Nil(t, p.Resolve(t.Context(), name))
	}
	for _, name := range names {
		p.Produce(name, []delay.Outgoing{outgoing(name, "k", 0)})
	}
	for i := range n {
		p.Produce("well", []delay.Outgoing{outgoing("well", "k", i)})
		acks.wait(t, i+1, 20*time.Second)
	}
	require.Len(t, acks.all(), n)
	released.Store(true)
	require.Equal(t, map[forward.Class]int{0: stuck + n}, classes(acks.wait(t, stuck+n, 30*time.Second)))
	for _, name := range names {
		require.Len(t, readProduced(t, c, name, 1), 1)
	}
}

func TestABrokerThatNeverAnswersHoldsUpNoOther(t *testing.T) {
	const n, keys = 2000, 100
	c := testkafka.Fake(t, kfake.NumBrokers(3), kfake.SeedTopics(6, "spread"))
	for part := range int32(6) {
		require.NoError(t, c.MoveTopicPartition("spread", part, part%3))
	}
	well := 0
	for i := range keys {
		if partitionOf([]byte(strconv.Itoa(i)), 6)%3 != 1 {
			well++
		}
	}
	c.ControlKey(produceKey, func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		return nil, nil, c.CurrentNode() == 1 // taken, and never answered
	})
	p, acks := testProducer(t, c, func(o *ProducerOptions) { o.RequestTimeout = 500 * time.Millisecond })
	produceNumbered(p, "spread", 0, n, keys)
	acks.wait(t, n/keys*well, 20*time.Second)
	require.Equal(t, n/keys*well, classes(acks.all())[0])

	// It is found dead, again and again, and what was sent to it stays in doubt.
	require.Eventually(t, func() bool { return counter(t, p.loop.metrics.disconnected) >= 2 }, 20*time.Second, 10*time.Millisecond)
	// Its partitions go elsewhere: everything is written, once.
	for part := range int32(6) {
		require.NoError(t, c.MoveTopicPartition("spread", part, part%2*2))
	}
	got := acks.wait(t, n, 20*time.Second)
	requireTagsInOrder(t, got, n, keys)
	requireOnce(t, readProduced(t, c, "spread", n), n)
}

func TestCloseReportsWhatIsUnansweredAndWhatWasNeverSent(t *testing.T) {
	const n = 100
	c := testkafka.Fake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "stuck", "well"))
	arrived := make(chan struct{})
	once := sync.OnceFunc(func() { close(arrived) })
	gate := make(chan struct{})
	defer close(gate)
	c.ControlKey(produceKey, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if kreq.(*kmsg.ProduceRequest).Topics[0].Topic == "stuck" {
			once()
			c.SleepControl(func() { <-gate })
		}
		return nil, nil, false
	})
	p, acks := testProducer(t, c, func(o *ProducerOptions) { patient(o); o.MaxBatchRecords = 10 })
	produceNumbered(p, "well", 0, n, 1)
	acks.wait(t, n, 10*time.Second)
	produceNumbered(p, "stuck", 0, n, 1)
	<-arrived
	err := closeProducer(t, p, 50*time.Millisecond)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	got := acks.all()[n:]
	requireTagsInOrder(t, got, n, 1)
	for i, a := range got {
		require.NotNil(t, a.Err)
		require.Equal(t, forward.Transient, a.Err.Class)
		require.Equal(t, i < 10, a.Uncertain, "only what was sent is uncertain: %d", i)
	}
	// Whatever comes later is refused, and a second Close is harmless.
	p.Produce("well", []delay.Outgoing{outgoing("well", "k", 0)})
	late := acks.wait(t, 2*n+1, 10*time.Second)[2*n]
	require.Equal(t, forward.Transient, late.Err.Class)
	require.False(t, late.Uncertain)
	require.NotNil(t, p.Resolve(t.Context(), "well"))
	_ = closeProducer(t, p, time.Second)
}

func TestCloseWaitsForWhatIsOnItsWay(t *testing.T) {
	const n = 1000
	c := testkafka.Fake(t, kfake.NumBrokers(1), kfake.SeedTopics(3, "last"))
	p, acks := testProducer(t, c, func(o *ProducerOptions) { o.Linger = time.Hour })
	produceNumbered(p, "last", 0, n, 10)
	require.NoError(t, closeProducer(t, p, 10*time.Second), "nothing may wait for company any more")
	require.Equal(t, map[forward.Class]int{0: n}, classes(acks.all()))
	requireOnce(t, readProduced(t, c, "last", n), n)
}

func TestNobodyIsThere(t *testing.T) {
	p, acks := testProducer(t, brokerAddrs{"127.0.0.1:1"}, func(o *ProducerOptions) { o.Patience = 100 * time.Millisecond })
	produceNumbered(p, "any", 0, 10, 1)
	got := acks.wait(t, 10, 10*time.Second)
	require.Equal(t, map[forward.Class]int{forward.Transient: 10}, classes(got))
	requireTagsInOrder(t, got, 10, 1)
	require.Equal(t, forward.Transient, p.Resolve(t.Context(), "any").Class)
	require.NoError(t, closeProducer(t, p, time.Second))
}

func TestAProducerThatIsClosedAtOnceLeavesNothing(t *testing.T) {
	c := testkafka.Fake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "short"))
	for i := range 20 {
		p, acks := testProducer(t, c, nil)
		p.Produce("short", []delay.Outgoing{outgoing("short", "k", i)})
		ctx, cancel := context.WithCancel(t.Context())
		if i%2 == 0 {
			cancel()
		}
		_ = p.Close(ctx)
		cancel()
		require.Len(t, acks.all(), 1)
	}
}

func TestHealthEndsAfterAWhileOfQuickAnswersAndLaterAfterARelapse(t *testing.T) {
	var h produceHealth
	now := testTime
	at := func(d time.Duration) time.Time { return now.Add(d) }
	require.False(t, h.answered(true, now))
	h.suspect(now)
	require.True(t, h.slow)
	require.False(t, h.answered(true, at(100*time.Millisecond)))
	require.False(t, h.answered(false, at(500*time.Millisecond)), "the run begins again")
	require.False(t, h.answered(true, at(time.Second)))
	require.False(t, h.answered(true, at(1900*time.Millisecond)))
	require.True(t, h.answered(true, at(2*time.Second)))
	require.False(t, h.slow)
	h.suspect(at(3 * time.Second))
	require.Equal(t, 2*firstPenalty, h.penalty)
	h.slow, h.ended = false, at(3*time.Second)
	h.suspect(at(3*time.Second + relapseWithin + 1))
	require.Equal(t, firstPenalty, h.penalty)
}

func TestTheBaselineIsTheMedianOfTheLatest(t *testing.T) {
	var b produceBaseline
	require.Zero(t, b.median)
	b.add(300 * time.Millisecond)
	require.Equal(t, 300*time.Millisecond, b.median)
	b.add(100 * time.Millisecond)
	b.add(200 * time.Millisecond)
	require.Equal(t, 200*time.Millisecond, b.median)
	for range len(b.latest)/2 + 1 {
		b.add(time.Second)
	}
	require.Equal(t, time.Second, b.median)
}

func TestRetriesBackOff(t *testing.T) {
	require.Equal(t, firstBackoff, retryAfter(0))
	require.Equal(t, 2*firstBackoff, retryAfter(1))
	require.Equal(t, lastBackoff, retryAfter(6))
	require.Equal(t, lastBackoff, retryAfter(1_000_000))
}
