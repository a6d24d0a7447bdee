package kafka

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"delay-scheduler/delay"
)

var testTime = time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC)

// encodedSize is what a record takes on the wire, by a foreign implementation.
func encodedSize(r *delay.Outgoing, stamp int64, i int) int {
	rec := kmsg.NewRecord()
	rec.TimestampDelta64 = r.Timestamp - stamp
	rec.OffsetDelta = int32(i)
	rec.Key, rec.Value = r.Key, r.Value
	for _, h := range r.Headers {
		rec.Headers = append(rec.Headers, kmsg.Header{Key: string(h.Key), Value: h.Value})
	}
	rec.Length = math.MaxInt32 // the longest there can be
	return len(rec.AppendTo(nil))
}

func TestRecordSizeIsAnUpperBoundAndCloseToIt(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	bytesOf := func(n int) []byte {
		if n == 0 && rng.IntN(2) == 0 {
			return nil
		}
		return make([]byte, n)
	}
	sizes := []int{0, 1, 63, 64, 127, 128, 8191, 8192, 70_000, 1 << 20}
	for range 300 {
		r := delay.Outgoing{Key: bytesOf(sizes[rng.IntN(6)]), Value: bytesOf(sizes[rng.IntN(len(sizes))]), Timestamp: rng.Int64N(1 << 42)}
		for range rng.IntN(4) {
			r.Headers = append(r.Headers, delay.Header{Key: make([]byte, sizes[rng.IntN(5)]), Value: bytesOf(sizes[rng.IntN(6)])})
		}
		size, real := recordSize(&r), encodedSize(&r, rng.Int64N(1<<42), rng.IntN(20_000))
		require.GreaterOrEqual(t, size, real)
		require.LessOrEqual(t, size, real+recordOverhead+2+2*len(r.Headers))
	}
}

func TestBuildingABatchKeepsEveryByteAndAliasesThem(t *testing.T) {
	p := &producePartition{topic: &produceTopic{limit: 1 << 20}}
	b := newProduceBatch(p, testTime)
	out := []delay.Outgoing{
		{Key: nil, Value: nil, Timestamp: 1_000_500},
		{Key: []byte{}, Value: []byte{}},
		{Key: []byte("k"), Value: []byte("v"), Timestamp: 999_000, Headers: []delay.Header{
			{Key: []byte("h"), Value: nil}, {Key: []byte("h"), Value: []byte{}}, {Key: []byte{0xff, 0}, Value: []byte{0, 1, 2}},
		}},
		{Key: []byte("x"), Timestamp: math.MaxInt64}, // beyond what the library can express
	}
	for i := range out {
		b.add(&out[i], recordSize(&out[i]), 0)
	}
	b.stampMS = 2_000_000
	slab := new(recordSlab)
	slab.grow(len(out), b.headers)
	a := produceAttempt{batch: b, id: produceIdentity{id: 7, epoch: 2, transactional: true}, seq: 41}
	rb := slab.build(&a, 0)

	require.Equal(t, int64(7), rb.ProducerID)
	require.Equal(t, int16(2), rb.ProducerEpoch)
	require.Equal(t, int32(41), rb.FirstSequence)
	require.True(t, rb.IsTransactional)
	require.Equal(t, int32(3), rb.LastOffsetDelta)
	require.Equal(t, time.UnixMilli(1_000_500), rb.FirstTimestamp)
	require.Equal(t, time.UnixMilli(2_000_000), rb.MaxTimestamp)
	for i, r := range rb.Records {
		require.Equal(t, int64(i), r.OffsetDelta)
		require.Equal(t, out[i].Key, r.Key)
		require.Equal(t, out[i].Value, r.Value)
		require.Len(t, r.Headers, len(out[i].Headers))
		for j, h := range r.Headers {
			require.Same(t, &b.records[i].Headers[j].Key[0], &h.Key[0])
			require.Equal(t, out[i].Headers[j].Value, h.Value)
			require.Equal(t, out[i].Headers[j].Value == nil, h.Value == nil)
		}
	}
	require.Equal(t, 999_500*time.Millisecond, rb.Records[1].TimestampDelta) // the time of sending
	require.Equal(t, -1500*time.Millisecond, rb.Records[2].TimestampDelta)
	require.Equal(t, 999_500*time.Millisecond, rb.Records[3].TimestampDelta)
}

func TestASlabIsReusedWithoutAllocating(t *testing.T) {
	p := &producePartition{topic: &produceTopic{limit: 1 << 20}}
	b := newProduceBatch(p, testTime)
	r := delay.Outgoing{Key: []byte("k"), Value: bytes.Repeat([]byte("v"), 200), Headers: []delay.Header{{Key: []byte("h")}}}
	for range 1000 {
		b.add(&r, recordSize(&r), 0)
	}
	a := produceAttempt{batch: b}
	slab := new(recordSlab)
	allocs := testing.AllocsPerRun(100, func() {
		slab.grow(len(b.records), b.headers)
		slab.build(&a, 0)
		clear(slab.records)
		slab.records, slab.refs, slab.headers = slab.records[:0], slab.refs[:0], slab.headers[:0]
	})
	require.LessOrEqual(t, allocs, 1.0, "the batch itself")
}

func TestSequencesWrapToZero(t *testing.T) {
	require.Equal(t, int32(5), nextSequence(0, 5))
	require.Equal(t, int32(math.MaxInt32), nextSequence(math.MaxInt32-3, 3))
	require.Equal(t, int32(0), nextSequence(math.MaxInt32-3, 4))
	require.Equal(t, int32(2), nextSequence(math.MaxInt32, 3))
}

func TestABatchIsNumberedOnceAndGivesItsNumbersBack(t *testing.T) {
	p := &producePartition{topic: &produceTopic{limit: 1 << 20}, next: math.MaxInt32 - 1}
	first := produceIdentity{id: 1, generation: 1}
	b := newProduceBatch(p, testTime)
	for range 4 {
		b.add(&delay.Outgoing{}, 10, 0)
	}
	p.sequence(b, first)
	require.Equal(t, first, b.id)
	require.Equal(t, int32(math.MaxInt32-1), b.seq)
	require.Equal(t, int32(2), p.next)
	p.sequence(b, produceIdentity{id: 2, generation: 2})
	require.Equal(t, first, b.id, "a resend has the same number")
	p.window = append(p.window, b)
	new(produceLoop).unnumber(p)
	require.Equal(t, int32(math.MaxInt32-1), p.next)
	require.False(t, b.sequenced)
	require.Equal(t, []*produceBatch{b}, p.queue)
}

func TestTheNextIdentityIsTheNextEpochUntilThereIsNone(t *testing.T) {
	i := produceIdentity{id: 9, epoch: math.MaxInt16 - 1, generation: 3}
	next, ok := i.next()
	require.True(t, ok)
	require.Equal(t, produceIdentity{id: 9, epoch: math.MaxInt16, generation: 4}, next)
	_, ok = next.next()
	require.False(t, ok)
	_, ok = produceIdentity{}.next()
	require.False(t, ok)
}
