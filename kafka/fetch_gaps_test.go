package kafka

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"delay-scheduler/delay"
	"delay-scheduler/internal/testkafka"
	"delay-scheduler/scheduler"
)

func TestF33_PositionPassesTransactionMarkersAtTheEnd(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		topic := testkafka.UniqueName(t)
		b.CreateTopic(topic, 1, nil)
		w := newTransactions(t, b, topic)
		const n = 20
		for i := range n {
			w.begin()
			w.write(i)
			w.end(kgo.TryCommit)
		}

		s := startFetcher(t, b).Open(topic, 0, 0)
		var got []delay.Record
		last := batchUntil(t, s, &got, func(b scheduler.Batch) bool { return b.Next == 2*n })
		require.Equal(t, int64(2*n), last.LogEnd, "the last offset is a marker, and passed")
		require.Len(t, got, n)
		for i, r := range got {
			require.Equal(t, int64(2*i), r.Offset)
		}
	})
}

func TestF33_RecordsWaitForTheirTransaction(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		topic := testkafka.UniqueName(t)
		b.CreateTopic(topic, 1, nil)
		w := newTransactions(t, b, topic)
		w.begin()
		w.write(1)

		s := startFetcher(t, b).Open(topic, 0, 0)
		first := batchUntil(t, s, nil, func(scheduler.Batch) bool { return true })
		require.Empty(t, first.Records)
		require.Zero(t, first.LogEnd, "undecided records are beyond the stable end")
		w.end(kgo.TryCommit)
		require.Equal(t, []string{"1"}, valuesOf(readN(t, s, 1)))
	})
}

// TestF33_AbortedRecordsAreNotRead compares with another client's reading, over a
// random interleaving of transactions of several producers.
func TestF33_AbortedRecordsAreNotRead(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		topic := testkafka.UniqueName(t)
		b.CreateTopic(topic, 1, nil)
		writers := []*transactions{newTransactions(t, b, topic), newTransactions(t, b, topic), newTransactions(t, b, topic)}
		value := 0
		for range 60 {
			w := writers[rng.IntN(len(writers))]
			switch {
			case !w.open:
				w.begin()
			case rng.IntN(3) == 0:
				w.end(kgo.TransactionEndTry(rng.IntN(2) == 0))
				continue
			}
			for range 1 + rng.IntN(3) {
				w.write(value)
				value++
			}
		}
		for _, w := range writers {
			if w.open {
				w.end(kgo.TryAbort)
			}
		}
		produceTo(t, b, &kgo.Record{Topic: topic, Value: []byte("last")})

		want := readCommitted(t, b, topic, "last")
		s := startFetcher(t, b).Open(topic, 0, 0)
		var got []delay.Record
		batchUntil(t, s, &got, func(b scheduler.Batch) bool { return b.Next == b.LogEnd })
		require.Equal(t, want, valuesOf(got))

		// From the middle of anything, too: what comes is the same, from there on.
		for range 10 {
			from := rng.IntN(len(got))
			s := startFetcher(t, b).Open(topic, 0, got[from].Offset)
			require.Equal(t, want[from:], valuesOf(readN(t, s, len(want)-from)))
			s.Close()
		}
	})
}

func TestF33_DeletedRecordsAreCountedAsLost(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		topic := testkafka.UniqueName(t)
		b.CreateTopic(topic, 1, nil)
		produceTo(t, b, numbered(topic, 0, 0, 10)...)
		deleteRecords(t, b, topic, 6)

		f := startFetcher(t, b)
		s := f.Open(topic, 0, 2)
		gap := batchUntil(t, s, nil, func(b scheduler.Batch) bool { return b.Lost > 0 })
		require.Equal(t, int64(4), gap.Lost)
		require.Equal(t, int64(6), gap.Next)
		require.Equal(t, int64(6), gap.LogStart)
		require.NoError(t, gap.Err)
		require.Equal(t, []int64{6, 7, 8, 9}, offsetsOf(readN(t, s, 4)))

		// Without a position the log begins where it begins, and nothing is lost.
		s = f.Open(topic, 0, -1)
		var got []delay.Record
		batchUntil(t, s, &got, func(b scheduler.Batch) bool {
			require.Zero(t, b.Lost)
			return b.Next == 10
		})
		require.Equal(t, []int64{6, 7, 8, 9}, offsetsOf(got))
	})
}

