package kafka

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"delay-scheduler/delay"
	"delay-scheduler/forward"
	"delay-scheduler/internal/testkafka"
)

// provenRecords are what provenProducer has written.
const provenRecords = 10

// provenProducer makes a producer whose partition the broker knows, so that the next
// batches, of ten records each, are under way together.
func provenProducer(t *testing.T, b testkafka.Broker, topic string, change func(*ProducerOptions)) (*Producer, *ackLog) {
	t.Helper()
	p, acks := testProducer(t, b, func(o *ProducerOptions) {
		o.MaxBatchRecords = 10
		if change != nil {
			change(o)
		}
	})
	produceNumbered(p, topic, 0, provenRecords, 1)
	acks.wait(t, provenRecords, 20*time.Second)
	return p, acks
}

// window looks at a partition's window from the loop's own goroutine.
func window(p *Producer, topic string, partition int) (flying, numbered int) {
	seen := make(chan [2]int)
	p.loop.inbox.post(func(time.Time) {
		part := p.loop.topics[topic].parts[partition]
		seen <- [2]int{part.flying(), len(part.window)}
	})
	w := <-seen
	return w[0], w[1]
}

// awaitWindow waits until as many batches are under way as may be.
func awaitWindow(t *testing.T, p *Producer, topic string) {
	t.Helper()
	require.Eventually(t, func() bool {
		flying, numbered := window(p, topic, 0)
		require.LessOrEqual(t, numbered, windowMost)
		return flying == windowMost
	}, 10*time.Second, time.Millisecond, "never five batches under way")
}

func TestFiveBatchesOfAPartitionAreUnderWayAndNeverMore(t *testing.T) {
	const n = 500
	c := testkafka.Fake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "busy"))
	p, acks := provenProducer(t, c, "busy", patient)
	release := holdBack(t, c, nil, "busy")
	produceNumbered(p, "busy", provenRecords, n, 1)
	awaitWindow(t, p, "busy")
	require.Len(t, acks.all(), provenRecords)
	release()
	requireTagsInOrder(t, acks.wait(t, n, 20*time.Second), n, 1)
	requireOnce(t, readProduced(t, c, "busy", n), n)
}

// A broker that knows nothing of us takes any first number, so it would take the second
// batch if the first failed.
func TestTheFirstBatchForAPartitionTravelsAlone(t *testing.T) {
	const n = 100
	c := testkafka.Fake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "fresh"))
	testkafka.Produce(t, c, &kgo.Record{Topic: "fresh", Key: []byte("other"), Value: []byte("0")})
	c.Fault(kfake.Fault{Keys: []kmsg.Key{produceKey}, Err: kerr.NotEnoughReplicas, Count: 1})
	p, acks := testProducer(t, c, func(o *ProducerOptions) { o.MaxBatchRecords = 10 })
	produceNumbered(p, "fresh", 1, n, 1)
	require.Equal(t, map[forward.Class]int{0: n - 1}, classes(acks.wait(t, n-1, 20*time.Second)))
	requireOnce(t, readProduced(t, c, "fresh", n), n)
	require.Zero(t, counter(t, p.loop.metrics.resequenced))
}

func TestAnOpenBatchDoesNotWaitForEverForTheAnswerBeforeIt(t *testing.T) {
	c := testkafka.Fake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "slow"))
	p, acks := provenProducer(t, c, "slow", patient)
	release := holdBack(t, c, nil, "slow")
	for i := provenRecords; i < provenRecords+3; i++ {
		produceNumbered(p, "slow", i, i+1, 1)
		require.Eventually(t, func() bool {
			flying, _ := window(p, "slow", 0)
			return flying == i+1-provenRecords
		}, 10*time.Second, time.Millisecond)
	}
	release()
	requireTagsInOrder(t, acks.wait(t, provenRecords+3, 20*time.Second), provenRecords+3, 1)
}

// Whatever one of several batches under way fails with, everything is written once, in
// order, and only what the broker does not know any more gets another identity.
func TestAFailureAmongSeveralBatchesKeepsTheOrder(t *testing.T) {
	const n = 400
	for _, f := range []struct {
		fault   *kerr.Error
		renewed bool
	}{
		{kerr.NotLeaderForPartition, false},
		{kerr.LeaderNotAvailable, false},
		{kerr.NotEnoughReplicas, false},
		{kerr.KafkaStorageError, false},
		{kerr.RequestTimedOut, false}, // appended nevertheless
		{kerr.NotEnoughReplicasAfterAppend, false},
		{kerr.UnknownServerError, false},
		{kerr.CorruptMessage, false},
		{kerr.UnknownTopicOrPartition, false},
		{kerr.UnknownProducerID, true},
		{kerr.InvalidProducerEpoch, true},
	} {
		for _, nth := range []int{1, 2, 4} {
			t.Run(fmt.Sprintf("%s-%d", f.fault.Message, nth), func(t *testing.T) {
				c := testkafka.Fake(t, kfake.NumBrokers(2), kfake.SeedTopics(1, "busy"))
				p, acks := provenProducer(t, c, "busy", nil)
				seen := 0
				h := c.Fault(kfake.Fault{Keys: []kmsg.Key{produceKey}, Topic: "busy", Err: f.fault, Count: 1, When: func(kmsg.Request) bool {
					seen++
					return seen >= nth
				}})
				produceNumbered(p, "busy", provenRecords, n, 1)
				got := acks.wait(t, n, 20*time.Second)
				require.Equal(t, map[forward.Class]int{0: n}, classes(got))
				requireTagsInOrder(t, got, n, 1)
				requireOnce(t, readProduced(t, c, "busy", n), n)
				require.Equal(t, 1, h.Hits())
				require.LessOrEqual(t, counter(t, p.loop.metrics.resequenced), map[bool]int{true: 1}[f.renewed])
				require.Zero(t, counter(t, p.loop.metrics.duplicates))
			})
		}
	}
}

