package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"delay-scheduler/delay"
	"delay-scheduler/internal/testkafka"
	"delay-scheduler/scheduler"
)

// TestFetchPassesEmptyBatches answers as a broker does after compaction, which keeps
// the last batch of a producer without its records.
func TestFetchPassesEmptyBatches(t *testing.T) {
	fake := testkafka.Fake(t, kfake.SeedTopics(1, "orders-delay"))
	produceTo(t, fake, numbered("orders-delay", 0, 0, 12)...)
	answerFetches(fake, func(from int64) ([]byte, bool) {
		switch {
		case from < 5:
			return rawBatch(0, 4, nil), true
		case from < 9:
			return append(rawBatch(5, 2, nil), rawBatch(7, 1, nil)...), true
		}
		return nil, false
	})

	s := startFetcher(t, fake).Open("orders-delay", 0, 0)
	var got []delay.Record
	last := batchUntil(t, s, &got, func(b scheduler.Batch) bool { return b.Next == 12 })
	require.NoError(t, last.Err)
	require.Equal(t, []int64{9, 10, 11}, offsetsOf(got))
}

// TestFetchDamagedLogHoldsUpNoOther has one partition whose batch is garbage: the
// client library cannot decode any response that it is part of.
func TestFetchDamagedLogHoldsUpNoOther(t *testing.T) {
	fake := testkafka.Fake(t, kfake.SeedTopics(3, "orders-delay"))
	w := startWriter(t, fake)
	for p := range int32(3) {
		w.write(numbered("orders-delay", p, 0, 3)...)
	}
	damaged := rawBatch(0, 2, []byte{1, 2, 3})
	damaged[len(damaged)-1]++ // the checksum does not fit
	var healed atomic.Bool
	answerFetches(fake, func(int64) ([]byte, bool) { return damaged, !healed.Load() })

	f := startFetcher(t, fake)
	bad := f.Open("orders-delay", 0, 0)
	others := []scheduler.Stream{f.Open("orders-delay", 1, 0), f.Open("orders-delay", 2, 0)}
	for _, s := range others {
		readN(t, s, 3)
	}
	told := batchUntil(t, bad, nil, func(b scheduler.Batch) bool { return b.Err != nil })
	require.ErrorIs(t, told.Err, errUndecodable)
	require.ErrorContains(t, told.Err, "at offset 0")
	w.write(numbered("orders-delay", 1, 3, 1)...)
	readN(t, others[0], 1)

	healed.Store(true)
	var got []delay.Record
	batchUntil(t, bad, &got, func(b scheduler.Batch) bool { return b.Next == 3 })
	require.Len(t, got, 3)
}

// TestFetchBatchOfMoreRecordsThanBytesIsRead compresses records that are all alike to
// less than a byte each, which the client library takes for damage.
func TestFetchBatchOfMoreRecordsThanBytesIsRead(t *testing.T) {
	const n = 20_000
	alike := alikeBatch(t, n)
	require.Less(t, len(alike), n)
	fake := testkafka.Fake(t, kfake.SeedTopics(1, "orders-delay"))
	answerFetches(fake, func(from int64) ([]byte, bool) { return bytes.Clone(alike), from < n })
	readN(t, startFetcher(t, fake).Open("orders-delay", 0, 0), n)
}

// alikeBatch is a compressed batch of n records without anything in them.
func alikeBatch(t *testing.T, n int) []byte {
	var plain []byte
	for i := range n {
		r := kmsg.Record{OffsetDelta: int32(i)}
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		plain = r.AppendTo(plain)
	}
	z, err := kgo.DefaultCompressor(kgo.ZstdCompression())
	require.NoError(t, err)
	packed, codec := z.Compress(new(bytes.Buffer), plain)
	return encodeBatch(kmsg.RecordBatch{
		Attributes: int16(codec), LastOffsetDelta: int32(n - 1), NumRecords: int32(n), Records: packed,
	})
}

