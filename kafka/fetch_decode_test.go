package kafka

import (
	"math"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"delay-scheduler/delay"
)

// block makes a response block of batches and message sets.
func block(sets ...*sarama.Records) *sarama.FetchResponseBlock {
	return &sarama.FetchResponseBlock{RecordsSet: sets}
}

func TestDecodeTakesTheAppendTimeForTheWholeBatch(t *testing.T) {
	appended := time.UnixMilli(1_700_000_000_000)
	b := &sarama.RecordBatch{
		FirstOffset: 5, LastOffsetDelta: 1, LogAppendTime: true,
		FirstTimestamp: appended.Add(-time.Hour), MaxTimestamp: appended,
		Records: []*sarama.Record{{}, {OffsetDelta: 1, TimestampDelta: 40 * 24 * time.Hour}},
	}
	p := decodePage("a", 1, 5, block(&sarama.Records{RecordBatch: b}))
	require.Equal(t, page{next: 7, records: []delay.Record{
		{Topic: "a", Partition: 1, Offset: 5, Timestamp: appended.UnixMilli(), AppendTime: true},
		{Topic: "a", Partition: 1, Offset: 6, Timestamp: appended.UnixMilli(), AppendTime: true},
	}}, p)
}

func TestDecodeRecordsWithoutATime(t *testing.T) {
	b := &sarama.RecordBatch{Records: []*sarama.Record{{}, {OffsetDelta: 1, TimestampDelta: 1001 * time.Millisecond}}, LastOffsetDelta: 1}
	p := decodePage("a", 0, 0, block(&sarama.Records{RecordBatch: b}))
	require.Equal(t, int64(-1), p.records[0].Timestamp)
	require.Equal(t, int64(1000), p.records[1].Timestamp, "counted from the batch's -1")
}

// TestDecodeUndoesTheOverflowOfFarTimes multiplies as the client library does.
func TestDecodeUndoesTheOverflowOfFarTimes(t *testing.T) {
	for _, ms := range []int64{0, 1, -1, 1000, math.MaxInt64 / 1_000_000, math.MaxInt64/1_000_000 + 1, 400 * 365 * 86_400_000, -400 * 365 * 86_400_000} {
		require.Equal(t, ms, deltaMillis(time.Duration(ms)*time.Millisecond))
	}
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(-1<<57, 1<<57-1).Draw(t, "ms")
		require.Equal(t, ms, deltaMillis(time.Duration(ms)*time.Millisecond))
	})
}

func TestDecodeMessageSetsFromBeforeHeaders(t *testing.T) {
	at := time.UnixMilli(1_600_000_000_000)
	set := &sarama.MessageSet{Messages: []*sarama.MessageBlock{
		{Offset: 3, Msg: &sarama.Message{Version: 0, Key: []byte("k"), Value: []byte("v0")}},
		{Offset: 7, Msg: &sarama.Message{Version: 1, Timestamp: at, Set: &sarama.MessageSet{Messages: []*sarama.MessageBlock{
			{Offset: 0, Msg: &sarama.Message{Version: 1, Timestamp: at, Value: []byte("a")}},
			{Offset: 2, Msg: &sarama.Message{Version: 1, Timestamp: at.Add(time.Second), Value: []byte("b")}},
		}}}},
		{Offset: 8, Msg: &sarama.Message{Version: 1, LogAppendTime: true, Timestamp: at, Set: &sarama.MessageSet{Messages: []*sarama.MessageBlock{
			{Offset: 0, Msg: &sarama.Message{Version: 1, Value: []byte("c")}},
		}}}},
	}}
	p := decodePage("a", 0, 4, block(&sarama.Records{MsgSet: set}))
	require.Equal(t, page{next: 9, records: []delay.Record{
		{Topic: "a", Offset: 5, Timestamp: at.UnixMilli(), Value: []byte("a")},
		{Topic: "a", Offset: 7, Timestamp: at.UnixMilli() + 1000, Value: []byte("b")},
		{Topic: "a", Offset: 8, Timestamp: at.UnixMilli(), AppendTime: true, Value: []byte("c")},
	}}, p)
}

func TestDecodeNeverMovesThePositionBack(t *testing.T) {
	b := &sarama.RecordBatch{FirstOffset: 0, LastOffsetDelta: 3, Records: []*sarama.Record{{OffsetDelta: 3}}}
	p := decodePage("a", 0, 100, block(&sarama.Records{RecordBatch: b}))
	require.Equal(t, int64(100), p.next)
	require.Empty(t, p.records)
}

func BenchmarkDecodePage(b *testing.B) {
	const n = 5000
	batch := &sarama.RecordBatch{LastOffsetDelta: n - 1, FirstTimestamp: time.UnixMilli(1)}
	for i := range n {
		batch.Records = append(batch.Records, &sarama.Record{
			OffsetDelta: int64(i), Key: []byte("key"), Value: make([]byte, 200),
			Headers: []*sarama.RecordHeader{{Key: []byte("a")}, {Key: []byte("b")}, {Key: []byte("c")}},
		})
	}
	resp := block(&sarama.Records{RecordBatch: batch})
	b.ReportAllocs()
	for b.Loop() {
		if p := decodePage("a", 0, 0, resp); len(p.records) != n {
			b.Fatal(len(p.records))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
}
