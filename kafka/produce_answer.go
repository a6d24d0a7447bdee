package kafka

import (
	"fmt"
	"slices"
	"time"

	"github.com/IBM/sarama"

	"delay-scheduler/delay"
	"delay-scheduler/forward"
)

// corruptTries is how often a batch is sent whose checksum the broker says is wrong:
// more often than the wire is to blame.
const corruptTries = 3

// What an error of the library is when a request could not be made.
type (
	packetEncodingError = sarama.PacketEncodingError
	kafkaCode           = sarama.KError
)

// answered takes the end of a request: an answer or a failure.
func (l *produceLoop) answered(r *produceRequest, a produceAnswer, now time.Time) {
	c := r.conn
	if len(c.sent) > 0 && c.sent[0] == r && a.err == nil {
		l.heed(r, now.Sub(c.headSince()), now)
	}
	l.metrics.requestTime.Observe(now.Sub(r.sentAt).Seconds())
	c.forget(r)
	c.lastAnswer, c.lastUse = now, now
	if a.isTransport() {
		l.lose(c, a.err, now)
	}
	if a.resp != nil && a.resp.ThrottleTime > 0 {
		c.node.throttledUntil = now.Add(a.resp.ThrottleTime)
	}
	for i := range r.parts {
		at := &r.parts[i]
		block, err := a.of(at.batch.part)
		l.judge(at, err, block, now)
	}
	if len(c.sent) == 0 && slices.Contains(c.node.retired, c) {
		l.drop(c)
	}
}

// of is the answer for one partition.
func (a *produceAnswer) of(p *producePartition) (*sarama.ProduceResponseBlock, error) {
	if a.err != nil {
		return nil, a.err
	}
	block := a.resp.GetBlock(p.topic.name, p.index)
	switch {
	case block == nil:
		return nil, sarama.ErrIncompleteResponse
	case block.Err == sarama.ErrNoError:
		return block, nil
	case block.ErrorMessage != nil && *block.ErrorMessage != "":
		return block, fmt.Errorf("%w: %s", block.Err, *block.ErrorMessage)
	}
	return block, block.Err
}

// judge takes the answer to one attempt. Any attempt may report success; only the
// latest decides what to do about a failure.
func (l *produceLoop) judge(at *produceAttempt, err error, block *sarama.ProduceResponseBlock, now time.Time) {
	b := at.batch
	b.attempts--
	if b.settled {
		return
	}
	p := b.part
	v := classifyAnswer(err, block)
	if v.fate == fateWritten {
		b.place(block)
		l.written(p, b, now)
	} else {
		b.ambiguous = b.ambiguous || v.ambiguous
		if at.try == b.tries && b.out {
			l.failed(p, b, &produceSentence{verdict: v, err: err, block: block}, now)
		}
	}
	l.carryOut(p, now)
}

// place notes where a batch was written, as far as the answer says.
func (b *produceBatch) place(block *sarama.ProduceResponseBlock) {
	b.offset = noOffset
	if block == nil {
		return
	}
	b.offset = block.Offset
	if !block.Timestamp.IsZero() {
		b.appendedMS = block.Timestamp.UnixMilli()
	}
}

// failed takes the answer that counts. What is not the first of its window is sent again
// whatever the answer: it may have failed because of what is before it, and if not, it
// will fail again as the first.
func (l *produceLoop) failed(p *producePartition, b *produceBatch, s *produceSentence, now time.Time) {
	p.proven = false
	p.recall(b)
	if b != p.window[0] {
		if s.stale {
			l.want(p.topic, now)
		}
		l.pump(p, now)
		return
	}
	if s.class == forward.Rejected && s.fate == fateResend {
		if b.corrupt++; b.corrupt >= corruptTries {
			s.fate = fateSplit
		}
	}
	if s.fate == fateResend {
		l.resend(p, s.err, s.verdict, now)
		return
	}
	p.sentence = s
}

// written takes a batch that all in-sync replicas have, and ends it when all before it
// have ended.
func (l *produceLoop) written(p *producePartition, b *produceBatch, now time.Time) {
	b.out, b.written = false, true
	p.proven, p.provenAt = true, now
	p.trouble = produceTrouble{}
	for len(p.window) > 0 && p.window[0].written {
		p.sentence = nil // if there was one, an earlier attempt has proved it wrong
		l.settle(p.take(), nil, false)
	}
	l.pump(p, now)
}

// resend sends the first of the window again after a wait.
func (l *produceLoop) resend(p *producePartition, err error, v verdict, now time.Time) {
	p.trouble.note(err, v.class, now)
	p.trouble.retryAt = now.Add(retryAfter(p.trouble.failed))
	p.trouble.failed++
	if v.stale {
		l.want(p.topic, now)
	}
	l.pump(p, now)
}

// split divides the first of a window, which is refused for something in it, and sends the
// parts. A record that stands alone ends here. The numbers go back first: a refusal on
// these grounds comes before the append, and would have come to any earlier attempt as
// well. So what follows is in no log either, and gets other numbers.
func (l *produceLoop) split(p *producePartition, b *produceBatch, err *forward.Error, block *sarama.ProduceResponseBlock, now time.Time) {
	l.unnumber(p)
	p.take()
	p.trouble = produceTrouble{}
	l.metrics.splits.Inc()
	if len(b.records) == 1 {
		l.settle(b, err, false)
		l.pump(p, now)
		return
	}
	if err.Class == forward.TooLarge {
		// The next batches for the topic need not learn it again.
		p.topic.limit = max(min(p.topic.limit, b.bytes/2), leastLimit)
	}
	bad := badRecords(block, len(b.records))
	var parts []*produceBatch
	if len(bad) == 0 {
		half := len(b.records) / 2
		parts = append(parts, l.part(b, b.records[:half], nil), l.part(b, b.records[half:], nil))
	} else {
		parts = l.without(b, bad, err)
	}
	l.bytes -= b.bytes
	b.settled = true
	b.recycle()
	p.queue = slices.Insert(p.queue, 0, parts...)
	l.pump(p, now)
}

// badRecords are the records that the broker names as the reason, in order.
func badRecords(block *sarama.ProduceResponseBlock, n int) []int {
	if block == nil {
		return nil
	}
	var bad []int
	for _, e := range block.RecordErrors {
		if i := int(e.BatchIndex); i >= 0 && i < n {
			bad = append(bad, i)
		}
	}
	slices.Sort(bad)
	return slices.Compact(bad)
}

// without divides a batch into runs of good records and runs of refused ones. The
// refused ones keep their place, because the lane hears in order.
func (l *produceLoop) without(b *produceBatch, bad []int, err *forward.Error) []*produceBatch {
	var parts []*produceBatch
	from := 0
	for len(bad) > 0 {
		run := 1
		for run < len(bad) && bad[run] == bad[0]+run {
			run++
		}
		if bad[0] > from {
			parts = append(parts, l.part(b, b.records[from:bad[0]], nil))
		}
		from = bad[0] + run
		parts = append(parts, l.part(b, b.records[bad[0]:from], err))
		bad = bad[run:]
	}
	if from < len(b.records) {
		parts = append(parts, l.part(b, b.records[from:], nil))
	}
	return parts
}

// part makes a batch of a run of another's records.
func (l *produceLoop) part(b *produceBatch, records []delay.Outgoing, refused *forward.Error) *produceBatch {
	n := newProduceBatch(b.part, b.first)
	n.stampMS, n.refused = b.stampMS, refused
	for i := range records {
		n.add(&records[i], recordSize(&records[i]), b.floorMS)
	}
	l.bytes += n.bytes
	return n
}
