package kafka

import (
	"context"

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

// wants are the offsets within the ranges from here on, or those of them that are
// listed.
func (r *recall) wants() wants {
	ranges, at := r.ranges[r.at:], 0
	return func(first, last int64) bool {
		for len(ranges) > 0 && ranges[0].Below <= first {
			ranges, at = ranges[1:], 0
		}
		if len(ranges) == 0 || ranges[0].From > last {
			return false
		}
		only := ranges[0].Only
		if only == nil {
			return true
		}
		for at < len(only) && only[at] < first {
			at++
		}
		// Beyond the last that is listed another range may begin.
		return at < len(only) && only[at] <= last || ranges[0].Below <= last
	}
}

// below are the records that lie below an offset.
func below(records []delay.Record, offset int64) []delay.Record {
	n := len(records)
	for n > 0 && records[n-1].Offset >= offset {
		n--
	}
	return records[:n]
}

// share is how much to ask for, so that a short range does not cost a long response.
func (r *recall) share(from int64, most int32) int32 {
	span := (r.ranges[r.at].Below-from)*(r.each+r.each/4) + leastShare/2
	return int32(min(max(span, r.batch, leastShare), int64(most)))
}

// measure lets the sizes of the records of a page into the average. They are those that
// travel: what a share is of.
func (r *recall) measure(p *part, records int) {
	if records == 0 || len(p.records) == 0 {
		return
	}
	r.each += (int64(len(p.records)/records) - r.each) / 4
	if b, _, err := nextBatch(p.records); b != nil && err == nil {
		r.batch = int64(len(b.raw))
	}
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
func (s *stream) takePast(ctx context.Context, part *part) {
	r := s.past
	p := decodePage(s.topic, s.partition, s.next, part, r.wants(), 0)
	s.start, s.end, s.beyond = part.LogStartOffset, stableEnd(part), false
	// Of what a pass reads most is not wanted: what is wanted is copied out, and the rest
	// does not become garbage many times as large as what is kept.
	p.records = copyRecords(p.records)
	s.fetcher.metrics.past.Add(float64(p.passed))
	r.measure(part, p.passed)
	part.release()
	switch {
	case p.next > s.next:
	case p.err != nil:
		s.noResponse(ctx, p.err)
		return
	case s.end <= s.next:
		s.fail(ctx, errBeyondEnd(s.next, s.end))
		return
	default:
		s.empty(ctx, part)
		return
	}
	s.trouble.clear()
	from := s.next
	s.next = r.reach(p.next)
	s.deliver(ctx, scheduler.Batch{From: from, Records: below(p.records, s.next), Passed: p.passed})
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
