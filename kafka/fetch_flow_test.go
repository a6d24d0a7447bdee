package kafka

import (
	"bytes"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"delay-scheduler/delay"
	"delay-scheduler/internal/testkafka"
	"delay-scheduler/scheduler"
)

// longWait is a long poll that no test would survive waiting for more than once.
const longWait = 8 * time.Second

func withLongWait(o *FetchOptions) { o.MaxWait = longWait }

// idle reads the first batch of partitions that have nothing, so that they are in the
// long poll.
func idle(t testing.TB, streams ...scheduler.Stream) {
	t.Helper()
	for _, s := range streams {
		b := batchUntil(t, s, nil, func(scheduler.Batch) bool { return true })
		require.NoError(t, b.Err)
		require.Empty(t, b.Records)
	}
}

func TestFetchReadsWhatArrivesWithoutWaitingForIdlePartitions(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		topic := testkafka.UniqueName(t)
		b.CreateTopic(topic, 6, nil)
		f := startFetcher(t, b, withLongWait)
		var streams []scheduler.Stream
		for p := range int32(6) {
			streams = append(streams, f.Open(topic, p, 0))
		}
		idle(t, streams...)

		w := startWriter(t, b)
		// A partition that is opened while the others are in a long poll joins the next one.
		w.write(numbered(topic, 3, 0, 1)...)
		readN(t, streams[3], 1)
		start, most := time.Now(), longWait
		for i := 1; i <= 20; i++ {
			wrote := time.Now()
			w.write(numbered(topic, 3, i, 1)...)
			if time.Since(wrote) > motionTime/2 {
				most += longWait // To the fetcher, we were a receiver that is busy elsewhere.
			}
			require.Equal(t, []int64{int64(i)}, offsetsOf(readN(t, streams[3], 1)))
		}
		require.Less(t, time.Since(start), most, "the partition waited for a long poll without it")
	})
}

func TestFetchReadsANewlyOpenedPartitionAtOnce(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		topic := testkafka.UniqueName(t)
		b.CreateTopic(topic, 3, nil)
		produceTo(t, b, numbered(topic, 2, 0, 5)...)
		f := startFetcher(t, b, withLongWait)
		idle(t, f.Open(topic, 0, 0), f.Open(topic, 1, 0))

		start := time.Now()
		readN(t, f.Open(topic, 2, 0), 5)
		require.Less(t, time.Since(start), longWait/2)
	})
}

func TestFetchCatchesUpBesideIdlePartitions(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		topic := testkafka.UniqueName(t)
		b.CreateTopic(topic, 3, nil)
		const batches, each = 30, 20
		w := startWriter(t, b)
		for i := range batches {
			w.write(numbered(topic, 2, i*each, each)...)
		}
		f := startFetcher(t, b, withLongWait, func(o *FetchOptions) { o.PartitionBytes = 100 })
		idle(t, f.Open(topic, 0, 0), f.Open(topic, 1, 0))

		start := time.Now()
		readN(t, f.Open(topic, 2, 0), batches*each)
		require.Less(t, time.Since(start), longWait)
	})
}

func TestFetchLeavesOutAPartitionThatIsNotConsumed(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		topic := testkafka.UniqueName(t)
		b.CreateTopic(topic, 2, nil)
		const n = 20
		w := startWriter(t, b)
		for p := range int32(2) {
			for i := range n {
				w.write(numbered(topic, p, i, 1)...)
			}
		}
		f := startFetcher(t, b, func(o *FetchOptions) { o.PartitionBytes = 1 })
		ignored, s := f.Open(topic, 0, 0), f.Open(topic, 1, 0)
		for i := range n {
			require.Equal(t, []int64{int64(i)}, offsetsOf(readN(t, s, 1)), "one batch at a time")
		}
		require.Len(t, readN(t, ignored, n), n, "and it goes on where it stood")
	})
}

func TestFetchCopiesOutABatchThatWaits(t *testing.T) {
	response := []byte("kvh and all the rest of a response")
	b := scheduler.Batch{Records: []delay.Record{
		{Offset: 3, Key: response[0:1], Value: response[1:2], Headers: []delay.Header{{Key: response[2:3], Value: []byte{}}, {Key: response[2:3]}}},
		{Offset: 4, Key: []byte{}, Headers: nil},
	}}
	out, waited := make(chan scheduler.Batch), make(chan time.Time)
	go offer(t.Context(), out, b, waited)
	waited <- time.Time{}
	got := <-out
	require.Equal(t, b, got)
	require.Equal(t, 1, cap(got.Records[0].Value), "the value has a place of its own")
	copy(response, "xxx")
	require.Equal(t, "kvh", string(got.Records[0].Key)+string(got.Records[0].Value)+string(got.Records[0].Headers[1].Key))
	require.NotNil(t, got.Records[1].Key)
	require.Nil(t, got.Records[1].Value)
}

