package kafka

import (
	"cmp"
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
func testProducer(t testing.TB, addrs []string, change func(*ProducerOptions)) (*Producer, *ackLog) {
	t.Helper()
	o := ProducerOptions{Options: Options{Brokers: addrs}, RequestTimeout: 2 * time.Second, Patience: time.Second}
	if change != nil {
		change(&o)
	}
	acks := newAckLog()
	p, err := NewProducer(o, acks.sink, zaptest.NewLogger(t), prometheus.NewRegistry())
	require.NoError(t, err)
	t.Cleanup(func() { closeProducer(t, p, 5*time.Second) })
	return p, acks
}

func closeProducer(t testing.TB, p *Producer, within time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return p.Close(ctx)
}

// outgoing makes a record whose tag and value are its number.
func outgoing(topic, key string, i int) delay.Outgoing {
	return delay.Outgoing{Topic: topic, Key: []byte(key), Value: []byte(strconv.Itoa(i)), Tag: i}
}

// readTopic reads n records from the start, and whatever comes within a moment after.
func readTopic(t testing.TB, addrs []string, topic string, n int) []*kgo.Record {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))
	require.NoError(t, err)
	defer client.Close()
	var records []*kgo.Record
	for within := 20 * time.Second; ; {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		fetches := client.PollFetches(ctx)
		over := ctx.Err() != nil
		cancel()
		if over {
			break
		}
		records = append(records, fetches.Records()...)
		if len(records) >= n {
			within = 300 * time.Millisecond // for what should not be there
		}
	}
	return records
}

// requireOnce checks that each of the records 0 to n-1 is there once, and that those
// with the same key are in order.
func requireOnce(t testing.TB, records []*kgo.Record, n int) {
	t.Helper()
	seen := make([]int, n)
	last := make(map[string]int)
	byPartition := slices.Clone(records)
	slices.SortStableFunc(byPartition, func(a, b *kgo.Record) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	for _, r := range byPartition {
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
		i := a.Tag.(int)
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

func createTopic(t testing.TB, addrs []string, topic string, partitions int32, configs map[string]string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addrs...))
	require.NoError(t, err)
	defer client.Close()
	values := make(map[string]*string)
	for k, v := range configs {
		values[k] = &v
	}
	_, err = kadm.NewClient(client).CreateTopic(context.Background(), partitions, 1, values, topic)
	require.NoError(t, err)
}

func deleteTopic(t testing.TB, addrs []string, topic string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addrs...))
	require.NoError(t, err)
	defer client.Close()
	_, err = kadm.NewClient(client).DeleteTopic(context.Background(), topic)
	require.NoError(t, err)
}