func TestABrokerThatForgotUsIsWrittenToUnderAnotherIdentity(t *testing.T) {
	const n = 300
	c := testkafka.Fake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "forgotten"))
	p, acks := provenProducer(t, c, "forgotten", nil)
	// All that is under way is refused, the first of it again and again.
	h := c.Fault(kfake.Fault{Keys: []kmsg.Key{produceKey}, Err: kerr.OutOfOrderSequenceNumber, Count: 5})
	produceNumbered(p, "forgotten", provenRecords, n, 1)
	got := acks.wait(t, n, 20*time.Second)
	requireTagsInOrder(t, got, n, 1)
	require.Equal(t, map[forward.Class]int{0: n}, classes(got))
	requireOnce(t, readProduced(t, c, "forgotten", n), n)
	require.Equal(t, 5, h.Hits())
	require.Positive(t, counter(t, p.loop.metrics.resequenced))
	require.Zero(t, counter(t, p.loop.metrics.duplicates))
}

// The connection is cut with five batches on it, of which some were written.
func TestACutAmongSeveralBatchesCostsNothing(t *testing.T) {
	const n = 400
	for applied := range windowMost + 1 {
		t.Run(fmt.Sprintf("after %d", applied), func(t *testing.T) {
			c := testkafka.Fake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "cut"))
			p, acks := provenProducer(t, c, "cut", nil)
			c.Proxy(0).DropResponses()
			var requests atomic.Int32
			cut := make(chan struct{})
			c.ControlKey(produceKey, func(kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				if requests.Add(1) != int32(applied)+1 {
					return nil, nil, false
				}
				close(cut)
				return nil, errors.New("cut by the test"), true
			})
			produceNumbered(p, "cut", provenRecords, n, 1)
			if applied < windowMost {
				<-cut
			} else {
				require.Eventually(t, func() bool { return requests.Load() == windowMost }, 10*time.Second, time.Millisecond)
				c.Proxy(0).Drop()
			}
			c.Proxy(0).Resume()
			got := acks.wait(t, n, 20*time.Second)
			require.Equal(t, map[forward.Class]int{0: n}, classes(got))
			requireTagsInOrder(t, got, n, 1)
			requireOnce(t, readProduced(t, c, "cut", n), n)
			require.Zero(t, counter(t, p.loop.metrics.resequenced))
		})
	}
}

func TestWhatIsUnderWayComesBackInOrderWithItsNumbers(t *testing.T) {
	const n = 200
	c := testkafka.Fake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "short"))
	p, acks := provenProducer(t, c, "short", func(o *ProducerOptions) { o.Patience = 300 * time.Millisecond })
	h := c.Fault(kfake.Fault{Keys: []kmsg.Key{produceKey}, Err: kerr.NotEnoughReplicas, Count: -1})
	produceNumbered(p, "short", provenRecords, n, 1)
	got := acks.wait(t, n, 20*time.Second)
	require.Equal(t, map[forward.Class]int{0: provenRecords, forward.Transient: n - provenRecords}, classes(got))
	requireTagsInOrder(t, got, n, 1)
	h.Remove()
	require.Nil(t, p.Resolve(t.Context(), "short"))
	produceNumbered(p, "short", provenRecords, n, 1)
	acks.wait(t, 2*n-provenRecords, 20*time.Second)
	requireOnce(t, readProduced(t, c, "short", n), n)
	require.Zero(t, counter(t, p.loop.metrics.resequenced), "the numbers have a gap")
}

// A follower whose request was lost may still be waiting in the broker when what is
// before it is given back, and must not be written later.
func TestWhatIsGivenBackBehindALostAnswerGetsAnotherIdentity(t *testing.T) {
	p := &producePartition{topic: &produceTopic{name: "t", limit: 1 << 20}, id: produceIdentity{id: 1, generation: 1}, next: 7}
	l := &produceLoop{identity: p.id, identityAsked: true}
	for _, doubt := range []bool{false, true} {
		b := newProduceBatch(p, testTime)
		b.add(&delay.Outgoing{}, 10, 0)
		b.ambiguous = doubt
		p.window = append(p.window, b)
		p.sequence(b, l.identity)
	}
	l.unnumber(p)
	require.Len(t, p.queue, 2)
	require.Equal(t, produceIdentity{}, p.id, "it waits for a new one")
	require.Zero(t, p.next)
}

func TestRecordsThatTheBrokerNamesAreRefusedWhileOthersFollow(t *testing.T) {
	const n = 200
	c := testkafka.Fake(t, kfake.SeedTopics(1, "checked"))
	p, acks := provenProducer(t, c, "checked", nil)
	hits := 0
	c.ControlKey(produceKey, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if hits++; hits != 2 {
			return nil, nil, false
		}
		return refuseRecords(kreq.(*kmsg.ProduceRequest), 0, 5, 6), nil, true
	})
	produceNumbered(p, "checked", provenRecords, n, 1)
	got := acks.wait(t, n, 20*time.Second)
	requireTagsInOrder(t, got, n, 1)
	require.Equal(t, map[forward.Class]int{0: n - 3, forward.Rejected: 3}, classes(got))
	require.Len(t, readProduced(t, c, "checked", n-3), n-3)
	require.Zero(t, counter(t, p.loop.metrics.resequenced))
}
