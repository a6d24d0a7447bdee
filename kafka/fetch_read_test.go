package kafka

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"delay-scheduler/delay"
	"delay-scheduler/internal/testkafka"
	"delay-scheduler/scheduler"
)

func TestFetchReadsKeysValuesAndHeadersByteForByte(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		topic := testkafka.UniqueName(t)
		b.CreateTopic(topic, 1, nil)
		at := time.UnixMilli(1_700_000_000_123)
		produceTo(t, b,
			&kgo.Record{Topic: topic, Timestamp: at},
			&kgo.Record{Topic: topic, Timestamp: at.Add(7 * time.Millisecond), Key: []byte{}, Value: []byte{}},
			&kgo.Record{Topic: topic, Timestamp: at.Add(-time.Hour), Key: []byte("k"), Value: []byte{0, 255}, Headers: []kgo.RecordHeader{
				{Key: "a", Value: []byte("1")}, {Key: "a", Value: nil}, {Key: "", Value: []byte{}}, {Key: "b", Value: []byte{0xff, 0}},
			}},
		)

		got := readN(t, startFetcher(t, b).Open(topic, 0, 0), 3)
		require.Equal(t, []delay.Record{
			{Topic: topic, Offset: 0, Timestamp: at.UnixMilli()},
			{Topic: topic, Offset: 1, Timestamp: at.UnixMilli() + 7, Key: []byte{}, Value: []byte{}},
			{Topic: topic, Offset: 2, Timestamp: at.UnixMilli() - 3_600_000, Key: []byte("k"), Value: []byte{0, 255}, Headers: []delay.Header{
				{Key: []byte("a"), Value: []byte("1")}, {Key: []byte("a"), Value: nil}, {Key: []byte{}, Value: []byte{}}, {Key: []byte("b"), Value: []byte{0xff, 0}},
			}},
		}, got)
	})
}

func TestFetchStartsAtTheOffsetAskedFor(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		topic := testkafka.UniqueName(t)
		b.CreateTopic(topic, 1, nil)
		produceTo(t, b, numbered(topic, 0, 0, 10)...) // one batch, which the broker gives whole

		s := startFetcher(t, b).Open(topic, 0, 7)
		batch := batchUntil(t, s, nil, func(b scheduler.Batch) bool { return len(b.Records) > 0 })
		require.Equal(t, []int64{7, 8, 9}, offsetsOf(batch.Records))
		require.Equal(t, int64(10), batch.Next)
		require.Equal(t, int64(10), batch.LogEnd)
		require.Equal(t, int64(0), batch.LogStart)
	})
}

// TestF05_AppendTimeIsTheBasisOnLogAppendTimeTopics has one batch whose records claim
// times an hour ago, now and in 40 days.
func TestF05_AppendTimeIsTheBasisOnLogAppendTimeTopics(t *testing.T) {
	b := testkafka.Need(t)
	topic := testkafka.UniqueName(t)
	b.CreateTopic(topic, 1, testkafka.LogAppendTime())
	now := time.Now()
	produceTo(t, b,
		&kgo.Record{Topic: topic, Timestamp: now.Add(-time.Hour)},
		&kgo.Record{Topic: topic, Timestamp: now},
		&kgo.Record{Topic: topic, Timestamp: now.Add(40 * 24 * time.Hour)},
	)
	got := readN(t, startFetcher(t, b).Open(topic, 0, 0), 3)
	for _, r := range got {
		require.True(t, r.AppendTime)
		require.Equal(t, got[0].Timestamp, r.Timestamp, "one batch, one time")
		require.WithinDuration(t, now, time.UnixMilli(r.Timestamp), 10*time.Second)
	}
}
