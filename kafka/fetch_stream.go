package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"delay-scheduler/offset"
	"delay-scheduler/scheduler"
)

const (
	// maxBatchBytes is as far as a partition's share grows for a batch that does not
	// fit: the library refuses larger responses.
	maxBatchBytes = 64 << 20
	// idleCheck is how long a partition may go unread before its topic is looked up
	// again: it may have been deleted and made anew meanwhile, and then the position
	// means nothing.
	idleCheck = 5 * time.Second
	// settleTime is how long a batch may wait for its receiver and keep the whole
	// response in memory that it came with; then it is copied out.
	settleTime = 200 * time.Millisecond
)

// stream reads one partition. Its goroutine owns everything but out and cancel.
type stream struct {
	fetcher   *Fetcher
	topic     string
	partition int32
	out       chan scheduler.Batch
	cancel    context.CancelFunc

	next       int64 // the position
	earliest   bool  // it is not known yet: the log's start, wherever that is
	start, end int64 // the log's bounds as last heard

	node  *node // where the partition is read; nil: not known
	wish  *wish
	id    offset.TopicID // of the log that the position belongs to
	found time.Time      // an answer about the leader must be from after this

	poll    poll
	bytes   int32
	heard   time.Time // when the receiver got the last batch
	live    time.Time // when a fetch was last answered
	trouble trouble
	hanging hanging
	beyond  bool // the last fetch was beyond the end of the log

	past *recall // what is read again; nil: the stream reads on and on
}

func newStream(f *Fetcher, topic string, partition int32, from int64, cancel context.CancelFunc) *stream {
	return &stream{
		fetcher: f, topic: topic, partition: partition, cancel: cancel,
		next: max(0, from), earliest: from < 0,
		out:   make(chan scheduler.Batch),
		bytes: f.opts.PartitionBytes,
	}
}

// Batches implements scheduler.Stream.
func (s *stream) Batches() <-chan scheduler.Batch { return s.out }

// Close implements scheduler.Stream.
func (s *stream) Close() { s.cancel() }

func (s *stream) run(ctx context.Context) {
	defer s.cancel()
	defer s.leave()
	for ctx.Err() == nil {
		if s.past != nil && s.past.over() {
			close(s.out)
			return
		}
		if s.node != nil && time.Since(s.live) > idleCheck {
			s.leave()
		}
		if s.node == nil && !s.locate(ctx) {
			continue
		}
		a, ok := s.fetch(ctx)
		if !ok {
			continue
		}
		s.live = time.Now()
		switch {
		case a.err != nil:
			s.noResponse(ctx, a.err)
		case a.part.Err != sarama.ErrNoError:
			s.refused(ctx, a.part.Err)
		case s.past != nil:
			s.takePast(ctx, a.part)
		default:
			s.take(ctx, a.part)
		}
	}
}

// locate finds the partition's broker.
func (s *stream) locate(ctx context.Context) bool {
	l, err := s.fetcher.leaders.find(ctx, s.topic, s.partition, s.found)
	if unknown := (offset.TopicID{}); err == nil && l.id != s.id && l.id != unknown && s.id != unknown {
		err = errRecreated
	}
	if err != nil {
		s.found = time.Now()
		s.fail(ctx, err)
		return false
	}
	s.id = l.id
	s.enter(l)
	return true
}

// enter begins to read from a broker.
func (s *stream) enter(l leader) {
	s.node = s.fetcher.attach(l.addr)
	s.wish = &wish{topic: s.topic, partition: s.partition, past: s.past != nil, reply: make(chan answer, 1)}
	s.live = time.Now()
	if s.poll == pollTail {
		s.poll = pollQuick
	}
}

// leave ends reading from a broker. Whatever the reason, what is known of the leader
// counts no more.
func (s *stream) leave() {
	if s.node == nil {
		return
	}
	s.node.forget(s.wish)
	s.fetcher.detach(s.node)
	s.node, s.wish = nil, nil
	s.found = time.Now()
}

// fetch asks for what follows the position and waits. A broker that is silent is
// suspected of being gone: if the partition has another leader, that one is asked.
func (s *stream) fetch(ctx context.Context) (answer, bool) {
	w := s.wish
	w.poll, w.from, w.bytes = s.poll, s.next, s.bytes
	w.start, w.end, w.heard = s.start, s.end, s.heard
	s.node.ask(w)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case a := <-w.reply:
			return a, true
		case <-ctx.Done():
			return answer{}, false
		case now := <-tick.C:
			if !s.node.silent(w, now) {
				s.trouble.forgive()
			} else if s.moved(ctx) {
				return answer{}, false
			}
		}
	}
}