// TestFetchReadsMessagesFromBeforeThereWereBatches has a log that begins with messages
// of the form before Kafka 0.11, and goes on with batches in the same response.
func TestFetchReadsMessagesFromBeforeThereWereBatches(t *testing.T) {
	fake := testkafka.Fake(t, kfake.SeedTopics(1, "orders-delay"))
	old := append(oldMessage(0, "first"), oldMessage(1, "second")...)
	answerFetches(fake, func(from int64) ([]byte, bool) {
		next := written(kmsg.RecordBatch{FirstOffset: 2, FirstTimestamp: 3000}, kmsg.Record{Value: []byte("third")})
		if from < 2 {
			return append(bytes.Clone(old), next...), true
		}
		return next, from == 2
	})
	got := readN(t, startFetcher(t, fake).Open("orders-delay", 0, 0), 3)
	require.Equal(t, []string{"first", "second", "third"}, valuesOf(got))
	require.Equal(t, []int64{0, 1, 2}, offsetsOf(got))
	require.Equal(t, int64(1000), got[0].Timestamp)
}

// oldMessage is a message of form 1.
func oldMessage(offset int64, value string) []byte {
	m := kmsg.MessageV1{Offset: offset, Magic: 1, Timestamp: 1000, Value: []byte(value)}
	m.MessageSize = int32(len(m.AppendTo(nil)) - 12)
	m.CRC = int32(crc32.ChecksumIEEE(m.AppendTo(nil)[16:]))
	return m.AppendTo(nil)
}

func TestFetchReadsOnAfterConnectionsDrop(t *testing.T) {
	fake := testkafka.Fake(t, kfake.SeedTopics(1, "orders-delay"))
	s := startFetcher(t, fake).Open("orders-delay", 0, 0)
	w := startWriter(t, fake)
	for i := range 10 {
		w.write(numbered("orders-delay", 0, i, 1)...)
		require.Equal(t, []int64{int64(i)}, offsetsOf(readN(t, s, 1)))
		fake.Proxy(0).Drop()
	}
}

func TestFetchFollowsTheLeader(t *testing.T) {
	fake := testkafka.Fake(t, kfake.NumBrokers(3), kfake.SeedTopics(1, "orders-delay"))
	s := startFetcher(t, fake).Open("orders-delay", 0, 0)
	for i := range 9 {
		require.NoError(t, fake.MoveTopicPartition("orders-delay", 0, int32(i%3)))
		produceTo(t, fake, numbered("orders-delay", 0, i, 1)...)
		require.Equal(t, []int64{int64(i)}, offsetsOf(readN(t, s, 1)))
	}
}

// TestFetchLeavesASilentBroker moves the partition away from a broker that still takes
// requests and never answers.
func TestFetchLeavesASilentBroker(t *testing.T) {
	fake := testkafka.Fake(t, kfake.NumBrokers(3), kfake.SeedTopics(1, "orders-delay"))
	require.NoError(t, fake.MoveTopicPartition("orders-delay", 0, 0))
	w := startWriter(t, fake)
	s := startFetcher(t, fake).Open("orders-delay", 0, 0)
	w.write(numbered("orders-delay", 0, 0, 1)...)
	readN(t, s, 1)

	fake.Freeze(0)
	t.Cleanup(func() { fake.Thaw(0) })
	require.NoError(t, fake.MoveTopicPartition("orders-delay", 0, 1))
	// This client must not take long to find out that it had better ask another broker.
	startWriter(t, endpoint{fake.Addrs()[1]}, kgo.DisableIdempotentWrite(), kgo.RequestTimeoutOverhead(time.Second)).
		write(numbered("orders-delay", 0, 1, 1)...)
	start := time.Now()
	var got []delay.Record
	batchUntil(t, s, &got, func(scheduler.Batch) bool { return len(got) > 0 })
	require.Equal(t, []int64{1}, offsetsOf(got))
	require.Less(t, time.Since(start), requestTimeout, "it did not wait for the request to time out")
}

