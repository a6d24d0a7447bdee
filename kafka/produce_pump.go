package kafka

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"delay-scheduler/forward"
)

// refusalLapse is how long records come back at once after a trouble if nobody asks.
// A lane hears of it within microseconds; this is for one that is held up.
const refusalLapse = time.Second

// companyBytes is when a batch has company enough to leave for an idle partition. At 10,000
// records a second none comes near it within the linger.
const companyBytes = 64 << 10

// lingerer is an open batch that waits for company. The batch may have left and been
// used again since; its first record then came at another time.
type lingerer struct {
	batch *produceBatch
	first time.Time
}

// touch notes that a partition has got records.
func (l *produceLoop) touch(p *producePartition) {
	if !p.touched {
		p.touched = true
		l.touched = append(l.touched, p)
	}
}

// pump lets the partition's next batch leave, or notes what keeps it.
func (l *produceLoop) pump(p *producePartition, now time.Time) {
	// Also if the partition is listed already: with these at its head it would find nothing
	// to send when its turn comes, and nobody would look at it again.
	l.endRefused(p)
	if p.ready {
		return
	}
	flying := p.flying() > 0
	if !flying && now.Sub(p.provenAt) > provenFor {
		p.proven = false
	}
	b := p.candidate()
	switch {
	case b == nil:
		delete(l.blocked, p)
		l.stayBehind(p)
	case b == p.open && l.waits(b, now):
		if !b.lingering {
			b.lingering = true
			l.lingering = append(l.lingering, lingerer{b, b.first})
		}
	default:
		if class, err := l.hindrance(p, b, now); err != nil {
			if !flying { // else the answer will tell
				l.block(p, err, class, now)
			}
			return
		}
		delete(l.blocked, p)
		if p.trouble.failed == 0 {
			p.trouble = produceTrouble{} // what hindered it has passed
		}
		p.readyAt = now
		p.node.enqueue(p)
	}
}

// endRefused ends the records that are refused already, in their place.
func (l *produceLoop) endRefused(p *producePartition) {
	for len(p.window) == 0 && len(p.queue) > 0 && p.queue[0].refused != nil {
		b := p.take()
		l.settle(b, b.refused, false)
	}
}

// waits says whether an open batch should wait for company. One that has plenty need not:
// so the first records of a burst leave at once, and those behind them make larger
// batches while the first are answered.
func (l *produceLoop) waits(b *produceBatch, now time.Time) bool {
	return !l.closing && b.bytes < companyBytes && now.Sub(b.first) < l.opts.Linger
}

// stayBehind notes that an open batch waits for what is under way.
func (l *produceLoop) stayBehind(p *producePartition) {
	room := len(p.queue) == 0 && len(p.window) < windowMost
	if p.behind || p.open == nil || !room || p.sentence != nil || !p.mayFollow() {
		return
	}
	p.behind = true
	l.behind = append(l.behind, p)
	if at := p.openUntil(&l.opts); len(l.behind) == 1 || at.Before(l.nextBehind) {
		l.nextBehind = at
	}
}

// openUntil is when the open batch leaves although others are under way.
func (p *producePartition) openUntil(o *ProducerOptions) time.Time {
	until := p.sentAt.Add(behindAfter)
	if t := p.open.first.Add(o.Linger); t.After(until) {
		return t
	}
	return until
}

// hurryBehind lets the open batches leave that have waited too long.
func (l *produceLoop) hurryBehind(now time.Time) {
	if len(l.behind) == 0 || now.Before(l.nextBehind) {
		return
	}
	listed := l.behind
	l.behind = nil
	for _, p := range listed {
		p.behind = false
		if p.open == nil || p.flying() == 0 {
			continue
		}
		p.overdue = !now.Before(p.openUntil(&l.opts))
		l.pump(p, now)
	}
}

// endLingering lets those leave that had no company in time.
func (l *produceLoop) endLingering(now time.Time) {
	n := 0
	for _, w := range l.lingering {
		current := w.batch.lingering && w.batch.first.Equal(w.first)
		if current && l.waits(w.batch, now) {
			break
		}
		n++
		if current {
			w.batch.lingering = false
			l.pump(w.batch.part, now)
		}
	}
	l.lingering = slices.Delete(l.lingering, 0, n)
}

// hindrance says why the batch cannot be handed to a connection.
func (l *produceLoop) hindrance(p *producePartition, b *produceBatch, now time.Time) (forward.Class, error) {
	switch {
	case p.node == nil && p.topic.absent.err != nil:
		return forward.UnknownTopic, p.topic.absent.err.Err
	case p.node == nil:
		return forward.Transient, errNoLeader
	case now.Before(p.trouble.retryAt):
		return p.trouble.class, p.trouble.err
	case !b.sequenced && p.id.generation == 0 && l.identity.generation == 0:
		return l.identityHindrance()
	}
	return 0, nil
}

