package kafka

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap/zaptest"

	"delay-scheduler/delay"
	"delay-scheduler/internal/testkafka"
	"delay-scheduler/scheduler"
)

// patience is how long tests wait for what must happen. It is spent only on failure.
const patience = 20 * time.Second

func startFetcher(t testing.TB, b testkafka.Endpoint, change ...func(*FetchOptions)) *Fetcher {
	t.Helper()
	o := FetchOptions{Options: Options{Brokers: b.Addrs(), MetadataRefresh: time.Second}}
	for _, c := range change {
		c(&o)
	}
	f, err := NewFetcher(o, zaptest.NewLogger(t), nil)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	return f
}

// produceTo writes records to the partitions they name, in order, one batch for each
// partition where they fit.
func produceTo(t testing.TB, b testkafka.Endpoint, records ...*kgo.Record) {
	t.Helper()
	startWriter(t, b).write(records...)
}

// writer keeps its connections, so that it needs nothing of a broker that is in trouble.
type writer struct {
	t      testing.TB
	client *kgo.Client
}

func startWriter(t testing.TB, b testkafka.Endpoint, opts ...kgo.Opt) writer {
	t.Helper()
	opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(20*time.Millisecond), kgo.ProducerBatchCompression(kgo.NoCompression()))
	return writer{t, testkafka.Client(t, b, opts...)}
}

func (w writer) write(records ...*kgo.Record) {
	w.t.Helper()
	require.NoError(w.t, w.client.ProduceSync(w.t.Context(), records...).FirstErr())
}

// numbered makes n records with their number as the value.
func numbered(topic string, partition int32, first, n int) []*kgo.Record {
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Topic: topic, Partition: partition, Value: fmt.Appendf(nil, "%d", first+i)}
	}
	return records
}

// batchUntil reads batches until one satisfies ok, and returns that one. Records met
// on the way are appended to got, if that is not nil.
func batchUntil(t testing.TB, s scheduler.Stream, got *[]delay.Record, ok func(scheduler.Batch) bool) scheduler.Batch {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		select {
		case b := <-s.Batches():
			if got != nil {
				*got = append(*got, b.Records...)
			}
			if ok(b) {
				return b
			}
		case <-deadline.C:
			require.FailNow(t, "the expected batch did not come")
		}
	}
}

// readN reads until n records have come.
func readN(t testing.TB, s scheduler.Stream, n int) []delay.Record {
	t.Helper()
	var got []delay.Record
	if n > 0 {
		batchUntil(t, s, &got, func(b scheduler.Batch) bool {
			require.NoError(t, b.Err)
			return len(got) >= n
		})
	}
	require.Len(t, got, n)
	return got
}

// offsetsOf gives the records' offsets.
func offsetsOf(records []delay.Record) []int64 {
	offsets := make([]int64, len(records))
	for i, r := range records {
		offsets[i] = r.Offset
	}
	return offsets
}

func valuesOf(records []delay.Record) []string {
	values := make([]string, len(records))
	for i, r := range records {
		values[i] = string(r.Value)
	}
	return values
}