// moved looks the leader up while its broker is silent, and says whether the wait is
// over.
func (s *stream) moved(ctx context.Context) bool {
	s.trouble.begin(time.Now().Add(-suspectAfter))
	s.complain(ctx, fmt.Errorf("broker %s: %w", s.node.addr, errSilent))
	l, err := s.fetcher.leaders.find(ctx, s.topic, s.partition, s.found)
	s.found = time.Now()
	if err != nil || l.addr == s.node.addr {
		return false
	}
	s.leave()
	return true
}

// take passes on what a fetch gave and decides how to ask next. What is packed is unpacked
// piece by piece: all partitions may have a response at the same time, and unpacked one
// may be many times as large.
func (s *stream) take(ctx context.Context, part *part) {
	s.start, s.end = part.LogStartOffset, stableEnd(part)
	s.beyond, s.earliest = false, false
	l := lend(part)
	defer l.end()
	sheet := s.fetcher.sheets.take()
	p := s.piece(sheet, part)
	s.watchTransactions(ctx, part)
	switch {
	case p.next == s.next && p.err != nil:
		s.fetcher.sheets.put(sheet)
		s.noResponse(ctx, p.err)
		return
	case p.next == s.next && s.end > s.next:
		s.fetcher.sheets.put(sheet)
		s.empty(ctx, part)
		return
	}
	s.pass(ctx, p, l.page(&s.fetcher.sheets, sheet, p.records))
	for p.more && ctx.Err() == nil {
		sheet = s.fetcher.sheets.take()
		if p = s.piece(sheet, part); p.next > s.next {
			s.pass(ctx, p, l.page(&s.fetcher.sheets, sheet, p.records))
		}
	}
}

// piece decodes what follows the position.
func (s *stream) piece(into *sheet, part *part) page {
	return decodeInto(into, s.topic, s.partition, s.next, part, nil, enough(s.fetcher.opts.PartitionBytes))
}

// pass moves the position and passes on what was before it.
func (s *stream) pass(ctx context.Context, p page, b scheduler.Batch) {
	progress := p.next > s.next
	s.next = p.next
	s.bytes = s.fetcher.opts.PartitionBytes
	s.poll = pollTail
	if s.next < s.end {
		s.poll = pollQuick
	}
	s.fetcher.metrics.records.Add(float64(len(p.records)))
	healed := s.trouble.clear()
	if !progress && !healed && time.Since(s.heard) < statusInterval {
		b.Release()
		return
	}
	s.deliver(ctx, b)
}

// empty deals with a response that has nothing although there is something: the
// response was full, or the next batch is larger than our share. A broker that is asked
// for one partition only gives at least one batch; an older one has to be allowed more.
func (s *stream) empty(ctx context.Context, part *part) {
	switch {
	case s.poll == pollTail:
		s.poll = pollQuick
	case s.poll == pollQuick:
		s.poll = pollAlone
	case s.bytes < maxBatchBytes:
		s.bytes = min(2*s.bytes, maxBatchBytes)
	default:
		s.fail(ctx, fmt.Errorf("the batch at offset %d: %w (log end %d, incomplete %t)", s.next, errUndecodable, s.end, len(part.records) > 0))
	}
}

// deliver hands a batch over and waits until it is taken. The position and bounds are
// filled in.
func (s *stream) deliver(ctx context.Context, b scheduler.Batch) {
	b.Next, b.LogStart, b.LogEnd = s.next, s.start, s.end
	b.Hanging = s.hanging.transaction(s.fetcher.opts.HangingAfter, time.Now())
	timer := time.NewTimer(settleTime)
	defer timer.Stop()
	if offer(ctx, s.out, b, timer.C) {
		s.heard = time.Now()
	}
}

// offer sends a batch, copied out of its response if it is not taken by a time.
func offer(ctx context.Context, out chan<- scheduler.Batch, b scheduler.Batch, waited <-chan time.Time) bool {
	for {
		select {
		case out <- b:
			return true
		case <-waited:
			b.Records = copyRecords(b.Records)
			b.GiveBack()
		case <-ctx.Done():
			return false
		}
	}
}
