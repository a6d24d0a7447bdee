package kafka

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"delay-scheduler/delay"
	"delay-scheduler/forward"
	"delay-scheduler/internal/testkafka"
)

// produceKey is the request that all faults here are about.
const produceKey = 0

func TestOrderHoldsAndNothingIsLostOrDoubledWhileLeadersMove(t *testing.T) {
	const n, keys = 20_000, 50
	c := testkafka.Fake(t, kfake.NumBrokers(3), kfake.SeedTopics(12, "moving"))
	p, acks := testProducer(t, c, func(o *ProducerOptions) { o.MaxBatchRecords = 50 })
	for i := range 20 {
		produceNumbered(p, "moving", i*n/20, (i+1)*n/20, keys)
		for part := range int32(12) {
			require.NoError(t, c.MoveTopicPartition("moving", part, (part+int32(i))%3))
		}
		acks.wait(t, i*n/20, 20*time.Second)
	}
	got := acks.wait(t, n, 20*time.Second)
	require.Equal(t, map[forward.Class]int{0: n}, classes(got))
	requireTagsInOrder(t, got, n, keys)
	requireOnce(t, readProduced(t, c, "moving", n), n)
	require.Positive(t, counter(t, p.loop.metrics.retries), "nothing was sent again: the leaders did not move in time")
}

// faults injects the same error into some produce requests, and wants everything
// written once in spite of it.
func TestWhatPassesIsSentAgainUntilItIsWrittenOnce(t *testing.T) {
	for _, fault := range []*kerr.Error{
		kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.NotEnoughReplicas, kerr.KafkaStorageError,
		kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend, kerr.UnknownServerError, kerr.CorruptMessage,
		kerr.UnknownTopicOrPartition, kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID, kerr.InvalidProducerEpoch,
	} {
		t.Run(fault.Message, func(t *testing.T) {
			const n, keys = 2000, 20
			c := testkafka.Fake(t, kfake.NumBrokers(2), kfake.SeedTopics(4, "faulty"))
			h := c.Fault(kfake.Fault{Keys: []kmsg.Key{produceKey}, Topic: "faulty", Err: fault, Count: 2})
			p, acks := testProducer(t, c, func(o *ProducerOptions) { o.MaxBatchRecords = 100 })
			produceNumbered(p, "faulty", 0, n, keys)
			got := acks.wait(t, n, 20*time.Second)
			require.Equal(t, map[forward.Class]int{0: n}, classes(got))
			requireTagsInOrder(t, got, n, keys)
			requireOnce(t, readProduced(t, c, "faulty", n), n)
			require.Equal(t, 2, h.Hits())
		})
	}
}

func TestDroppedConnectionsCostNothing(t *testing.T) {
	const n, keys = 5000, 20
	c := testkafka.Fake(t, kfake.NumBrokers(2), kfake.SeedTopics(4, "dropped"))
	requests := 0
	c.ControlKey(produceKey, func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		requests++
		return nil, errors.New("dropped by the test"), requests%3 == 1 && requests < 30
	})
	p, acks := testProducer(t, c, func(o *ProducerOptions) { o.MaxBatchRecords = 50 })
	produceNumbered(p, "dropped", 0, n, keys)
	got := acks.wait(t, n, 20*time.Second)
	require.Equal(t, map[forward.Class]int{0: n}, classes(got))
	requireTagsInOrder(t, got, n, keys)
	requireOnce(t, readProduced(t, c, "dropped", n), n)
	require.Positive(t, counter(t, p.loop.metrics.disconnected))
}

