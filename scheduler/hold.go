package scheduler

import (
	"time"

	"go.uber.org/zap"

	"delay-scheduler/delay"
	"delay-scheduler/offset"
)

// holdStart holds what a group that has no commit finds overdue in a log older than
// commits are kept: it may be a group that lost its commits, and then all of that was
// sent long ago (design.md section 4, start positions).
func (p *partition) holdStart(b *Batch, wall time.Time) {
	if p.started || p.claim.Committed >= 0 || p.claim.KeptFor <= 0 || len(b.Records) == 0 || p.tracker.Hold() != nil {
		return
	}
	first := &b.Records[0]
	age := wall.Sub(time.UnixMilli(first.Timestamp))
	if age <= p.claim.KeptFor {
		return
	}
	p.tracker.SetHold(&offset.Hold{From: first.Offset, Below: b.LogEnd, Due: wall.UnixMilli()})
	p.commits.dirty = true
	p.log.Error("no commit, and records older than commits are kept: what is overdue is held until somebody decides (scheduler offsets accept)",
		zap.Duration("oldest", age), zap.Duration("commits_kept_for", p.claim.KeptFor), zap.Int64("below", b.LogEnd))
}

// holdLog holds all that there is of a log that ends before the committed offset. It
// may be what was sent already, or an older copy with other records.
func (p *partition) holdLog(b *Batch) {
	if b.LogStart >= b.Next {
		return
	}
	p.tracker.SetHold(&offset.Hold{From: b.LogStart, Below: b.Next, Due: offset.Everything})
	p.log.Error("the log ends before the committed offset: what it has is held until somebody decides (scheduler offsets accept)",
		zap.Int64("committed", p.claim.Committed), zap.Int64("from", b.LogStart), zap.Int64("below", b.Next))
}

// fate judges a record by the hold. A refused one is judged by its timestamp: it has no
// due time.
func (p *partition) fate(rec *delay.Record, due int64) offset.Fate {
	f := p.tracker.Hold().Fate(rec.Offset, due)
	switch f {
	case offset.Kept:
		p.tracker.Keep(rec.Offset)
		p.kept++
	case offset.Dropped:
		p.tracker.Advance(rec.Offset + 1)
		p.commits.dirty = true
	case offset.Free, offset.Released:
	}
	return f
}

// Decide carries out what somebody decided about the held records of a partition. False:
// there is no such hold, or it cannot be carried out at the moment.
func (s *Scheduler) Decide(topic string, number int32, d offset.Decision) bool {
	p := s.loop(place{topic, number})
	return p != nil && s.ask(p, func(p *partition) bool { return p.decide(d) })
}

func (p *partition) decide(d offset.Decision) bool {
	h := p.tracker.Hold()
	if !d.About(h) || p.phase != running || p.verdict != nil {
		return false
	}
	p.log.Info("it was decided what becomes of the held records", zap.Int64("held", p.kept), zap.Int64("below", d.Below), zap.Int64("since_ms", d.Since))
	p.verdict, p.verdictBy = h.Decide(d.Since), p.s.parts.Clock.Boot()+patience
	p.port.Withdraw()
	return true
}

// carryOut reads the partition again under a decided hold, once nothing is in flight
// that would be sent a second time.
func (p *partition) carryOut(boot time.Duration) {
	h := p.verdict
	switch {
	case h == nil:
		return
	case p.phase != running:
		p.verdict = nil // it is asked for again
		return
	case p.awaits(p.verdictBy, boot):
		return
	}
	known, from := p.tracker.Snapshot(), p.tracker.Low()
	if h.Due == offset.Everything {
		from = min(from, h.From)
	}
	known.Hold, p.verdict = h, nil
	p.again(known, from)
}
