package kafka

import (
	"slices"
	"time"

	"github.com/IBM/sarama"
)

// Up to five batches of a partition are numbered and not over at a time: its window. A
// broker takes them only in the order of their numbers, and that is what keeps the order
// of the records:
//
//   - When a batch fails, all that follow it come back as well. They keep their numbers
//     and leave again in order. That the broker then refuses the followers as out of
//     order is a consequence and no loss of its memory; only the first of the window can
//     tell that the broker does not know us.
//   - Only the first of the window decides anything but to send again, and nothing is
//     decided before everything else of the window is answered: see carryOut.
//   - A batch that is written while one before it is in doubt stays in the window. The
//     lane hears in order, and the broker knows the numbers of the last five batches
//     only, so a sixth would make it forget the one in doubt.
//   - A broker that knows nothing of us takes any first number. It would take the second
//     batch for the first if the first failed, so the first travels alone until the
//     partition is proven: after a change of identity, of leader or of log, after a
//     failure, and after a pause.
//
// A transactional producer needs the same window. What differs is what the first of it
// leads to: instead of resequence, and of unnumber with a batch in doubt, the transaction
// is aborted, all of the window is given back, and the numbers go on under the epoch that
// the coordinator gives after the abort. That belongs into carryOut; the partition's
// enlistment in the transaction belongs where pump asks for a hindrance, and which
// batches belong to it where include gives the number.

const (
	// windowMost is how many batches of a producer a broker knows again for a partition.
	windowMost = 5
	// behindAfter is when an open batch does not wait any longer for the answer to the one
	// before it. Shorter makes many small batches on a busy broker, which works on one at
	// a time anyway; longer adds the way there and back on a long line once more.
	behindAfter = 25 * time.Millisecond
	// provenFor is for how long a broker is sure to know us without hearing from us. It
	// forgets an idle producer after a day, but may be told to do so sooner.
	provenFor = time.Minute
)

// produceSentence is what becomes of the first of a window, and with it of all that
// follow, as soon as nothing of the window is unanswered.
type produceSentence struct {
	verdict
	err   error
	block *sarama.ProduceResponseBlock
}

// flying counts the batches whose latest attempt is under way.
func (p *producePartition) flying() int {
	n := 0
	for _, b := range p.window {
		if b.out {
			n++
		}
	}
	return n
}

// unanswered says whether any attempt is under way, also one that does not count.
func (p *producePartition) unanswered() bool {
	return slices.ContainsFunc(p.window, func(b *produceBatch) bool { return b.attempts > 0 })
}

// busy says whether the partition has anything.
func (p *producePartition) busy() bool { return p.oldest() != nil }

// oldest is the first batch that is not over, nil if there is none.
func (p *producePartition) oldest() *produceBatch {
	switch {
	case len(p.window) > 0:
		return p.window[0]
	case len(p.queue) > 0:
		return p.queue[0]
	}
	return p.open
}

// candidate is the batch to be sent next; nil if there is none or it is not its time.
func (p *producePartition) candidate() *produceBatch {
	flying := p.flying()
	if p.sentence != nil || flying > 0 && !p.mayFollow() {
		return nil
	}
	for _, b := range p.window {
		if !b.out && !b.written {
			return b
		}
	}
	switch {
	case len(p.window) == windowMost:
	case len(p.queue) > 0:
		if p.queue[0].refused == nil {
			return p.queue[0]
		}
	case flying == 0 || p.overdue:
		// A batch that is not full had better wait for the answer and grow meanwhile.
		return p.open
	}
	return nil
}

// mayFollow says whether a batch may leave while others are under way: behind them on
// the same connection, and none if each request might have to wait for the one before.
func (p *producePartition) mayFollow() bool {
	return p.proven && p.node != nil && p.via == p.node.fast && !p.node.isolated(p)
}

// recall brings a batch back, and all that follow it. What is under way may still succeed.
func (p *producePartition) recall(b *produceBatch) {
	for _, f := range p.window[max(slices.Index(p.window, b), 0):] {
		f.out = false
	}
}

// recallAll brings everything back.
func (p *producePartition) recallAll() {
	if len(p.window) > 0 {
		p.recall(p.window[0])
	}
}

// advance numbers a candidate, unless it has its number, and puts it under way.
func (p *producePartition) advance(b *produceBatch, current produceIdentity) {
	if b == p.open {
		p.cut()
	}
	if !b.sequenced {
		p.queue = slices.Delete(p.queue, 0, 1)
		p.window = append(p.window, b)
		p.sequence(b, current)
	}
	b.out, b.lingering = true, false
	b.attempts++
	b.tries++
}

// sequence gives a batch its place in the partition's numbering, once.
func (p *producePartition) sequence(b *produceBatch, current produceIdentity) {
	if b.sequenced {
		return
	}
	if p.id.generation == 0 {
		p.id = current
	}
	b.id, b.seq, b.sequenced = p.id, p.next, true
	p.next = nextSequence(p.next, len(b.records))
}

// nextSequence counts records; after 2^31-1 comes 0.
func nextSequence(first int32, n int) int32 {
	return int32((int64(first) + int64(n)) & 0x7fffffff)
}

// empty moves all of the window to the front of the queue, without numbers. What is
// written ends here: the broker cannot have taken it without what is before it, unless it
// has lost that since, and then there is no order left to keep.
func (l *produceLoop) empty(p *producePartition) {
	back := make([]*produceBatch, 0, len(p.window))
	for _, b := range p.window {
		if b.written {
			l.settle(b, nil, false)
			continue
		}
		b.sequenced = false
		back = append(back, b)
	}
	clear(p.window)
	p.window, p.sentence = p.window[:0], nil
	p.queue = slices.Insert(p.queue, 0, back...)
}

// unnumber takes back the numbers of the whole window, of which nothing may be
// unanswered and the first is certainly in no log. So the others are in no log either.
// But a request for one of them that was lost may still be waiting in the broker, which
// would take it for the next as soon as the numbers came that far again. Another producer
// id keeps it out: under the old one nothing will ever lead up to it. (The next epoch
// would do as well, but there are brokers that count epochs for all partitions at once.)
func (l *produceLoop) unnumber(p *producePartition) {
	if len(p.window) == 0 {
		return
	}
	p.next = p.window[0].seq
	doubtful := false
	for _, b := range p.window {
		doubtful = doubtful || b.ambiguous || b.written
		b.ambiguous = false
	}
	l.empty(p)
	if doubtful {
		l.reidentify(p, false)
	}
}

// carryOut does what the first of a window has been sentenced to, once nothing of the
// window is unanswered: until then what follows may not get other numbers.
func (l *produceLoop) carryOut(p *producePartition, now time.Time) {
	s := p.sentence
	if s == nil || p.unanswered() {
		return
	}
	p.sentence = nil
	switch b := p.window[0]; {
	case s.fate == fateSplit:
		l.split(p, b, wrapForward(p, s.class, s.err), s.block, now)
	case s.fate == fateRefused && p.certain():
		l.giveBack(p, wrapForward(p, s.class, s.err), now)
	default:
		if s.fate == fateResequence {
			l.resequence(p, s.err)
		}
		l.resend(p, s.err, s.verdict, now)
	}
}

// take removes the oldest batch, nil if there is none.
func (p *producePartition) take() *produceBatch {
	if len(p.window)+len(p.queue) == 0 {
		p.cut()
	}
	list := &p.window
	if len(p.window) == 0 {
		list = &p.queue
	}
	if len(*list) == 0 {
		return nil
	}
	b := (*list)[0]
	*list = slices.Delete(*list, 0, 1)
	return b
}