func TestWhatIsCertainlyUnwrittenComesBackInOrderWithItsNumbers(t *testing.T) {
	const n = 300
	c := testkafka.Fake(t, kfake.SeedTopics(1, "short"))
	h := c.Fault(kfake.Fault{Keys: []kmsg.Key{produceKey}, Err: kerr.NotEnoughReplicas, Count: -1})
	p, acks := testProducer(t, c, func(o *ProducerOptions) { o.MaxBatchRecords, o.Patience = 50, 300*time.Millisecond })
	produceNumbered(p, "short", 0, n, 1)
	got := acks.wait(t, n, 10*time.Second)
	require.Equal(t, map[forward.Class]int{forward.Transient: n}, classes(got))
	requireTagsInOrder(t, got, n, 1)
	require.ErrorContains(t, got[0].Err, "short/0")
	for _, a := range got {
		require.False(t, a.Uncertain)
	}

	// Until the lane has seen it, everything else comes back as well.
	produceNumbered(p, "short", n, n+10, 1)
	require.Equal(t, map[forward.Class]int{forward.Transient: n + 10}, classes(acks.wait(t, n+10, 10*time.Second)))

	h.Remove()
	require.Nil(t, p.Resolve(t.Context(), "short"))
	produceNumbered(p, "short", 0, n, 1)
	got = acks.wait(t, 2*n+10, 10*time.Second)
	require.Equal(t, map[forward.Class]int{forward.Transient: n + 10, 0: n}, classes(got))
	requireOnce(t, readProduced(t, c, "short", n), n)
	require.Zero(t, counter(t, p.loop.metrics.resequenced), "the sequence had a gap")
}