func TestF33_WholeLogDeletedGoesOnAtItsEnd(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		topic := testkafka.UniqueName(t)
		b.CreateTopic(topic, 1, nil)
		produceTo(t, b, numbered(topic, 0, 0, 10)...)
		deleteRecords(t, b, topic, 10)

		s := startFetcher(t, b).Open(topic, 0, 3)
		gap := batchUntil(t, s, nil, func(b scheduler.Batch) bool { return b.Lost > 0 })
		require.Equal(t, int64(7), gap.Lost)
		require.Equal(t, int64(10), gap.Next)
		produceTo(t, b, numbered(topic, 0, 10, 1)...)
		require.Equal(t, []int64{10}, offsetsOf(readN(t, s, 1)))
	})
}

func TestFetchBeyondTheEndSaysTruncated(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		topic := testkafka.UniqueName(t)
		b.CreateTopic(topic, 1, nil)
		produceTo(t, b, numbered(topic, 0, 0, 5)...)

		s := startFetcher(t, b).Open(topic, 0, 1000)
		cut := batchUntil(t, s, nil, func(b scheduler.Batch) bool { return b.Truncated })
		require.Equal(t, int64(5), cut.Next)
		require.Zero(t, cut.Lost)
		require.Empty(t, cut.Records)
		produceTo(t, b, numbered(topic, 0, 5, 1)...)
		require.Equal(t, []int64{5}, offsetsOf(readN(t, s, 1)))
	})
}

// transactions is one transactional producer's way to a topic's partition 0.
type transactions struct {
	t      testing.TB
	client *kgo.Client
	topic  string
	open   bool
}

func newTransactions(t testing.TB, b testkafka.Endpoint, topic string) *transactions {
	t.Helper()
	client := testkafka.Client(t, b, kgo.TransactionalID(testkafka.UniqueName(t)),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	return &transactions{t: t, client: client, topic: topic}
}

func (w *transactions) begin() {
	require.NoError(w.t, w.client.BeginTransaction())
	w.open = true
}

func (w *transactions) write(value int) {
	record := &kgo.Record{Topic: w.topic, Value: fmt.Append(nil, value)}
	require.NoError(w.t, w.client.ProduceSync(w.t.Context(), record).FirstErr())
}

func (w *transactions) end(how kgo.TransactionEndTry) {
	require.NoError(w.t, w.client.EndTransaction(w.t.Context(), how))
	w.open = false
}

// readCommitted is what another client reads up to a value.
func readCommitted(t testing.TB, b testkafka.Endpoint, topic, last string) []string {
	t.Helper()
	client := testkafka.Client(t, b, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	var values []string
	for len(values) == 0 || values[len(values)-1] != last {
		fetches := client.PollFetches(t.Context())
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values
}

func deleteRecords(t testing.TB, b testkafka.Endpoint, topic string, before int64) {
	t.Helper()
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: topic, Partition: 0, At: before, LeaderEpoch: -1})
	resp, err := testkafka.Admin(t, b).DeleteRecords(t.Context(), offsets)
	require.NoError(t, err)
	require.NoError(t, resp.Error())
}

func TestTransactionThatHangsIsNamedWithItsProducer(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		topic := testkafka.UniqueName(t)
		b.CreateTopic(topic, 1, nil)
		produceTo(t, b, &kgo.Record{Topic: topic, Value: []byte("before")})
		w := newTransactions(t, b, topic)
		w.begin()
		w.write(1)
		id, _, err := w.client.ProducerID(t.Context())
		require.NoError(t, err)

		s := startFetcher(t, b, func(o *FetchOptions) { o.HangingAfter = 100 * time.Millisecond }).Open(topic, 0, 0)
		hanging := batchUntil(t, s, nil, func(b scheduler.Batch) bool { return b.Hanging != nil }).Hanging
		require.EqualValues(t, 1, hanging.Offset)
		require.Equal(t, id, hanging.ProducerID)
		require.GreaterOrEqual(t, hanging.Open, 100*time.Millisecond)
		w.end(kgo.TryAbort)
		batchUntil(t, s, nil, func(b scheduler.Batch) bool { return b.Hanging == nil })
	})
}
