package kafka

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"delay-scheduler/delay"
	"delay-scheduler/forward"
	"delay-scheduler/internal/testkafka"
)

// The table that both brokers have to agree on. What needs nodes to be hurt is in
// produce_trouble_test.go.
func TestProducerConformance(t *testing.T) {
	for _, c := range []struct {
		name string
		test func(*testing.T, testkafka.Broker)
	}{
		{"many records are written once and in order", manyRecords},
		{"every byte survives", everyByte},
		{"every compression", everyCompression},
		{"timestamps", timestamps},
		{"keys land where Java puts them", javaPartitions},
		{"records without a key are spread", keylessSpread},
		{"an oversize record fails alone", oversize},
		{"oversize records fail alone while others follow", oversizeFollowed},
		{"an oversize record that compresses is taken", oversizeCompressed},
		{"an unknown topic is written once it exists", unknownTopic},
		{"a topic that was made again is written", madeAgain},
		{"new partitions are used", newPartitions},
		{"a record without a key that the topic wants", missingKey},
		{"a timestamp that the topic refuses", refusedTimestamp},
		{"sequences wrap", wrap},
	} {
		t.Run(c.name, func(t *testing.T) { testkafka.Each(t, c.test) })
	}
}

// produceAll produces records and returns their acknowledgements in order of tags.
func produceAll(t *testing.T, b testkafka.Broker, topic string, records []delay.Outgoing, change func(*ProducerOptions)) []forward.Ack {
	t.Helper()
	p, acks := testProducer(t, b, change)
	require.Nil(t, p.Resolve(t.Context(), topic))
	for i := range records {
		records[i].Topic, records[i].Tag = topic, i
	}
	p.Produce(topic, records)
	got := acks.wait(t, len(records), 30*time.Second)
	require.Len(t, got, len(records))
	sorted := make([]forward.Ack, len(records))
	for _, a := range got {
		require.Nil(t, sorted[a.Tag.(int)].Tag, "acknowledged twice")
		sorted[a.Tag.(int)] = a
	}
	require.NoError(t, closeProducer(t, p, 10*time.Second))
	return sorted
}

func manyRecords(t *testing.T, b testkafka.Broker) {
	const n, keys = 50_000, 100
	topic := testkafka.UniqueName(t)
	b.CreateTopic(topic, 12, nil)
	p, acks := testProducer(t, b, func(o *ProducerOptions) { o.Linger = time.Millisecond })
	produceNumbered(p, topic, 0, n, keys)
	got := acks.wait(t, n, 60*time.Second)
	require.Equal(t, map[forward.Class]int{0: n}, classes(got))
	requireTagsInOrder(t, got, n, keys)
	requireOnce(t, readProduced(t, b, topic, n), n)
}

// oddRecords have everything that can be told apart.
func oddRecords() []delay.Outgoing {
	big := make([]byte, 850_000)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range big {
		big[i] = byte(rng.Uint32())
	}
	return []delay.Outgoing{
		{},
		{Key: []byte{}, Value: []byte{}},
		{Key: nil, Value: []byte("v")},
		{Key: []byte("k"), Value: nil},
		{Key: []byte{0, 0xff, 0xfe}, Value: []byte{0x80, 0}, Headers: []delay.Header{
			{Key: []byte("h"), Value: []byte("1")},
			{Key: []byte("h"), Value: []byte("2")},
			{Key: []byte("null"), Value: nil},
			{Key: []byte("empty"), Value: []byte{}},
			{Key: []byte{}, Value: []byte{0, 1, 2, 0xff}},
		}},
		{Key: []byte("big"), Value: big},
		{Key: []byte("after"), Value: []byte("v"), Headers: []delay.Header{{Key: []byte("big"), Value: big[:30_000]}}},
	}
}