func TestWhatMayBeWrittenIsNeverGivenBack(t *testing.T) {
	const n = 30
	c := testkafka.Fake(t, kfake.SeedTopics(1, "unsure"))
	// Applied and answered with a time-out; then refused for much longer than we are patient.
	applied := c.Fault(kfake.Fault{Keys: []kmsg.Key{produceKey}, Err: kerr.RequestTimedOut})
	refused := c.Fault(kfake.Fault{Keys: []kmsg.Key{produceKey}, Err: kerr.NotEnoughReplicas, Count: -1})
	p, acks := testProducer(t, c, func(o *ProducerOptions) { o.Patience = 10 * time.Millisecond })
	produceNumbered(p, "unsure", 0, n, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	require.NoError(t, applied.Wait(ctx, 1))
	require.NoError(t, refused.Wait(ctx, 5))
	require.Empty(t, acks.all())
	refused.Remove()
	require.Equal(t, map[forward.Class]int{0: n}, classes(acks.wait(t, n, 10*time.Second)))
	requireOnce(t, readProduced(t, c, "unsure", n), n)
}

func TestARefusedTopicComesBackAtOnceAndTheOthersGoOn(t *testing.T) {
	for _, c := range []struct {
		fault *kerr.Error
		class forward.Class
	}{
		{kerr.TopicAuthorizationFailed, forward.NotAuthorized},
		{kerr.UnsupportedCompressionType, forward.Transient},
		{kerr.InvalidTopicException, forward.UnknownTopic},
	} {
		t.Run(c.fault.Message, func(t *testing.T) {
			cluster := testkafka.Fake(t, kfake.SeedTopics(2, "refused", "open"))
			cluster.Fault(kfake.Fault{Keys: []kmsg.Key{produceKey}, Topic: "refused", Err: c.fault, Count: -1})
			p, acks := testProducer(t, cluster, nil)
			produceNumbered(p, "refused", 0, 100, 5)
			produceNumbered(p, "open", 0, 100, 5)
			got := acks.wait(t, 200, 10*time.Second)
			require.Equal(t, map[forward.Class]int{0: 100, c.class: 100}, classes(got))
			requireOnce(t, readProduced(t, cluster, "open", 100), 100)
		})
	}
}

func TestAnUnknownTopicComesBackAndIsWrittenOnceItExists(t *testing.T) {
	c := testkafka.Fake(t, kfake.SeedTopics(1, "known"))
	p, acks := testProducer(t, c, nil)
	refusal := p.Resolve(t.Context(), "later")
	require.NotNil(t, refusal)
	require.Equal(t, forward.UnknownTopic, refusal.Class)
	require.ErrorContains(t, refusal, "later")

	produceNumbered(p, "later", 0, 50, 5)
	produceNumbered(p, "known", 0, 50, 5)
	got := acks.wait(t, 100, 10*time.Second)
	require.Equal(t, map[forward.Class]int{0: 50, forward.UnknownTopic: 50}, classes(got))

	c.CreateTopic("later", 3, nil)
	require.Nil(t, p.Resolve(t.Context(), "later"))
	produceNumbered(p, "later", 0, 50, 5)
	require.Equal(t, map[forward.Class]int{0: 100, forward.UnknownTopic: 50}, classes(acks.wait(t, 150, 10*time.Second)))
	requireOnce(t, readProduced(t, c, "later", 50), 50)
}

func TestADeletedTopicComesBackAndOneOfTheSameNameIsWritten(t *testing.T) {
	c := testkafka.Fake(t, kfake.NumBrokers(2), kfake.SeedTopics(8, "deleted"))
	p, acks := testProducer(t, c, nil)
	produceNumbered(p, "deleted", 0, 50, 10)
	acks.wait(t, 50, 10*time.Second)
	c.DeleteTopic("deleted")
	produceNumbered(p, "deleted", 0, 50, 10)
	got := acks.wait(t, 100, 15*time.Second)
	require.Equal(t, map[forward.Class]int{0: 50, forward.UnknownTopic: 50}, classes(got))

	c.CreateTopic("deleted", 2, nil)
	require.Nil(t, p.Resolve(t.Context(), "deleted"))
	produceNumbered(p, "deleted", 0, 50, 10)
	require.Equal(t, map[forward.Class]int{0: 100, forward.UnknownTopic: 50}, classes(acks.wait(t, 150, 10*time.Second)))
	requireOnce(t, readProduced(t, c, "deleted", 50), 50)
}

func TestOneOversizeRecordFailsAlone(t *testing.T) {
	const n, large = 400, 137
	c := testkafka.Fake(t)
	c.CreateTopic("limited", 1, map[string]string{"max.message.bytes": "20000"})
	p, acks := testProducer(t, c, func(o *ProducerOptions) { o.Linger = 100 * time.Millisecond })
	var records []delay.Outgoing
	for i := range n {
		r := outgoing("limited", "k", i)
		if i == large {
			r.Value = make([]byte, 30_000)
		}
		records = append(records, r)
	}
	p.Produce("limited", records)
	got := acks.wait(t, n, 20*time.Second)
	require.Equal(t, map[forward.Class]int{0: n - 1, forward.TooLarge: 1}, classes(got))
	requireTagsInOrder(t, got, n, 1)
	require.NotNil(t, got[large].Err)
	require.Len(t, readProduced(t, c, "limited", n-1), n-1)
	require.Zero(t, counter(t, p.loop.metrics.resequenced))
}

// refuseRecords answers a request of one batch by naming some of its records.
func refuseRecords(req *kmsg.ProduceRequest, records ...int32) *kmsg.ProduceResponse {
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	part := kmsg.NewProduceResponseTopicPartition()
	part.ErrorCode = kerr.InvalidRecord.Code
	for _, i := range records {
		e := kmsg.NewProduceResponseTopicPartitionErrorRecord()
		e.RelativeOffset = i
		part.ErrorRecords = append(part.ErrorRecords, e)
	}
	topic := kmsg.NewProduceResponseTopic()
	topic.Topic, topic.Partitions = req.Topics[0].Topic, []kmsg.ProduceResponseTopicPartition{part}
	resp.Topics = append(resp.Topics, topic)
	return resp
}

func TestRecordsThatTheBrokerNamesAreRefusedInTheirPlace(t *testing.T) {
	const n = 40
	c := testkafka.Fake(t, kfake.SeedTopics(1, "checked"))
	c.ControlKey(produceKey, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		return refuseRecords(kreq.(*kmsg.ProduceRequest), 0, 5, 6, n-1), nil, true
	})
	p, acks := testProducer(t, c, func(o *ProducerOptions) { o.Linger = 100 * time.Millisecond })
	var records []delay.Outgoing
	for i := range n {
		records = append(records, outgoing("checked", "k", i))
	}
	p.Produce("checked", records)
	got := acks.wait(t, n, 10*time.Second)
	requireTagsInOrder(t, got, n, 1)
	for i, a := range got {
		require.Equal(t, i == 0 || i == 5 || i == 6 || i == n-1, a.Err != nil, i)
	}
	require.Equal(t, map[forward.Class]int{0: n - 4, forward.Rejected: 4}, classes(got))
	require.Len(t, readProduced(t, c, "checked", n-4), n-4)
}

