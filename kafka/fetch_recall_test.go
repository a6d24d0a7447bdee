package kafka

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"delay-scheduler/delay"
	"delay-scheduler/internal/testkafka"
	"delay-scheduler/offset"
	"delay-scheduler/scheduler"
)

// anyTopic is no topic's id, and is compared with none.
var anyTopic offset.TopicID

// single is the range of one offset.
func single(o int64) scheduler.Range { return scheduler.Range{From: o, Below: o + 1} }

// recallAll reads a recall to its end.
func recallAll(t testing.TB, s scheduler.Stream) (all []scheduler.Batch, records []delay.Record) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		select {
		case b, more := <-s.Batches():
			if !more {
				return all, records
			}
			require.NoError(t, b.Err)
			all, records = append(all, b), append(records, b.Records...)
		case <-deadline.C:
			require.FailNow(t, "the recall does not end")
		}
	}
}

func TestRecallReadsTheRangesAndNothingElse(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		topic := testkafka.UniqueName(t)
		b.CreateTopic(topic, 1, nil)
		w := startWriter(t, b)
		for i := range 10 {
			w.write(numbered(topic, 0, 100*i, 100)...) // ten batches
		}
		f := startFetcher(t, b)
		ranges := []scheduler.Range{
			{From: 0, Below: 2},
			single(50), single(51),
			{From: 180, Below: 420},
			{From: 500, Below: 900, Only: []int64{500, 610, 777, 899}},
			single(999),
		}
		all, records := recallAll(t, f.Recall(topic, 0, anyTopic, ranges))
		var want []int64
		for _, r := range ranges {
			for o := r.From; o < r.Below; o++ {
				if r.Only == nil || slices.Contains(r.Only, o) {
					want = append(want, o)
				}
			}
		}
		require.Equal(t, want, offsetsOf(records))
		for i, batch := range all {
			require.Less(t, batch.From, batch.Next)
			require.EqualValues(t, 0, batch.LogStart)
			if i > 0 {
				require.GreaterOrEqual(t, batch.From, all[i-1].Next, "nothing is read twice")
			}
		}
		require.GreaterOrEqual(t, all[len(all)-1].Next, int64(1000))
	})
}

func TestRecallFetchesExactlyWhatMustProveThatNothingIsThere(t *testing.T) {
	fake := testkafka.Fake(t, kfake.SeedTopics(1, "orders-delay"))
	produceTo(t, fake, numbered("orders-delay", 0, 0, 100)...)
	exact := func(o int64) scheduler.Range { return scheduler.Range{From: o, Below: o + 1, Exact: true} }
	all, records := recallAll(t, startFetcher(t, fake).Recall("orders-delay", 0, anyTopic,
		[]scheduler.Range{single(3), exact(10), exact(11), {From: 20, Below: 30}, exact(40)}))
	from := map[int64]bool{}
	for _, b := range all {
		from[b.From] = true
	}
	require.True(t, from[10] && from[11] && from[40], "one batch serves all of it, and is asked for again all the same")
	require.Equal(t, []int64{3, 10, 11, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 40}, offsetsOf(records))
}

func TestRecallOfManySinglesTakesFromOneBatchWhatItHolds(t *testing.T) {
	fake := testkafka.Fake(t, kfake.SeedTopics(1, "orders-delay"))
	w := startWriter(t, fake)
	w.write(numbered("orders-delay", 0, 0, 20_000)...)
	var ranges []scheduler.Range
	for o := int64(0); o < 20_000; o += 2 {
		ranges = append(ranges, single(o))
	}
	all, records := recallAll(t, startFetcher(t, fake).Recall("orders-delay", 0, anyTopic, ranges))
	require.Len(t, records, 10_000)
	require.Less(t, len(all), 1000)
}

func TestRecallReadsCompressedBatchesLargerThanWhatItAsksFor(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		topic := testkafka.UniqueName(t)
		b.CreateTopic(topic, 2, nil)
		for p := range int32(2) {
			client := testkafka.Client(t, b, kgo.RecordPartitioner(kgo.ManualPartitioner()),
				kgo.ProducerLinger(50*time.Millisecond), kgo.ProducerBatchCompression(kgo.ZstdCompression()))
			require.NoError(t, client.ProduceSync(t.Context(), numbered(topic, p, 0, 3000)...).FirstErr())
		}
		f := startFetcher(t, b)
		streams := []scheduler.Stream{
			f.Recall(topic, 0, anyTopic, []scheduler.Range{single(2999)}),
			f.Recall(topic, 1, anyTopic, []scheduler.Range{single(1500), single(2998)}),
		}
		_, records := recallAll(t, streams[0])
		require.Equal(t, []string{"2999"}, valuesOf(records))
		_, records = recallAll(t, streams[1])
		require.Equal(t, []string{"1500", "2998"}, valuesOf(records))
	})
}

func TestRecallPassesTransactionMarkersAndAbortedRecords(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		topic := testkafka.UniqueName(t)
		b.CreateTopic(topic, 1, nil)
		w := newTransactions(t, b, topic)
		w.begin()
		w.write(0)
		w.end(kgo.TryCommit) // a marker at 1
		w.begin()
		w.write(1) // at 2, aborted, its marker at 3
		w.end(kgo.TryAbort)
		w.begin()
		w.write(2) // at 4
		w.end(kgo.TryCommit)
		all, records := recallAll(t, startFetcher(t, b).Recall(topic, 0, anyTopic, []scheduler.Range{{From: 0, Below: 6}}))
		require.Equal(t, []int64{0, 4}, offsetsOf(records))
		require.EqualValues(t, 6, all[len(all)-1].Next)
	})
}