func TestFetchDoesNotReadARecreatedTopic(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		topic := testkafka.UniqueName(t)
		b.CreateTopic(topic, 1, nil)
		produceTo(t, b, numbered(topic, 0, 0, 3)...)
		f := startFetcher(t, b)
		s := f.Open(topic, 0, 0)
		readN(t, s, 3)

		b.DeleteTopic(topic)
		b.CreateTopic(topic, 1, nil)
		produceTo(t, b, numbered(topic, 0, 100, 5)...)
		batchUntil(t, s, nil, func(b scheduler.Batch) bool {
			require.Empty(t, b.Records)
			return errors.Is(b.Err, errRecreated)
		})
		require.Equal(t, "100", string(readN(t, f.Open(topic, 0, -1), 5)[0].Value))
	})
}

func TestFetchCompactedGapsArePassed(t *testing.T) {
	fake := testkafka.Fake(t)
	fake.CreateTopic("orders-delay", 1, map[string]string{"cleanup.policy": "compact", "segment.bytes": "100", "min.cleanable.dirty.ratio": "0"})
	w := startWriter(t, fake)
	for i := range 30 {
		record := numbered("orders-delay", 0, i, 1)
		record[0].Key = []byte{byte(i % 3)}
		w.write(record...)
	}
	fake.Compact()
	want := readCommitted(t, fake, "orders-delay", "29")
	require.Less(t, len(want), 30, "something was compacted")

	var got []delay.Record
	s := startFetcher(t, fake).Open("orders-delay", 0, 0)
	last := batchUntil(t, s, &got, func(b scheduler.Batch) bool { return b.Next == b.LogEnd })
	require.Equal(t, want, valuesOf(got))
	require.Equal(t, int64(30), last.Next)
	require.Zero(t, last.Lost)
}

// answerFetches lets partition 0 of any topic answer with raw batches: raw says
// which, by position, or that the broker's own are fine. A request that lists several
// partitions gets nothing for the others.
func answerFetches(fake *testkafka.FakeCluster, raw func(from int64) ([]byte, bool)) {
	fake.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		fetch := req.(*kmsg.FetchRequest)
		resp := fetch.ResponseKind().(*kmsg.FetchResponse)
		mine := false
		for _, t := range fetch.Topics {
			topic := kmsg.NewFetchResponseTopic()
			topic.Topic, topic.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				part := kmsg.NewFetchResponseTopicPartition()
				part.Partition = p.Partition
				part.HighWatermark, part.LastStableOffset, part.LogStartOffset = p.FetchOffset, p.FetchOffset, 0
				part.RecordBatches = []byte{}
				if p.Partition == 0 {
					if batch, ok := raw(p.FetchOffset); ok {
						mine, part.RecordBatches = true, batch
						part.HighWatermark, part.LastStableOffset = math.MaxInt64, math.MaxInt64
					}
				}
				topic.Partitions = append(topic.Partitions, part)
			}
			resp.Topics = append(resp.Topics, topic)
		}
		return resp, nil, mine
	})
}

// rawBatch is a batch without records; the payload is only for the checksum.
func rawBatch(first int64, lastDelta int32, payload []byte) []byte {
	return encodeBatch(kmsg.RecordBatch{FirstOffset: first, LastOffsetDelta: lastDelta, Records: payload})
}

// encodeBatch fills in what is the same for all batches, the length and the checksum.
func encodeBatch(b kmsg.RecordBatch) []byte {
	b.Magic, b.ProducerID, b.ProducerEpoch, b.FirstSequence = 2, -1, -1, -1
	b.Length = int32(len(b.AppendTo(nil)) - 12)
	return encodeSum(b.AppendTo(nil))
}

// encodeSum makes the checksum fit.
func encodeSum(raw []byte) []byte {
	const covered = 21 // what follows the checksum
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[covered:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}