func TestARejectedRecordWithoutAnIndexIsFoundByHalving(t *testing.T) {
	const n = 33
	c := testkafka.Fake(t, kfake.SeedTopics(1, "halved"))
	c.Fault(kfake.Fault{Keys: []kmsg.Key{produceKey}, Err: kerr.InvalidTimestamp, Count: -1, When: func(kreq kmsg.Request) bool {
		var b kmsg.RecordBatch
		req := kreq.(*kmsg.ProduceRequest)
		return b.ReadFrom(req.Topics[0].Partitions[0].Records) == nil && b.FirstTimestamp <= 1_000_021 && b.MaxTimestamp >= 1_000_021
	}})
	p, acks := testProducer(t, c, func(o *ProducerOptions) { o.Linger = 100 * time.Millisecond })
	var records []delay.Outgoing
	for i := range n {
		r := outgoing("halved", "k", i)
		r.Timestamp = 1_000_000 + int64(i)
		records = append(records, r)
	}
	p.Produce("halved", records)
	got := acks.wait(t, n, 10*time.Second)
	require.Equal(t, map[forward.Class]int{0: n - 1, forward.Rejected: 1}, classes(got))
	requireTagsInOrder(t, got, n, 1)
	require.NotNil(t, got[21].Err)
	require.Len(t, readProduced(t, c, "halved", n-1), n-1)
}

func TestResolveSaysWhatIsTheMatter(t *testing.T) {
	c := testkafka.Fake(t, kfake.NumBrokers(2), kfake.SeedTopics(1, "there", "forbidden"))
	c.Fault(kfake.Fault{Keys: []kmsg.Key{3}, Topic: "forbidden", Err: kerr.TopicAuthorizationFailed, Count: -1})
	p, _ := testProducer(t, c, nil)
	require.Nil(t, p.Resolve(t.Context(), "there"))
	require.Equal(t, forward.NotAuthorized, p.Resolve(t.Context(), "forbidden").Class)
	require.Equal(t, forward.UnknownTopic, p.Resolve(t.Context(), "missing").Class)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, forward.Transient, p.Resolve(ended, "there").Class)
}

func TestWhoAsksForATopicFindsItsLeadersConnected(t *testing.T) {
	c := testkafka.Fake(t, kfake.NumBrokers(3), kfake.SeedTopics(6, "asked"))
	for part := range int32(6) {
		require.NoError(t, c.MoveTopicPartition("asked", part, part%2))
	}
	p, _ := testProducer(t, c, nil)
	require.Nil(t, p.Resolve(t.Context(), "asked"))
	connected := func() (n int) {
		seen := make(chan int)
		p.loop.inbox.post(func(time.Time) {
			up := 0
			for _, n := range p.loop.nodes {
				if n.fast != nil && n.fast.up {
					up++
				}
			}
			seen <- up
		})
		return <-seen
	}
	require.Eventually(t, func() bool { return connected() == 2 }, 10*time.Second, time.Millisecond)
	require.Nil(t, p.Resolve(t.Context(), "asked"))
	require.Equal(t, 2, connected())
}

func TestABatchWithCompanyEnoughDoesNotLinger(t *testing.T) {
	c := testkafka.Fake(t, kfake.SeedTopics(1, "company"))
	p, acks := testProducer(t, c, func(o *ProducerOptions) { o.Linger = time.Hour })
	require.Nil(t, p.Resolve(t.Context(), "company"))
	r := outgoing("company", "k", 0)
	p.Produce("company", []delay.Outgoing{r})
	r.Value = make([]byte, companyBytes)
	p.Produce("company", []delay.Outgoing{r})
	acks.wait(t, 2, 10*time.Second)
}

func TestSmallBatchesWaitForCompanyAndFullOnesDoNot(t *testing.T) {
	c := testkafka.Fake(t, kfake.SeedTopics(1, "company"))
	requests := c.Fault(kfake.Fault{Keys: []kmsg.Key{produceKey}, Topic: "company", Observe: true, Count: -1})
	p, acks := testProducer(t, c, func(o *ProducerOptions) { o.Linger, o.MaxBatchRecords = time.Hour, 50 })
	require.Nil(t, p.Resolve(t.Context(), "company"))
	for i := range 51 {
		p.Produce("company", []delay.Outgoing{outgoing("company", "k", i)})
	}
	require.Len(t, acks.wait(t, 50, 10*time.Second), 50)
	require.Equal(t, 1, requests.Hits())
	require.NoError(t, closeProducer(t, p, 10*time.Second))
	require.Len(t, acks.all(), 51)
	require.Equal(t, 2, requests.Hits())
}

