package scheduler

import (
	"errors"
	"time"

	"go.uber.org/zap"

	"delay-scheduler/offset"
)

// commitState is what a loop knows of its progress at the group.
type commitState struct {
	limit     int           // longest metadata that is sent
	dirty     bool          // something changed since the last encoding
	inFlight  bool          // one commit at a time
	wanted    bool          // a commit is planned for notBefore
	notBefore time.Duration // boot time
	fenced    bool          // the session is over

	sent     sentCommit // the last one sent
	accepted sentCommit // the last one that the broker took
	results  chan commitResult
	errors   int // in a row
	lastErr  error
	dropped  int64 // completions that did not fit into the last commit
}

// sentCommit identifies a commit; its metadata carries our nonce.
type sentCommit struct {
	offset   int64
	metadata string
	at       time.Duration // boot time of sending
	session  Session
}

func (c sentCommit) is(offset int64, metadata string) bool {
	return c.session != nil && c.offset == offset && c.metadata == metadata
}

type commitResult struct {
	commit sentCommit
	err    error
}

// unsettled says that the group may not know all that is done.
func (c *commitState) unsettled() bool { return c.dirty || c.inFlight || c.sent != c.accepted }

// maybeCommit sends a commit when something changed and the interval is over, when
// the lease needs renewing, or when a drain waits for it.
func (p *partition) maybeCommit(boot time.Duration) {
	c := &p.commits
	c.wanted = false
	if c.inFlight || c.fenced || p.session == nil || !p.mayCommit() {
		return
	}
	at := c.sent.at + p.s.opts.CommitInterval
	if p.release != nil || p.phase == lingering {
		at = boot
	}
	if !c.dirty {
		if p.release != nil && c.accepted.session == p.session {
			return
		}
		at = c.sent.at + p.s.opts.SessionTimeout/3
	}
	if c.errors > 0 {
		at = max(at, c.notBefore)
	}
	if boot < at {
		c.wanted, c.notBefore = true, at
		return
	}
	p.commit(boot)
}

// mayCommit is false while nothing is known that is worth telling: before anything
// was read without an earlier commit, a commit would only pin offset 0.
func (p *partition) mayCommit() bool {
	switch p.phase {
	case running, lingering:
	case draining:
		if p.release == nil || !p.release.drained {
			return false
		}
	case held, quiet, gone:
		return false
	}
	return p.started || p.claim.Committed >= 0 || p.candidate.open && p.candidate.from >= 0
}

func (p *partition) commit(boot time.Duration) {
	c := &p.commits
	enc := p.tracker.Encode(c.limit)
	if p.candidate.open {
		enc = offset.Encoded{Offset: p.candidate.from, Metadata: offset.Candidate}
	}
	if enc.Dropped > 0 {
		p.metrics.dropped.Add(float64(max(enc.Dropped-c.dropped, 0)))
	}
	c.dropped = enc.Dropped
	p.adapt(len(enc.Metadata), enc.Dropped)
	c.dirty, c.inFlight = false, true
	c.sent = sentCommit{offset: enc.Offset, metadata: enc.Metadata, at: boot, session: p.session}
	sent, results := c.sent, c.results
	p.session.Commit([]Commit{{
		Topic: p.claim.Topic, Partition: p.claim.Partition, Offset: sent.offset, Metadata: sent.metadata,
		// One commit is in flight at a time and the channel holds one, so this never blocks.
		Done: func(err error) { results <- commitResult{sent, err} },
	}})
}

// adapt bounds what the completed set has to list one by one: what one lane has in
// flight. Without it a burst with slow acknowledgements would outgrow the metadata,
// and what does not fit is sent again after a crash.
func (p *partition) adapt(size int, dropped int64) {
	switch {
	case dropped > 0 || size > p.commits.limit*3/4:
		p.window = max(p.window/2, windowLeast)
	case size < p.commits.limit/2:
		p.window = min(p.window*2, windowMost)
	}
}

func (p *partition) committed(r commitResult) {
	c := &p.commits
	c.inFlight = false
	if r.err == nil {
		c.accepted, c.errors, c.lastErr = r.commit, 0, nil
		if r.commit.session == p.session {
			p.setLease(r.commit.at)
		}
		return
	}
	c.dirty = true
	c.lastErr = r.err
	p.metrics.commitErrors.Inc()
	if r.commit.session != p.session {
		return // of a generation that is over; the next commit has everything
	}
	boot := p.s.parts.Clock.Boot()
	switch {
	case errors.Is(r.err, ErrFenced):
		c.fenced = true
		p.log.Info("the generation is over", zap.String("session", p.session.ID()))
		p.stopSending(boot)
	case errors.Is(r.err, ErrGone):
		c.fenced = true
		p.log.Warn("the topic was deleted: what was pending of it is given up", zap.Int("pending", p.tracker.Pending()))
		p.port.Withdraw()
		p.setPhase(gone, boot)
	case errors.Is(r.err, ErrMetadataTooLarge):
		c.limit = max(len(r.commit.metadata)/2, 64)
		p.log.Warn("the broker takes less commit metadata", zap.Int("limit", c.limit))
	default:
		if c.errors++; c.errors == 1 {
			p.log.Warn("commit is not taken, trying again", zap.Error(r.err))
		}
		c.notBefore = boot + commitRetry
	}
}

func (p *partition) setLease(from time.Duration) {
	p.lease = from + time.Duration(leaseShare*float64(min(p.s.opts.SessionTimeout, p.s.opts.RebalanceTimeout)))
	p.port.SetLease(p.lease)
}

// stopSending ends a generation's sends. A drain in progress has nothing to commit
// any more.
func (p *partition) stopSending(boot time.Duration) {
	p.port.Withdraw()
	if p.phase == running || p.phase == lingering {
		p.setPhase(quiet, boot)
	}
}