func TestRecallSaysWhatWasDeleted(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		topic := testkafka.UniqueName(t)
		b.CreateTopic(topic, 1, nil)
		produceTo(t, b, numbered(topic, 0, 0, 10)...)
		deleteRecords(t, b, topic, 6)
		all, records := recallAll(t, startFetcher(t, b).Recall(topic, 0, anyTopic, []scheduler.Range{single(1), single(3), single(7)}))
		require.EqualValues(t, 6, all[0].LogStart)
		require.EqualValues(t, 1, all[0].From)
		require.NotZero(t, all[0].Lost)
		require.Equal(t, []int64{7}, offsetsOf(records))
	})
}

func TestRecallOfAnotherTopicOfThatNameGivesNothing(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		topic := testkafka.UniqueName(t)
		b.CreateTopic(topic, 1, nil)
		produceTo(t, b, numbered(topic, 0, 0, 3)...)
		s := startFetcher(t, b).Recall(topic, 0, offset.TopicID{1}, []scheduler.Range{{From: 0, Below: 3}})
		batchUntil(t, s, nil, func(b scheduler.Batch) bool {
			require.Empty(t, b.Records)
			return errors.Is(b.Err, errRecreated)
		})
	})
}

func TestRecallBeyondTheEndIsTroubleAndNoProof(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		topic := testkafka.UniqueName(t)
		b.CreateTopic(topic, 1, nil)
		produceTo(t, b, numbered(topic, 0, 0, 3)...)
		s := startFetcher(t, b).Recall(topic, 0, anyTopic, []scheduler.Range{single(3), single(100)})
		batchUntil(t, s, nil, func(b scheduler.Batch) bool { return b.Err != nil })
		produceTo(t, b, numbered(topic, 0, 3, 1)...)
		var got []delay.Record
		batchUntil(t, s, &got, func(b scheduler.Batch) bool { return len(got) > 0 })
		require.Equal(t, []int64{3}, offsetsOf(got))
	})
}

func TestRecallFollowsTheLeaderAndOutlivesConnections(t *testing.T) {
	fake := testkafka.Fake(t, kfake.NumBrokers(3), kfake.SeedTopics(1, "orders-delay"))
	w := startWriter(t, fake)
	for i := range 30 {
		w.write(numbered("orders-delay", 0, i, 1)...)
	}
	var ranges []scheduler.Range
	for o := range int64(30) {
		ranges = append(ranges, scheduler.Range{From: o, Below: o + 1, Exact: true})
	}
	s := startFetcher(t, fake).Recall("orders-delay", 0, anyTopic, ranges)
	var got []delay.Record
	for len(got) < 30 {
		require.NoError(t, fake.MoveTopicPartition("orders-delay", 0, int32(len(got)%3)))
		before := len(got)
		batchUntil(t, s, &got, func(scheduler.Batch) bool { return len(got) > before })
	}
	require.Equal(t, int64(29), got[29].Offset)
}

// A recall waits for its receiver while fresh records are read over other connections.
func TestRecallHoldsUpNoFreshRecord(t *testing.T) {
	fake := testkafka.Fake(t, kfake.SeedTopics(1, "orders-delay"))
	w := startWriter(t, fake)
	w.write(numbered("orders-delay", 0, 0, 1000)...)
	f := startFetcher(t, fake, withLongWait)
	tail := f.Open("orders-delay", 0, 1000)
	f.Recall("orders-delay", 0, anyTopic, []scheduler.Range{{From: 0, Below: 1000}}) // never received from
	for i := range 20 {
		w.write(numbered("orders-delay", 0, 1000+i, 1)...)
		require.Equal(t, []int64{int64(1000 + i)}, offsetsOf(readN(t, tail, 1)))
	}
}

func TestRecallClosedMidwayEndsWithoutSayingSo(t *testing.T) {
	fake := testkafka.Fake(t, kfake.SeedTopics(1, "orders-delay"))
	produceTo(t, fake, numbered("orders-delay", 0, 0, 10)...)
	f := startFetcher(t, fake)
	s := f.Recall("orders-delay", 0, anyTopic, []scheduler.Range{single(1), {From: 5, Below: 6, Exact: true}})
	<-s.Batches()
	s.Close()
	s.Close()
	f.Close() // waits for its goroutine
	select {
	case _, more := <-s.Batches():
		require.True(t, more, "whoever closes it must not take that for the end of the ranges")
	default:
	}
}

func TestRecallPassesRangesByPages(t *testing.T) {
	r := &recall{each: 100, ranges: []scheduler.Range{{From: 0, Below: 10}, single(20), {From: 30, Below: 31, Exact: true}, single(40)}}
	require.EqualValues(t, 30, r.reach(1000), "an exact range is not served by what was asked for before it")
	require.EqualValues(t, 25, r.reach(25))
	r.pass(5)
	require.Equal(t, 0, r.at)
	r.pass(15)
	require.Equal(t, 1, r.at)
	r.pass(30)
	require.Equal(t, 2, r.at)
	r.pass(1000)
	require.True(t, r.over())
	r.at = 0
	require.Less(t, r.share(0, 1<<20), int32(8<<10))
	require.EqualValues(t, 1<<20, (&recall{each: 100, ranges: []scheduler.Range{{From: 0, Below: 1 << 40}}}).share(0, 1<<20))
}