func TestASmallBatchLeavesWhenItsTimeIsUp(t *testing.T) {
	c := testkafka.Fake(t, kfake.SeedTopics(2, "alone"))
	p, acks := testProducer(t, c, func(o *ProducerOptions) { o.Linger = 20 * time.Millisecond })
	for i := range 10 {
		p.Produce("alone", []delay.Outgoing{outgoing("alone", strconv.Itoa(i), i)})
		acks.wait(t, i+1, 10*time.Second)
	}
}

func TestAProducerIDIsAskedForUntilThereIsOne(t *testing.T) {
	c := testkafka.Fake(t, kfake.SeedTopics(1, "numbered"))
	h := c.Fault(kfake.Fault{Keys: []kmsg.Key{22}, Err: kerr.CoordinatorLoadInProgress, Count: 3})
	p, acks := testProducer(t, c, nil)
	produceNumbered(p, "numbered", 0, 10, 1)
	require.Equal(t, map[forward.Class]int{0: 10}, classes(acks.wait(t, 10, 10*time.Second)))
	require.Equal(t, 3, h.Hits())
}

func TestWithoutAProducerIDEverythingComesBackWithTheReason(t *testing.T) {
	c := testkafka.Fake(t, kfake.SeedTopics(1, "numbered"))
	c.Fault(kfake.Fault{Keys: []kmsg.Key{22}, Err: kerr.ClusterAuthorizationFailed, Count: -1})
	p, acks := testProducer(t, c, func(o *ProducerOptions) { o.Patience = 200 * time.Millisecond })
	produceNumbered(p, "numbered", 0, 10, 1)
	got := acks.wait(t, 10, 10*time.Second)
	require.Equal(t, map[forward.Class]int{forward.NotAuthorized: 10}, classes(got))
	require.ErrorContains(t, got[0].Err, "producer id")
}

func TestAForgottenTopicGoesOnUnderANewerIdentity(t *testing.T) {
	c := testkafka.Fake(t, kfake.SeedTopics(1, "idle", "busy"))
	p, acks := testProducer(t, c, nil)
	produceNumbered(p, "idle", 0, 10, 1)
	produceNumbered(p, "busy", 0, 10, 1)
	acks.wait(t, 20, 10*time.Second)
	p.loop.inbox.post(func(now time.Time) {
		p.loop.topics["idle"].used = now.Add(-2 * topicIdle)
		p.loop.tidy(now)
	})
	produceNumbered(p, "idle", 10, 20, 1)
	acks.wait(t, 30, 10*time.Second)
	produceNumbered(p, "busy", 10, 20, 1)
	require.Equal(t, map[forward.Class]int{0: 40}, classes(acks.wait(t, 40, 10*time.Second)))
	requireOnce(t, readProduced(t, c, "idle", 20), 20)
	requireOnce(t, readProduced(t, c, "busy", 20), 20)
}

func TestAnIdleConnectionThatWasClosedLeavesNothingInDoubt(t *testing.T) {
	c := testkafka.Fake(t, kfake.SeedTopics(1, "idle"))
	p, acks := testProducer(t, c, func(o *ProducerOptions) { o.Patience = 200 * time.Millisecond })
	produceNumbered(p, "idle", 0, 1, 1)
	acks.wait(t, 1, 10*time.Second)
	c.Proxy(0).Refuse()
	produceNumbered(p, "idle", 1, 10, 1)
	got := acks.wait(t, 10, 10*time.Second)
	require.Equal(t, map[forward.Class]int{0: 1, forward.Transient: 9}, classes(got))
	c.Proxy(0).Resume()
	require.Eventually(t, func() bool { return p.Resolve(t.Context(), "idle") == nil }, 10*time.Second, 10*time.Millisecond)
	produceNumbered(p, "idle", 1, 10, 1)
	acks.wait(t, 19, 10*time.Second)
	requireOnce(t, readProduced(t, c, "idle", 10), 10)
}
