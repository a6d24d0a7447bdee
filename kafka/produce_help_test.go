package kafka

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap/zaptest"

	"delay-scheduler/delay"
	"delay-scheduler/forward"
	"delay-scheduler/internal/testkafka"
)

// ackLog is a sink that remembers.
type ackLog struct {
	mu    sync.Mutex
	acks  []forward.Ack
	grown chan struct{} // capacity 1
}

func newAckLog() *ackLog { return &ackLog{grown: make(chan struct{}, 1)} }

func (a *ackLog) sink(acks []forward.Ack) {
	a.mu.Lock()
	a.acks = append(a.acks, acks...)
	a.mu.Unlock()
	select {
	case a.grown <- struct{}{}:
	default:
	}
}

func (a *ackLog) all() []forward.Ack {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.acks)
}

func (a *ackLog) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.acks = nil
}

// wait returns the acknowledgements as soon as there are n.
func (a *ackLog) wait(t testing.TB, n int, within time.Duration) []forward.Ack {
	t.Helper()
	timer := time.NewTimer(within)
	defer timer.Stop()
	for {
		if acks := a.all(); len(acks) >= n {
			return acks
		}
		select {
		case <-a.grown:
		case <-timer.C:
			require.FailNow(t, "too few acknowledgements", "%d of %d within %v", len(a.all()), n, within)
		}
	}
}

// classes counts the acknowledgements by class; 0 is success.
func classes(acks []forward.Ack) map[forward.Class]int {
	m := make(map[forward.Class]int)
	for _, a := range acks {
		if a.Err == nil {
			m[0]++
		} else {
			m[a.Err.Class]++
		}
	}
	return m
}

// testProducer makes a producer that is closed with the test.
func testProducer(t testing.TB, e testkafka.Endpoint, change func(*ProducerOptions)) (*Producer, *ackLog) {
	t.Helper()
	o := ProducerOptions{Options: Options{Brokers: e.Addrs()}, RequestTimeout: 2 * time.Second, Patience: time.Second}
	if change != nil {
		change(&o)
	}
	acks := newAckLog()
	p, err := NewProducer(o, acks.sink, zaptest.NewLogger(t), prometheus.NewRegistry())
	require.NoError(t, err)
	t.Cleanup(func() { _ = closeProducer(t, p, 5*time.Second) })
	return p, acks
}

func closeProducer(t testing.TB, p *Producer, within time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return p.Close(ctx)
}

// numberedTag is the tag of a numbered record.
type numberedTag struct {
	topic  string
	number int
}

// outgoing makes a record whose tag and value are its number.
func outgoing(topic, key string, i int) delay.Outgoing {
	return delay.Outgoing{Topic: topic, Key: []byte(key), Value: []byte(strconv.Itoa(i)), Tag: numberedTag{topic, i}}
}

// readProduced reads a topic of which it is known how many records it has. Their number
// is taken from the log's ends, so that what is there twice is seen.
func readProduced(t testing.TB, e testkafka.Endpoint, topic string, n int) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	ends, err := testkafka.Admin(t, e).ListEndOffsets(ctx, topic)
	require.NoError(t, err)
	total := 0
	ends.Each(func(o kadm.ListedOffset) {
		require.NoError(t, o.Err)
		total += int(o.Offset)
	})
	require.Equal(t, n, total, "records in the log of %s", topic)
	records := testkafka.ReadAll(t, e, topic, n, 30*time.Second)
	require.Len(t, records, n)
	return records
}

// requireOnce checks that each of the records 0 to n-1 is there once, and that those
// with the same key are in order.
func requireOnce(t testing.TB, records []*kgo.Record, n int) {
	t.Helper()
	seen := make([]int, n)
	last := make(map[string]int)
	for _, r := range records {
		i, err := strconv.Atoi(string(r.Value))
		require.NoError(t, err)
		seen[i]++
		if before, ok := last[string(r.Key)]; ok && before >= i {
			require.FailNow(t, "out of order", "%d after %d with key %s", i, before, r.Key)
		}
		last[string(r.Key)] = i
	}
	for i, times := range seen {
		if times != 1 {
			require.FailNow(t, "not exactly once", "record %d is there %d times", i, times)
		}
	}
}

// requireTagsInOrder checks that each tag came back once, and per key in order.
func requireTagsInOrder(t testing.TB, acks []forward.Ack, n, keys int) {
	t.Helper()
	require.Len(t, acks, n)
	last := make(map[int]int)
	for _, a := range acks {
		i := a.Tag.(numberedTag).number
		if before, ok := last[i%keys]; ok {
			require.Greater(t, i, before)
		}
		last[i%keys] = i
	}
}

// counter reads one of the producer's counters.
func counter(t testing.TB, c prometheus.Counter) int {
	t.Helper()
	m := new(dto.Metric)
	require.NoError(t, c.Write(m))
	return int(m.GetCounter().GetValue())
}

// produceNumbered produces the records from to to-1 with keys i%keys, in small calls.
func produceNumbered(p *Producer, topic string, from, to, keys int) {
	for i := from; i < to; {
		var records []delay.Outgoing
		for ; i < to && len(records) < 10; i++ {
			records = append(records, outgoing(topic, strconv.Itoa(i%keys), i))
		}
		p.Produce(topic, records)
	}
}

// brokerAddrs is an endpoint that is only addresses.
type brokerAddrs []string

// Addrs implements testkafka.Endpoint.
func (a brokerAddrs) Addrs() []string { return a }
