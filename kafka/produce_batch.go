package kafka

import (
	"math/bits"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"delay-scheduler/delay"
)

const (
	// batchOverhead is what a batch adds to its records.
	batchOverhead = 61
	// recordOverhead is the most that a record adds apart from lengths of key, value
	// and headers: its own length, attributes, deltas of timestamp and offset, number of
	// headers.
	recordOverhead = 5 + 1 + 10 + 3 + 3
	// lastTimestamp is the last millisecond that the library can express.
	lastTimestamp = 1<<63/1_000_000 - 1
)

// recordSize is an upper bound of what a record takes in a batch.
func recordSize(r *delay.Outgoing) int {
	n := recordOverhead + varBytes(r.Key) + varBytes(r.Value)
	for i := range r.Headers {
		n += varBytes(r.Headers[i].Key) + varBytes(r.Headers[i].Value)
	}
	return n
}

// varBytes is the size of a byte string with its zigzag length.
func varBytes(b []byte) int {
	return len(b) + (bits.Len(uint(len(b)))+7)/7 + 1
}

// recordSlab is the client's form of the records of one request. It is needed only
// until the request is encoded.
type recordSlab struct {
	records []sarama.Record
	refs    []*sarama.Record
	headers []*sarama.RecordHeader
}

var recordSlabs = sync.Pool{New: func() any { return new(recordSlab) }}

// grow makes room. What was built before must not be in use.
func (s *recordSlab) grow(records, headers int) {
	if cap(s.records) < records {
		s.records = make([]sarama.Record, 0, records)
		s.refs = make([]*sarama.Record, 0, records)
	}
	if cap(s.headers) < headers {
		s.headers = make([]*sarama.RecordHeader, 0, headers)
	}
}

// release lets go of the records and gives the slab back.
func (s *recordSlab) release() {
	clear(s.records)
	clear(s.headers)
	s.records, s.refs, s.headers = s.records[:0], s.refs[:0], s.headers[:0]
	recordSlabs.Put(s)
}

// build makes the client's form of a batch, the same each time. It only reads the
// batch: another connection may be doing so at the same time.
func (s *recordSlab) build(a *produceAttempt, codec sarama.CompressionCodec) *sarama.RecordBatch {
	b := a.batch
	first := b.timestamp(0)
	latest := first
	from := len(s.refs)
	for i := range b.records {
		out := &b.records[i]
		ms := b.timestamp(i)
		latest = max(latest, ms)
		s.records = append(s.records, sarama.Record{
			Headers:        s.headersOf(out),
			TimestampDelta: time.Duration(ms-first) * time.Millisecond,
			OffsetDelta:    int64(i),
			Key:            out.Key,
			Value:          out.Value,
		})
		s.refs = append(s.refs, &s.records[len(s.records)-1])
	}
	return &sarama.RecordBatch{
		Version:          2,
		Codec:            codec,
		CompressionLevel: sarama.CompressionLevelDefault,
		FirstTimestamp:   time.UnixMilli(first),
		MaxTimestamp:     time.UnixMilli(latest),
		LastOffsetDelta:  int32(len(b.records) - 1),
		ProducerID:       a.id.id,
		ProducerEpoch:    a.id.epoch,
		FirstSequence:    a.seq,
		IsTransactional:  a.id.transactional,
		Records:          s.refs[from:len(s.refs):len(s.refs)],
	}
}

func (s *recordSlab) headersOf(out *delay.Outgoing) []*sarama.RecordHeader {
	from := len(s.headers)
	for i := range out.Headers {
		s.headers = append(s.headers, (*sarama.RecordHeader)(&out.Headers[i]))
	}
	return s.headers[from:len(s.headers):len(s.headers)]
}

// timestamp is a record's own or the time of sending.
func (b *produceBatch) timestamp(i int) int64 {
	if ms := b.records[i].Timestamp; ms > 0 && ms <= lastTimestamp {
		return ms
	}
	return b.stampMS
}
