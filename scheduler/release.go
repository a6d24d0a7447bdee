package scheduler

import (
	"time"

	"go.uber.org/zap"
)

// step carries on what a rebalance or a stop asked for.
func (p *partition) step(boot time.Duration) {
	if p.phase == held && p.mayLinger() && boot >= p.since+lingerAfter {
		// The group takes its time, which for an eager group of dynamic members may
		// be a whole session timeout after a crash. Until the broker refuses our
		// commits nobody else owns the partition.
		p.port.Resume()
		p.setPhase(lingering, boot)
		p.log.Info("the group has not re-formed yet: working on under the old generation", zap.String("session", p.session.ID()))
	}
	r := p.release
	if r == nil {
		return
	}
	if !r.drained && (p.port.InFlight() == 0 || r.hurry) {
		r.drained = true
		if n := p.port.InFlight(); n > 0 {
			p.log.Warn("sends are still unanswered", zap.Int("records", n))
		}
	}
	c := &p.commits
	settled := r.drained && !c.inFlight && (c.fenced || p.session == nil || !p.mayCommit() || (!c.dirty && c.accepted.session == p.session))
	if settled || (r.hurry && boot >= r.giveUp) {
		p.endRelease(boot)
	}
}

func (p *partition) endRelease(boot time.Duration) {
	r := p.release
	p.release = nil
	if p.phase == draining {
		p.setPhase(held, boot)
		if !r.hold || p.commits.fenced {
			p.setPhase(quiet, boot)
		}
	}
	close(r.done)
}

func (p *partition) mayLinger() bool {
	return p.session != nil && !p.commits.fenced && !p.commits.inFlight
}

// drain begins an order. A second one (a stop during a rebalance) replaces the
// first, whose waiter is let go.
func (p *partition) drain(o *order) {
	if p.release != nil {
		close(p.release.done)
	}
	p.port.Withdraw()
	p.release = o
	if !o.hold {
		p.stopReading()
	}
	if p.phase == running || p.phase == lingering || p.phase == held {
		p.setPhase(draining, p.s.parts.Clock.Boot())
	}
}

// hasten ends the wait for what is in flight, and bounds that for the commit.
func (p *partition) hasten() {
	if r := p.release; r != nil && !r.hurry {
		r.hurry, r.giveUp = true, p.s.parts.Clock.Boot()+patience
	}
}

// stopReading is the first step of a stop: what would be read now could not leave.
func (p *partition) stopReading() {
	p.stalled = false
	p.batch, p.at, p.have = Batch{}, 0, false
	if p.stream != nil {
		p.stream.Close()
		p.stream = nil
	}
}

// quiesce ends everything under the old generation; what is in flight may still be
// acknowledged and is then known to be done.
func (p *partition) quiesce() {
	p.port.Withdraw()
	if p.release != nil {
		close(p.release.done)
		p.release = nil
	}
	if p.phase != gone {
		p.setPhase(quiet, p.s.parts.Clock.Boot())
	}
}

// adopt goes on with the state at hand under a new generation, if the group still
// holds exactly our last commit: nobody else has worked on the partition since.
func (p *partition) adopt(s Session, c Claim) bool {
	mine := p.commits.accepted.is(c.Committed, c.Metadata) || p.commits.sent.is(c.Committed, c.Metadata)
	never := p.commits.accepted.session == nil && c.Committed == p.claim.Committed && c.Metadata == p.claim.Metadata
	if p.phase == gone || c.TopicID != p.claim.TopicID || !(mine || never) {
		return false
	}
	p.begun(s)
	p.log.Info("partition kept", zap.Int("pending", p.tracker.Pending()))
	return true
}

// begun starts a generation. Its lease counts from here: the group has just told us
// that the partition is ours.
func (p *partition) begun(s Session) {
	boot := p.s.parts.Clock.Boot()
	p.session = s
	p.commits.fenced, p.commits.errors = false, 0
	p.commits.dirty = true
	p.setPhase(running, boot)
	p.setLease(boot)
	p.port.Resume()
}

// patience bounds the wait for the last commit after a drain.
const patience = 3 * time.Second
