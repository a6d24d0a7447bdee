package kafka

import (
	"cmp"
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
	passed  int // records that were looked at, wanted or not
	// err is why what is at next cannot be decoded; what is before it can be used.
	err error
	// more says that it ends before the response does: there was enough.
	more bool
}

// enough is how many bytes of records, unpacked, are decoded at a time, unless a single
// batch has more; 0: all there are.
type enough int

// wants says which offsets between two, both included, are wanted. It is asked with
// offsets that ascend.
type wants func(first, last int64) bool

// decodePage turns what a response says of a partition into records. The position
// passes everything that was there, also what yields no record: transaction markers,
// aborted batches, and the gaps that compaction leaves within a batch or before one,
// or instead of one: it keeps the last batch of a producer, without records, to remember
// its sequence. The records alias the response. wanted nil wants all.
func decodePage(topic string, partition int32, from int64, p *part, wanted wants, most enough) page {
	return decodeInto(new(sheet), topic, partition, from, p, wanted, most)
}

// decodeInto does so in memory that was used before.
func decodeInto(s *sheet, topic string, partition int32, from int64, p *part, wanted wants, most enough) page {
	d := decoder{page: page{records: s.records}, topic: topic, partition: partition, from: from, wanted: wanted, headers: &s.headers}
	defer func() { s.records = d.records }()
	d.aborted = slices.Clone(p.AbortedTransactions)
	slices.SortFunc(d.aborted, func(a, b *sarama.AbortedTransaction) int {
		return cmp.Compare(a.FirstOffset, b.FirstOffset)
	})
	d.next = from
	for _, set := range p.RecordsSet {
		if set.MsgSet == nil {
			break // It comes again, by itself.
		}
		d.messageSet(set.MsgSet)
	}
	for rest := p.records; d.err == nil; {
		if d.more = most > 0 && d.unpacked >= int(most); d.more {
			break
		}
		var b *batch
		if b, rest, d.err = nextBatch(rest); b == nil {
			break
		}
		d.batch(b)
	}
	return d.page
}

type decoder struct {
	page
	topic     string
	partition int32
	from      int64
	wanted    wants
	headers   *headerSlab
	unpacked  int // bytes

	aborted  []*sarama.AbortedTransaction // not yet reached, by first offset
	aborting map[int64]struct{}           // producers inside an aborted transaction
}

// batch takes a batch unless its transaction was aborted. The response lists each
// aborted transaction by producer and first offset; it ends at that producer's next
// abort marker.
func (d *decoder) batch(b *batch) {
	for len(d.aborted) > 0 && d.aborted[0].FirstOffset <= b.last {
		if d.aborting == nil {
			d.aborting = make(map[int64]struct{})
		}
		d.aborting[d.aborted[0].ProducerID] = struct{}{}
		d.aborted = d.aborted[1:]
	}
	_, aborting := d.aborting[b.producer]
	var err error
	switch {
	case b.is(control):
		var abort bool
		if abort, err = b.isAbort(); abort {
			delete(d.aborting, b.producer)
		}
	case b.last < d.from, aborting && b.is(transactional):
	default:
		err = d.take(b)
	}
	if d.err = err; err == nil {
		d.next = max(d.next, b.last+1)
	}
}

// take appends the records of a batch, all or none.
func (d *decoder) take(b *batch) error {
	d.passed += max(b.count, 0)
	if d.wanted != nil && !d.wanted(max(b.first, d.from), b.last) {
		return nil
	}
	plain, err := b.records()
	if err != nil {
		return err
	}
	d.unpacked += len(plain)
	if d.wanted == nil {
		d.records = slices.Grow(d.records, b.count)
	}
	before, at := len(d.records), d.from
	in := cursor{raw: plain}
	for n := range b.count {
		r, ok := b.nextRecord(&in)
		// The broker gives whole batches.
		if ok && (r.offset < at || d.wanted != nil && !d.wanted(r.offset, r.offset)) {
			continue
		}
		// The broker that stamps a batch stamps it as a whole, and leaves the producer's
		// times in the records; they mean nothing any more.
		rec := delay.Record{Topic: d.topic, Partition: d.partition, Offset: r.offset, Timestamp: b.maxTime, AppendTime: true}
		if !b.is(appendTime) {
			rec.Timestamp, rec.AppendTime = b.firstTime+r.timeDelta, false
		}
		if !ok || r.offset > b.last || !r.fill(&rec, d.headers) {
			d.records = d.records[:before]
			return b.malformed(n)
		}
		d.records = append(d.records, rec)
		at = r.offset + 1
	}
	return nil
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
			d.passed++
			if offset < d.from || d.wanted != nil && !d.wanted(offset, offset) {
				continue
			}
			d.records = append(d.records, delay.Record{
				Topic: d.topic, Partition: d.partition, Offset: offset,
				Timestamp: epochMillis(stamp), AppendTime: appended, Key: m.Msg.Key, Value: m.Msg.Value,
			})
		}
	}
}

// epochMillis is -1 for the library's "no time".
func epochMillis(t time.Time) int64 {
	if t.IsZero() {
		return -1
	}
	return t.UnixMilli()
}