// block notes that a partition has something to send and cannot.
func (l *produceLoop) block(p *producePartition, err error, class forward.Class, now time.Time) {
	l.blocked[p] = struct{}{}
	p.trouble.note(err, class, now)
	if p.node == nil {
		l.want(p.topic, now)
	}
}

// note keeps when the trouble began and what it is now.
func (t *produceTrouble) note(err error, class forward.Class, now time.Time) {
	if t.since.IsZero() {
		t.since = now
	}
	t.err, t.class = err, class
}

// retryAfter is the wait after so many failures in a row.
func retryAfter(failed int) time.Duration {
	return min(firstBackoff<<min(failed, 10), lastBackoff)
}

// scan looks after what is hindered: retries what is due, gives back what has been
// hindered for too long.
func (l *produceLoop) scan(now time.Time) {
	l.nextScan = now.Add(scanEvery)
	for p := range l.blocked {
		if !l.tired(p, now) {
			l.pump(p, now)
		}
	}
	for _, n := range l.nodes {
		l.fret(n, n.ready, n.hindered, now)
		l.fret(n, n.slowReady, n.slowHindered, now)
	}
	for t := range l.waiting {
		l.scanTopic(t, now)
	}
}

// fret gives back what has waited too long for a connection, if none can be had since
// from. What waits because there is much to send is in no trouble.
func (l *produceLoop) fret(n *produceNode, waiting []*producePartition, from, now time.Time) {
	if from.IsZero() {
		return
	}
	err := cmp.Or(n.dialErr, errNotConnected)
	for _, p := range slices.Clone(waiting) {
		if !p.ready || p.node != n || !p.busy() {
			continue
		}
		since := p.readyAt
		if from.After(since) {
			since = from
		}
		if t := p.trouble.since; !t.IsZero() && t.Before(since) {
			since = t
		}
		if p.certain() && now.Sub(since) >= l.opts.Patience {
			l.giveBack(p, wrapForward(p, forward.Transient, err), now)
		}
	}
}

// tired gives everything back that a partition holds, if it has been hindered for
// longer than our patience.
func (l *produceLoop) tired(p *producePartition, now time.Time) bool {
	if p.trouble.since.IsZero() || now.Sub(p.trouble.since) < l.opts.Patience {
		return false
	}
	if !p.certain() {
		l.doubt(p)
		return false
	}
	l.giveBack(p, wrapForward(p, p.trouble.class, p.trouble.err), now)
	return true
}

// doubt tells once that a partition waits for a definite answer.
func (l *produceLoop) doubt(p *producePartition) {
	if b := p.oldest(); b != nil && !p.trouble.told {
		p.trouble.told = true
		l.log.Warn("records may or may not have been written, and are sent until the broker says which",
			zap.String("topic", p.topic.name), zap.Int32("partition", p.index),
			zap.Int("records", len(b.records)), zap.Error(p.trouble.err))
	}
}

// certain says that a partition has something to send and that none of it can be in a
// log. What follows something that is in no log is in none either.
func (p *producePartition) certain() bool {
	b := p.oldest()
	isWritten := func(b *produceBatch) bool { return b.written }
	return b != nil && !p.unanswered() && !slices.ContainsFunc(p.window, isWritten) && (b.definite() || p.gone)
}

// giveBack returns all that a partition holds, in order, and its sequence numbers.
// Nothing may be in flight.
func (l *produceLoop) giveBack(p *producePartition, err *forward.Error, now time.Time) {
	n := 0
	l.unnumber(p)
	for b := p.take(); b != nil; b = p.take() {
		n += len(b.records)
		if b.refused != nil {
			l.settle(b, b.refused, false)
		} else {
			l.settle(b, err, false)
		}
	}
	delete(l.blocked, p)
	p.ready = false
	p.trouble = produceTrouble{}
	p.refused = produceRefusal{err: err, until: now.Add(refusalLapse)}
	if n > 0 {
		l.metrics.givenBack.Add(float64(n))
		l.log.Info("records given back", zap.String("topic", p.topic.name), zap.Int32("partition", p.index),
			zap.Int("records", n), zap.Error(err.Err))
	}
}

// wrapForward says what was being done.
func wrapForward(p *producePartition, class forward.Class, err error) *forward.Error {
	return &forward.Error{Class: class, Err: fmt.Errorf("produce to %s/%d: %w", p.topic.name, p.index, err)}
}
