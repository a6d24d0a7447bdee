package kafka

import (
	"encoding/binary"
	"reflect"
	"slices"
	"time"

	"github.com/IBM/sarama"

	"delay-scheduler/delay"
)

// page is what a partition's part of a fetch response holds, decoded: the committed
// records from the position asked for, and the position after all that was looked at.
type page struct {
	records []delay.Record
	next    int64
}

// decodePage turns a block into records. The position passes everything the block
// held, also what yields no record: transaction markers, aborted batches, and the gaps
// that compaction leaves within a batch or before one. The records alias the response.
func decodePage(topic string, partition int32, from int64, block *sarama.FetchResponseBlock) page {
	d := decoder{topic: topic, partition: partition, from: from}
	d.reserve(block)
	d.aborted = slices.Clone(block.AbortedTransactions)
	slices.SortFunc(d.aborted, func(a, b *sarama.AbortedTransaction) int {
		return int(min(1, max(-1, a.FirstOffset-b.FirstOffset)))
	})
	d.next = from
	for _, set := range block.RecordsSet {
		switch {
		case set.RecordBatch != nil:
			d.batch(set.RecordBatch)
		case set.MsgSet != nil:
			d.messageSet(set.MsgSet)
		}
	}
	if len(block.RecordsSet) == 0 && !block.Partial {
		d.next = max(d.next, emptyEnd(block))
	}
	return page{records: d.records, next: d.next}
}

type decoder struct {
	topic      string
	partition  int32
	from, next int64

	records []delay.Record
	headers []delay.Header // slab that the records' headers are cut from

	aborted  []*sarama.AbortedTransaction // not yet reached, by first offset
	aborting map[int64]struct{}           // producers inside an aborted transaction
}

// reserve sizes both slabs, so that a page costs two allocations.
func (d *decoder) reserve(block *sarama.FetchResponseBlock) {
	records, headers := 0, 0
	for _, set := range block.RecordsSet {
		if b := set.RecordBatch; b != nil && !b.Control {
			records += len(b.Records)
			for _, r := range b.Records {
				headers += len(r.Headers)
			}
		}
	}
	if records > 0 {
		d.records = make([]delay.Record, 0, records)
		d.headers = make([]delay.Header, 0, headers)
	}
}

// batch takes a batch unless its transaction was aborted. The response lists each
// aborted transaction by producer and first offset; it ends at that producer's next
// abort marker.
func (d *decoder) batch(b *sarama.RecordBatch) {
	if b.PartialTrailingRecord {
		return
	}
	last := b.LastOffset()
	for len(d.aborted) > 0 && d.aborted[0].FirstOffset <= last {
		if d.aborting == nil {
			d.aborting = make(map[int64]struct{})
		}
		d.aborting[d.aborted[0].ProducerID] = struct{}{}
		d.aborted = d.aborted[1:]
	}
	d.next = max(d.next, last+1)
	if b.Control {
		if isAbort(b) {
			delete(d.aborting, b.ProducerID)
		}
		return
	}
	if _, aborted := d.aborting[b.ProducerID]; aborted && b.IsTransactional {
		return
	}
	d.take(b)
}

func (d *decoder) take(b *sarama.RecordBatch) {
	base := epochMillis(b.FirstTimestamp)
	if b.LogAppendTime {
		// The broker stamps the batch as a whole and leaves the producer's times in the
		// records; they mean nothing any more.
		base = epochMillis(b.MaxTimestamp)
	}
	for _, r := range b.Records {
		offset := b.FirstOffset + r.OffsetDelta
		if offset < d.from {
			continue // the broker gives whole batches
		}
		at := base
		if !b.LogAppendTime {
			at += deltaMillis(r.TimestampDelta)
		}
		d.records = append(d.records, delay.Record{
			Topic: d.topic, Partition: d.partition, Offset: offset,
			Timestamp: at, AppendTime: b.LogAppendTime,
			Key: r.Key, Value: r.Value, Headers: d.headersOf(r),
		})
	}
}

func (d *decoder) headersOf(r *sarama.Record) []delay.Header {
	if len(r.Headers) == 0 {
		return nil
	}
	start := len(d.headers)
	for _, h := range r.Headers {
		d.headers = append(d.headers, delay.Header(*h))
	}
	return d.headers[start:len(d.headers):len(d.headers)]
}

// messageSet takes records of the format before Kafka 0.11, which some logs still
// begin with. They have no headers and no transactions.
func (d *decoder) messageSet(set *sarama.MessageSet) {
	for _, outer := range set.Messages {
		inner := outer.Messages()
		if len(inner) == 0 {
			continue
		}
		for _, m := range inner {
			offset, appended, stamp := m.Offset, m.Msg.LogAppendTime, m.Msg.Timestamp
			if m.Msg.Version >= 1 {
				// Inside a compressed message offsets count from it, and its own offset is
				// that of the last one.
				offset += outer.Offset - inner[len(inner)-1].Offset
				if outer.Msg.LogAppendTime {
					appended, stamp = true, outer.Msg.Timestamp
				}
			}
			d.next = max(d.next, offset+1)
			if offset < d.from {
				continue
			}
			d.records = append(d.records, delay.Record{
				Topic: d.topic, Partition: d.partition, Offset: offset,
				Timestamp: epochMillis(stamp), AppendTime: appended, Key: m.Msg.Key, Value: m.Msg.Value,
			})
		}
	}
}

// isAbort reads a control record's key: version, then type, where 0 is abort.
func isAbort(b *sarama.RecordBatch) bool {
	return len(b.Records) > 0 && len(b.Records[0].Key) >= 4 && binary.BigEndian.Uint16(b.Records[0].Key[2:]) == 0
}

// epochMillis is -1 for the library's "no time".
func epochMillis(t time.Time) int64 {
	if t.IsZero() {
		return -1
	}
	return t.UnixMilli()
}

// deltaMillis is a record's distance in time from its batch, in ms. The library made
// nanoseconds of it, which wrap around beyond 292 years; a record that wants to be due
// in 400 years must not turn out due at once. As 10^6 is 2^6 times an odd number the
// multiplication is undone exactly for up to 2^57 ms either way.
func deltaMillis(d time.Duration) int64 {
	const inverse = 0x790fb65668c26139 // of 15625 modulo 2^64
	return int64((uint64(d)>>6)*inverse<<6) >> 6
}

// emptyEnd is the position after a response that held nothing but empty batches, or 0.
// Compaction keeps the last batch of a producer, without records, to remember its
// sequence. The library drops such batches, and tells their end to itself alone, in a
// field it does not export; without it the position could not pass them.
func emptyEnd(block *sarama.FetchResponseBlock) int64 {
	f := reflect.ValueOf(block).Elem().FieldByName("recordsNextOffset")
	if !f.IsValid() || f.Kind() != reflect.Pointer || f.IsNil() {
		return 0
	}
	return f.Elem().Int()
}
