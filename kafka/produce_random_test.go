package kafka

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"delay-scheduler/forward"
	"delay-scheduler/internal/testkafka"
)

// randomSeed is the seed of a run that is to be had again.
var randomSeed = flag.Uint64("kafka.seed", 0, "seed of the test with random faults; 0: another each time")

// hurt does something to the cluster that passes by itself.
func hurt(t *testing.T, c *testkafka.FakeCluster, rng *rand.Rand, topics []string) {
	passing := []*kerr.Error{
		kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend,
		kerr.RequestTimedOut, kerr.KafkaStorageError, kerr.UnknownServerError, kerr.CorruptMessage,
	}
	topic := topics[rng.IntN(len(topics))]
	proxy := c.Proxy(rng.Int32N(3))
	passes := time.Duration(rng.IntN(400)) * time.Millisecond
	switch rng.IntN(8) {
	case 0:
		c.ShufflePartitionLeaders()
	case 1:
		require.NoError(t, c.MoveTopicPartition(topic, rng.Int32N(4), rng.Int32N(3)))
	case 2:
		proxy.Drop()
	case 3:
		proxy.Pause()
		time.AfterFunc(passes, proxy.Resume)
	case 4:
		proxy.DropResponses()
		time.AfterFunc(passes, proxy.Resume)
	case 5:
		proxy.Refuse()
		time.AfterFunc(passes, proxy.Resume)
	case 6:
		c.Fault(kfake.Fault{Keys: []kmsg.Key{3}, Topic: topic, Err: kerr.LeaderNotAvailable, Count: rng.IntN(4) + 1})
	default:
		c.Fault(kfake.Fault{Keys: []kmsg.Key{produceKey}, Topic: topic, Err: passing[rng.IntN(len(passing))], Count: rng.IntN(3) + 1})
	}
}

// settleRound waits for the records from to to-1 of each topic, and sends again what
// comes back until everything is written.
func settleRound(t *testing.T, p *Producer, acks *ackLog, topics []string, from, to int, meanwhile func()) (back int) {
	t.Helper()
	const keys = 20
	waiting := make(map[string][]int)
	for _, topic := range topics {
		produceNumbered(p, topic, from, to, keys)
	}
	meanwhile()
	for expected := len(topics) * (to - from); expected > 0; {
		got := acks.wait(t, expected, 60*time.Second)
		require.Len(t, got, expected)
		acks.reset()
		clear(waiting)
		expected = 0
		for _, a := range got {
			if tag := a.Tag.(numberedTag); a.Err != nil {
				require.Equal(t, forward.Transient, a.Err.Class, a.Err)
				require.False(t, a.Uncertain)
				waiting[tag.topic] = append(waiting[tag.topic], tag.number)
			}
		}
		for topic, numbers := range waiting {
			require.Eventually(t, func() bool { return p.Resolve(t.Context(), topic) == nil }, 30*time.Second, 10*time.Millisecond)
			// In the order in which they came back, which is that of each partition.
			for _, i := range numbers {
				produceNumbered(p, topic, i, i+1, keys)
			}
			expected += len(numbers)
		}
		back += expected
	}
	return back
}

func TestNothingIsLostDoubledOrReorderedUnderRandomFaults(t *testing.T) {
	seed := *randomSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d: to have it again, -kafka.seed=%[1]d", seed)
	const rounds, size = 60, 300
	rng := rand.New(rand.NewPCG(seed, 0))
	topics := []string{"one", "two"}
	c := testkafka.Fake(t, kfake.NumBrokers(3), kfake.SeedTopics(4, topics...))
	p, acks := testProducer(t, c, func(o *ProducerOptions) {
		o.MaxBatchRecords, o.RequestTimeout, o.Patience = 5, 300*time.Millisecond, 200*time.Millisecond
	})
	back := 0
	for round := range rounds {
		harm := rng.IntN(3)
		for range harm {
			hurt(t, c, rng, topics)
		}
		back += settleRound(t, p, acks, topics, round*size, (round+1)*size, func() {
			if harm > 0 {
				hurt(t, c, rng, topics) // with several batches of each partition under way
			}
		})
	}
	for node := range int32(3) {
		c.Proxy(node).Resume()
	}
	t.Logf("%d records came back, %d batches were sent again, %d connections broke, %d were retired", back,
		counter(t, p.loop.metrics.retries), counter(t, p.loop.metrics.disconnected), counter(t, p.loop.metrics.isolated))
	for _, topic := range topics {
		requireOnce(t, readProduced(t, c, topic, rounds*size), rounds*size)
	}
	require.Zero(t, counter(t, p.loop.metrics.resequenced))
}
