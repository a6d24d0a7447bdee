package kafka

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"delay-scheduler/delay"
	"delay-scheduler/internal/testkafka"
)

// writeAll writes and returns the results by tag.
func writeAll(t *testing.T, w *Writer, records []delay.Outgoing) map[any]Written {
	t.Helper()
	go func() {
		defer w.Finish()
		for _, r := range records {
			if w.Write(t.Context(), r) != nil {
				return
			}
		}
	}()
	got := make(map[any]Written)
	for r := range w.Results() {
		require.NotContains(t, got, r.Tag, "told twice")
		got[r.Tag] = r
	}
	return got
}

func TestAWriterTellsWhereEachRecordIs(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		const n = 3000
		began := time.Now().UnixMilli() - n
		for _, config := range []map[string]string{nil, testkafka.LogAppendTime()} {
			topic := testkafka.UniqueName(t)
			b.CreateTopic(topic, 3, config)
			w, err := NewWriter(t.Context(), Options{Brokers: b.Addrs()}, topic, 100)
			require.NoError(t, err)
			defer w.Close()
			records := make([]delay.Outgoing, n)
			for i := range records {
				records[i] = delay.Outgoing{Key: []byte(strconv.Itoa(i % 20)), Value: []byte(strconv.Itoa(i)), Timestamp: began + int64(i), Tag: i}
			}
			got := writeAll(t, w, records)
			require.Len(t, got, n)
			for _, r := range readProduced(t, b, topic, n) {
				i, err := strconv.Atoi(string(r.Value))
				require.NoError(t, err)
				require.NoError(t, got[i].Err)
				require.Equal(t, Written{Tag: i, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli()}, got[i])
			}
		}
	})
}

func TestAWriterRefusesATopicThatDoesNotExist(t *testing.T) {
	c := testkafka.Fake(t)
	_, err := NewWriter(t.Context(), Options{Brokers: c.Addrs()}, "missing", 100)
	require.ErrorIs(t, err, ErrUnknownTopic)
}

func TestAWriterThatIsClosedWaitsForNobody(t *testing.T) {
	c := testkafka.Fake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "silent"))
	c.ControlKey(produceKey, func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		return nil, nil, true // taken, and never answered
	})
	w, err := NewWriter(t.Context(), Options{Brokers: c.Addrs()}, "silent", writeBytes/3)
	require.NoError(t, err)
	for i := range cap(w.room) {
		require.NoError(t, w.Write(t.Context(), delay.Outgoing{Tag: i}))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, w.Write(ctx, delay.Outgoing{}), context.DeadlineExceeded, "there is no room")
	began := time.Now()
	w.Close()
	w.Close()
	require.Less(t, time.Since(began), 5*time.Second)
	require.Error(t, w.Write(t.Context(), delay.Outgoing{}))
}
