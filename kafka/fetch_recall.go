package kafka

import (
	"context"

	"github.com/IBM/sarama"

	"delay-scheduler/delay"
	"delay-scheduler/offset"
	"delay-scheduler/scheduler"
)

const (
	// leastShare is the least that is asked for. The broker gives a whole batch if it is
	// the first of a response, however large.
	leastShare = 4 << 10
	// usualRecord is what a record is thought to take before any was seen.
	usualRecord = 512
	// sampled is how many records of a page are measured.
	sampled = 32
)

// recall is what a stream reads again.
type recall struct {
	ranges []scheduler.Range
	at     int
	each   int64 // bytes of a record, an average
	batch  int64 // bytes of the first batch of the last page: no less is ever given
}

// Recall implements scheduler.Recaller. It shares the machinery of Open, with a
// connection of its own.
func (f *Fetcher) Recall(topic string, partition int32, id offset.TopicID, ranges []scheduler.Range) scheduler.Stream {
	ctx, cancel := f.scope()
	s := newStream(f, topic, partition, 0, cancel)
	s.id = id
	s.past = &recall{ranges: ranges, each: usualRecord}
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.sizes[place{topic: topic, partition: partition}]; n > 0 {
		s.past.each = n
	}
	s.seek()
	if !f.closed {
		f.work.Go(func() { s.run(ctx) })
	}
	return s
}

// over says that nothing is left to read.
func (r *recall) over() bool { return r.at == len(r.ranges) }

// pass leaves behind the ranges that end at or below an offset, but none that has to be
// fetched exactly.
func (r *recall) pass(next int64) {
	for r.at < len(r.ranges) && r.ranges[r.at].Below <= next {
		r.at++
		if r.at < len(r.ranges) && r.ranges[r.at].Exact {
			return
		}
	}
}

// reach is how far a page up to next serves: up to the next range that has to be fetched
// exactly.
func (r *recall) reach(next int64) int64 {
	for i := r.at + 1; i < len(r.ranges) && r.ranges[i].From < next; i++ {
		if r.ranges[i].Exact {
			return r.ranges[i].From
		}
	}
	return next
}

// within keeps the records that lie in the ranges.
func (r *recall) within(records []delay.Record, below int64) []delay.Record {
	kept, at := records[:0], r.at
	for i := range records {
		o := records[i].Offset
		if o >= below {
			break
		}
		for at < len(r.ranges) && r.ranges[at].Below <= o {
			at++
		}
		if at == len(r.ranges) {
			break
		}
		if o >= r.ranges[at].From {
			kept = append(kept, records[i])
		}
	}
	return kept
}

// share is how much to ask for, so that a short range does not cost a long response.
func (r *recall) share(from int64, most int32) int32 {
	span := (r.ranges[r.at].Below-from)*(r.each+r.each/4) + leastShare/2
	return int32(min(max(span, r.batch, leastShare), int64(most)))
}

// measure lets the sizes of some records into the average.
func (r *recall) measure(records []delay.Record) {
	n := min(len(records), sampled)
	if n == 0 {
		return
	}
	bytes := 0
	for i := range records[:n] {
		rec := &records[i]
		bytes += recordSize(&delay.Outgoing{Key: rec.Key, Value: rec.Value, Headers: rec.Headers})
	}
	r.each += (int64(bytes/n) - r.each) / 4
}

// seek moves to what is to be read next.
func (s *stream) seek() {
	r := s.past
	if r.over() {
		return
	}
	s.next = max(s.next, r.ranges[r.at].From)
	if r.ranges[r.at].Exact {
		s.next = r.ranges[r.at].From
	}
	s.poll, s.bytes = pollQuick, r.share(s.next, s.fetcher.opts.PartitionBytes)
}

// takePast passes on what a fetch gave of the ranges.
func (s *stream) takePast(ctx context.Context, block *sarama.FetchResponseBlock) {
	r := s.past
	p := decodePage(s.topic, s.partition, s.next, block)
	s.start, s.end, s.beyond = block.LogStartOffset, stableEnd(block), false
	s.fetcher.metrics.past.Add(float64(len(p.records)))
	if p.next == s.next {
		if s.end <= s.next {
			s.fail(ctx, errBeyondEnd(s.next, s.end))
			return
		}
		s.empty(ctx, block)
		return
	}
	s.trouble.clear()
	r.measure(p.records)
	if set := block.RecordsSet; len(set) > 0 && set[0].RecordBatch != nil {
		r.batch = int64(len(set[0].RecordBatch.Records)+1) * (r.each + r.each/4)
	}
	from := s.next
	s.next = r.reach(p.next)
	s.deliver(ctx, scheduler.Batch{From: from, Records: r.within(p.records, s.next)})
	s.fetcher.learn(s.topic, s.partition, r.each)
	r.pass(s.next)
	s.seek()
}

// passDeleted passes over what lies below the start of the log.
func (s *stream) passDeleted(ctx context.Context, bounds Bounds) {
	from := s.next
	s.start, s.end, s.next = bounds.Start, bounds.Stable, bounds.Start
	s.trouble.clear()
	s.deliver(ctx, scheduler.Batch{From: from, Lost: bounds.Start - from})
	for !s.past.over() && s.past.ranges[s.past.at].Below <= bounds.Start {
		s.past.at++
	}
	s.seek()
}

// learn remembers how large the records of a partition are.
func (f *Fetcher) learn(topic string, partition int32, bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sizes[place{topic: topic, partition: partition}] = bytes
}