func requireSameBytes(t *testing.T, want []delay.Outgoing, got []*kgo.Record) {
	t.Helper()
	require.Len(t, got, len(want))
	same := func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
	for i, w := range want {
		require.True(t, same(w.Key, got[i].Key), "key of record %d", i)
		require.True(t, same(w.Value, got[i].Value), "value of record %d", i)
		require.Len(t, got[i].Headers, len(w.Headers), "record %d", i)
		for j, h := range w.Headers {
			require.Equal(t, string(h.Key), got[i].Headers[j].Key, "header %d of record %d", j, i)
			require.True(t, same(h.Value, got[i].Headers[j].Value), "header %d of record %d", j, i)
		}
	}
}

func everyByte(t *testing.T, b testkafka.Broker) {
	topic := testkafka.UniqueName(t)
	b.CreateTopic(topic, 1, nil)
	acks := produceAll(t, b, topic, oddRecords(), nil)
	require.Equal(t, map[forward.Class]int{0: len(acks)}, classes(acks))
	requireSameBytes(t, oddRecords(), readProduced(t, b, topic, len(acks)))
}

func everyCompression(t *testing.T, b testkafka.Broker) {
	for codec := range produceCodecs {
		topic := testkafka.UniqueName(t)
		b.CreateTopic(topic, 1, nil)
		records := oddRecords()
		for range 1000 {
			records = append(records, delay.Outgoing{Key: []byte("k"), Value: bytes.Repeat([]byte("abc"), 20)})
		}
		acks := produceAll(t, b, topic, records, func(o *ProducerOptions) { o.Compression = codec })
		require.Equal(t, map[forward.Class]int{0: len(acks)}, classes(acks), codec)
		requireSameBytes(t, records, readProduced(t, b, topic, len(acks)))
	}
}

func timestamps(t *testing.T, b testkafka.Broker) {
	topic := testkafka.UniqueName(t)
	b.CreateTopic(topic, 1, nil)
	before := time.Now().UnixMilli()
	produceAll(t, b, topic, []delay.Outgoing{{Timestamp: before - 3_600_000}, {}, {Timestamp: before + 60_000}}, nil)
	after := time.Now().UnixMilli()
	got := readProduced(t, b, topic, 3)
	require.Equal(t, before-3_600_000, got[0].Timestamp.UnixMilli())
	require.GreaterOrEqual(t, got[1].Timestamp.UnixMilli(), before)
	require.LessOrEqual(t, got[1].Timestamp.UnixMilli(), after)
	require.Equal(t, before+60_000, got[2].Timestamp.UnixMilli())
}

func javaPartitions(t *testing.T, b testkafka.Broker) {
	topic := testkafka.UniqueName(t)
	b.CreateTopic(topic, 12, nil)
	want := map[string]int32{"foobar": 6, "order-1": 10, "order-2": 3, "order-42": 0, "abc": 3}
	var records []delay.Outgoing
	for key := range want {
		records = append(records, delay.Outgoing{Key: []byte(key)})
	}
	produceAll(t, b, topic, records, nil)
	for _, r := range readProduced(t, b, topic, len(want)) {
		require.Equal(t, want[string(r.Key)], r.Partition, string(r.Key))
	}
}

func keylessSpread(t *testing.T, b testkafka.Broker) {
	const n = 6000
	topic := testkafka.UniqueName(t)
	b.CreateTopic(topic, 4, nil)
	records := make([]delay.Outgoing, n)
	produceAll(t, b, topic, records, func(o *ProducerOptions) { o.MaxBatchRecords = 100 })
	per := make(map[int32]int)
	for _, r := range readProduced(t, b, topic, n) {
		require.Nil(t, r.Key)
		per[r.Partition]++
	}
	require.Len(t, per, 4)
	for partition, records := range per {
		require.Zero(t, records%100, "partition %d has %d records: a batch was torn apart", partition, records)
	}
}