func TestFetchReadsABatchLargerThanItsShare(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		topic := testkafka.UniqueName(t)
		b.CreateTopic(topic, 3, nil)
		large := bytes.Repeat([]byte("x"), 900_000)
		w := startWriter(t, b)
		for p := range int32(3) {
			w.write(&kgo.Record{Topic: topic, Partition: p, Value: large}, &kgo.Record{Topic: topic, Partition: p, Value: []byte("small")})
		}
		f := startFetcher(t, b, func(o *FetchOptions) { o.PartitionBytes, o.MaxBytes = 1000, 3000 })
		streams := []scheduler.Stream{f.Open(topic, 0, 0), f.Open(topic, 1, 0), f.Open(topic, 2, 0)}
		for _, s := range streams {
			got := readN(t, s, 2)
			require.Equal(t, large, got[0].Value)
			require.Equal(t, "small", string(got[1].Value))
		}
	})
}

func TestFetchReadsManyPartitionsOfOneBroker(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		topic := testkafka.UniqueName(t)
		const partitions, n = 40, 25
		b.CreateTopic(topic, partitions, nil)
		var records []*kgo.Record
		for p := range int32(partitions) {
			records = append(records, numbered(topic, p, 0, n)...)
		}
		produceTo(t, b, records...)
		f := startFetcher(t, b, func(o *FetchOptions) { o.PartitionBytes, o.MaxBytes = 200, 600 })
		var streams []scheduler.Stream
		for p := range int32(partitions) {
			streams = append(streams, f.Open(topic, p, 0))
		}
		for p, s := range streams {
			got := readN(t, s, n)
			require.Equal(t, int32(p), got[0].Partition)
			for i, r := range got {
				require.Equal(t, fmt.Sprint(i), string(r.Value))
			}
		}
	})
}

func TestFetchCompressedBatches(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		for name, codec := range map[string]kgo.CompressionCodec{
			"gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
		} {
			topic := testkafka.UniqueName(t)
			b.CreateTopic(topic, 1, nil)
			client := testkafka.Client(t, b, kgo.ProducerBatchCompression(codec))
			require.NoError(t, client.ProduceSync(t.Context(), numbered(topic, 0, 0, 500)...).FirstErr())
			got := readN(t, startFetcher(t, b).Open(topic, 0, 0), 500)
			require.Equal(t, "499", string(got[499].Value), name)
		}
	})
}

func TestFetchUnpacksPieceByPiece(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		const share, batches = 20_000, 30
		topic := testkafka.UniqueName(t)
		b.CreateTopic(topic, 1, nil)
		client := testkafka.Client(t, b, kgo.ProducerBatchCompression(kgo.SnappyCompression()))
		for n := range batches {
			rec := &kgo.Record{Topic: topic, Value: fmt.Appendf(make([]byte, 9_000), "%d", n)}
			require.NoError(t, client.ProduceSync(t.Context(), rec).FirstErr())
		}
		s := startFetcher(t, b, func(o *FetchOptions) { o.PartitionBytes = share }).Open(topic, 0, 0)
		var got []delay.Record
		most := 0
		batchUntil(t, s, &got, func(b scheduler.Batch) bool {
			require.NoError(t, b.Err)
			require.Equal(t, int64(len(got)), b.Next)
			most = max(most, len(b.Records))
			return len(got) >= batches
		})
		require.Equal(t, share/9_000+1, most, "all of them packed are less than a share")
		for n, r := range got {
			require.Equal(t, int64(n), r.Offset)
		}
	})
}

func TestFetchIdlePartitionSaysSoNowAndThenOnly(t *testing.T) {
	fake := testkafka.Fake(t, kfake.SeedTopics(1, "orders-delay"))
	s := startFetcher(t, fake, func(o *FetchOptions) { o.MaxWait = 20 * time.Millisecond }).Open("orders-delay", 0, 0)
	idle(t, s)
	start := time.Now()
	idle(t, s)
	require.InDelta(t, statusInterval, time.Since(start), float64(2*time.Second))
}

func TestFetchSaysWhichBrokerRefuses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())

	s := startFetcher(t, endpoint{addr}).Open("orders-delay", 0, 0)
	b := batchUntil(t, s, nil, func(b scheduler.Batch) bool { return b.Err != nil })
	require.ErrorContains(t, b.Err, "connect to broker "+addr)
	require.ErrorContains(t, b.Err, "connection refused")
	require.ErrorContains(t, b.Err, "check kafka.brokers")
}

func TestFetchCloseDoesNotWaitForASilentBroker(t *testing.T) {
	fake := testkafka.Fake(t, kfake.SeedTopics(3, "orders-delay"))
	f := startFetcher(t, fake)
	var streams []scheduler.Stream
	for p := range int32(3) {
		streams = append(streams, f.Open("orders-delay", p, 0))
	}
	idle(t, streams...)
	fake.Freeze(0)
	defer fake.Thaw(0)

	start := time.Now()
	streams[0].Close()
	streams[0].Close()
	f.Close()
	f.Close()
	require.Less(t, time.Since(start), 2*time.Second)
	after := f.Open("orders-delay", 0, 0)
	after.Close()
	select {
	case <-after.Batches():
		require.FailNow(t, "a closed fetcher reads nothing")
	default:
	}
}