// incompressible is a value that stays as large as it is.
func incompressible(n int) []byte {
	rng := rand.New(rand.NewPCG(7, 7))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func oversize(t *testing.T, b testkafka.Broker) {
	const n, large = 101, 50
	topic := testkafka.UniqueName(t)
	b.CreateTopic(topic, 1, map[string]string{"max.message.bytes": "30000"})
	records := make([]delay.Outgoing, n)
	for i := range records {
		records[i] = delay.Outgoing{Key: []byte("k"), Value: []byte(strconv.Itoa(i))}
	}
	records[large].Value = incompressible(40_000)
	acks := produceAll(t, b, topic, records, nil)
	for i, a := range acks {
		if i != large {
			require.Nil(t, a.Err, "record %d", i)
		}
	}
	require.Equal(t, forward.TooLarge, acks[large].Err.Class)
	require.False(t, acks[large].Uncertain)
	readProduced(t, b, topic, n-1)
}

func oversizeFollowed(t *testing.T, b testkafka.Broker) {
	const n = 600
	topic := testkafka.UniqueName(t)
	b.CreateTopic(topic, 1, map[string]string{"max.message.bytes": "30000"})
	p, acks := provenProducer(t, b, topic, nil)
	var records []delay.Outgoing
	for i := provenRecords; i < n; i++ {
		r := outgoing(topic, "k", i)
		if i%97 == 0 {
			r.Value = incompressible(40_000)
		}
		records = append(records, r)
	}
	p.Produce(topic, records)
	got := acks.wait(t, n, 30*time.Second)
	requireTagsInOrder(t, got, n, 1)
	for _, a := range got {
		i := a.Tag.(numberedTag).number
		require.Equal(t, i >= provenRecords && i%97 == 0, a.Err != nil, "record %d: %v", i, a.Err)
	}
	refused := (n - 1) / 97
	require.Equal(t, map[forward.Class]int{0: n - refused, forward.TooLarge: refused}, classes(got))
	last := -1
	for _, r := range readProduced(t, b, topic, n-refused) {
		i, err := strconv.Atoi(string(r.Value))
		require.NoError(t, err)
		require.Greater(t, i, last)
		last = i
	}
	require.Zero(t, counter(t, p.loop.metrics.resequenced))
}

func oversizeCompressed(t *testing.T, b testkafka.Broker) {
	topic := testkafka.UniqueName(t)
	b.CreateTopic(topic, 1, nil)
	records := []delay.Outgoing{
		{Key: []byte("k"), Value: make([]byte, 3<<20)}, // three times what the topic takes
		{Key: []byte("k"), Value: incompressible(3 << 20)},
		{Key: []byte("k"), Value: []byte("small")},
	}
	acks := produceAll(t, b, topic, records, func(o *ProducerOptions) { o.Compression = "lz4" })
	require.Nil(t, acks[0].Err)
	require.Equal(t, forward.TooLarge, acks[1].Err.Class)
	require.Nil(t, acks[2].Err)
	requireSameBytes(t, []delay.Outgoing{records[0], records[2]}, readProduced(t, b, topic, 2))
}

func unknownTopic(t *testing.T, b testkafka.Broker) {
	topic := testkafka.UniqueName(t)
	p, acks := testProducer(t, b, nil)
	require.Equal(t, forward.UnknownTopic, p.Resolve(t.Context(), topic).Class)
	produceNumbered(p, topic, 0, 50, 5)
	require.Equal(t, map[forward.Class]int{forward.UnknownTopic: 50}, classes(acks.wait(t, 50, 20*time.Second)))
	b.CreateTopic(topic, 3, nil)
	require.Nil(t, p.Resolve(t.Context(), topic))
	produceNumbered(p, topic, 0, 50, 5)
	require.Equal(t, map[forward.Class]int{0: 50, forward.UnknownTopic: 50}, classes(acks.wait(t, 100, 20*time.Second)))
	requireOnce(t, readProduced(t, b, topic, 50), 50)
}

func madeAgain(t *testing.T, b testkafka.Broker) {
	topic := testkafka.UniqueName(t)
	b.CreateTopic(topic, 6, nil)
	p, acks := testProducer(t, b, nil)
	produceNumbered(p, topic, 0, 50, 10)
	acks.wait(t, 50, 20*time.Second)
	b.DeleteTopic(topic)
	produceNumbered(p, topic, 0, 50, 10)
	require.Equal(t, map[forward.Class]int{0: 50, forward.UnknownTopic: 50}, classes(acks.wait(t, 100, 20*time.Second)))
	b.CreateTopic(topic, 2, nil)
	require.Nil(t, p.Resolve(t.Context(), topic))
	produceNumbered(p, topic, 0, 50, 10)
	require.Equal(t, map[forward.Class]int{0: 100, forward.UnknownTopic: 50}, classes(acks.wait(t, 150, 20*time.Second)))
	requireOnce(t, readProduced(t, b, topic, 50), 50)
}

func newPartitions(t *testing.T, b testkafka.Broker) {
	const keys = 200
	topic := testkafka.UniqueName(t)
	b.CreateTopic(topic, 2, nil)
	p, acks := testProducer(t, b, nil)
	produceNumbered(p, topic, 0, keys, keys)
	acks.wait(t, keys, 20*time.Second)
	b.AddPartitions(topic, 12)
	require.Nil(t, p.Resolve(t.Context(), topic))
	produceNumbered(p, topic, keys, 2*keys, keys)
	acks.wait(t, 2*keys, 20*time.Second)
	for _, r := range readProduced(t, b, topic, 2*keys) {
		i, err := strconv.Atoi(string(r.Value))
		require.NoError(t, err)
		if i >= keys {
			require.Equal(t, partitionOf(r.Key, 12), r.Partition)
		}
	}
}

func missingKey(t *testing.T, b testkafka.Broker) {
	if !b.Real() {
		t.Skip("the embedded broker takes records without a key everywhere")
	}
	topic := testkafka.UniqueName(t)
	b.CreateTopic(topic, 1, map[string]string{"cleanup.policy": "compact"})
	records := make([]delay.Outgoing, 30)
	for i := range records {
		records[i] = delay.Outgoing{Key: []byte(strconv.Itoa(i)), Value: []byte("v")}
	}
	records[0].Key, records[10].Key, records[11].Key = nil, nil, nil
	for i, a := range produceAll(t, b, topic, records, nil) {
		if records[i].Key != nil {
			require.Nil(t, a.Err, "record %d", i)
			continue
		}
		require.NotNil(t, a.Err, "record %d", i)
		require.Equal(t, forward.Rejected, a.Err.Class)
	}
	readProduced(t, b, topic, len(records)-3)
}

func refusedTimestamp(t *testing.T, b testkafka.Broker) {
	if !b.Real() {
		t.Skip("the embedded broker takes every timestamp")
	}
	topic := testkafka.UniqueName(t)
	b.CreateTopic(topic, 1, map[string]string{"message.timestamp.after.max.ms": "60000"})
	records := make([]delay.Outgoing, 20)
	records[7].Timestamp = time.Now().Add(time.Hour).UnixMilli()
	for i, a := range produceAll(t, b, topic, records, nil) {
		require.Equal(t, i == 7, a.Err != nil, "record %d: %v", i, a.Err)
		if i == 7 {
			require.Equal(t, forward.Rejected, a.Err.Class)
		}
	}
	readProduced(t, b, topic, 19)
}

func wrap(t *testing.T, b testkafka.Broker) {
	if !b.Real() {
		t.Skip("the embedded broker counts to 2^31-2")
	}
	const n = 1000
	topic := testkafka.UniqueName(t)
	b.CreateTopic(topic, 1, nil)
	p, acks := testProducer(t, b, func(o *ProducerOptions) { o.MaxBatchRecords = 7 })
	require.Nil(t, p.Resolve(t.Context(), topic))
	// A broker takes any first sequence for a log that somebody else has written to.
	testkafka.Produce(t, b, &kgo.Record{Topic: topic, Key: []byte("other"), Value: []byte("0")})
	p.loop.inbox.post(func(time.Time) { p.loop.topics[topic].parts[0].next = math.MaxInt32 - n/2 })
	produceNumbered(p, topic, 1, n, 1)
	require.Equal(t, map[forward.Class]int{0: n - 1}, classes(acks.wait(t, n-1, 30*time.Second)))
	requireOnce(t, readProduced(t, b, topic, n), n)
	require.Zero(t, counter(t, p.loop.metrics.resequenced))
	// 142 batches of seven: more than one was under way where the numbers wrap.
	require.GreaterOrEqual(t, counter(t, p.loop.metrics.requests), n/7)
}
