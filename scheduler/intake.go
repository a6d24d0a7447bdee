package scheduler

import (
	"time"

	"go.uber.org/zap"

	"delay-scheduler/bucket"
	"delay-scheduler/delay"
	"delay-scheduler/offset"
)

// accept takes over a batch; takeIn works through it in slices, so that a large one
// does not delay what falls due meanwhile.
func (p *partition) accept(b Batch) {
	p.fetchState(b)
	if before := p.rebuild.need; !p.rebuild.over {
		p.rebuild.aim(p.tracker.Next(), &b, p.s.parts.Clock.Wall())
		p.s.rebuilding.Add(p.rebuild.need - before)
	}
	if p.candidate.open && b.Err == nil && !p.examine(&b) {
		return
	}
	if b.Truncated {
		p.renew(func() { p.startOver(&b) })
		return
	}
	p.batch, p.at, p.have = b, 0, true
}

func (p *partition) fetchState(b Batch) {
	switch was := p.fetched.err; {
	case b.Err != nil && was == nil:
		p.log.Warn("partition cannot be read", zap.Error(b.Err))
	case b.Err == nil && was != nil:
		p.log.Info("partition can be read again")
	}
	p.fetched.err = b.Err
	if b.Err == nil {
		p.fetched.hanging = b.Hanging
		p.fetched.logStart, p.fetched.logEnd = b.LogStart, b.LogEnd
	}
	if b.Lost > 0 {
		p.metrics.lost.Add(float64(b.Lost))
		p.log.Error("offsets are gone before they were read: retention or deletion", zap.Int64("offsets", b.Lost), zap.Int64("log_start", b.LogStart))
	}
	if b.Truncated {
		p.metrics.truncated.Inc()
		p.log.Error("the position is beyond the end of the log: truncated or restored", zap.Int64("end", b.Next), zap.Int64("position", p.tracker.Next()))
	}
}

// startOver reads the partition again after its log was cut at end. What is known of
// the offsets below stays known; offsets from there on will be given to other records,
// so nothing that is pending or in flight may be completed under its old offset.
func (p *partition) startOver(b *Batch) {
	unknown := !p.started
	p.again(p.tracker.Snapshot().Below(b.Next), min(p.tracker.Low(), b.Next))
	if unknown {
		p.holdLog(b)
	}
}

// renew has the partition read again as soon as nothing is in flight that would be sent
// a second time.
func (p *partition) renew(how func()) {
	if p.renewal == nil {
		p.renewal, p.renewBy = how, p.s.parts.Clock.Boot()+patience
		p.port.Withdraw()
	}
}

// renewed carries that out.
func (p *partition) renewed(boot time.Duration) {
	if p.renewal != nil && !p.awaits(p.renewBy, boot) {
		p.renewal()
	}
}

// awaits says whether what is in flight is awaited, until a boot time at most. What
// waits for its dead-letter topic is not: that may take any time.
func (p *partition) awaits(until, boot time.Duration) bool {
	return p.port.InFlight() > p.port.Held() && boot < until
}

// again reads the partition from an offset on, with what is known to be done. What is
// still in flight is in doubt.
func (p *partition) again(known *offset.Set, from int64) {
	p.port.Abandon()
	p.port.Drain(p.over)
	if p.stream != nil {
		p.stream.Close()
	}
	p.stalled = false
	p.endPass(p.s.parts.Clock.Boot())
	p.unsettle()
	p.account.Close()
	p.account = p.s.parts.Budget.Open()
	p.index, p.lanes, p.waiters, p.returned = bucket.New(), newLaneTable(), nil, nil
	p.ties, p.inOrder, p.unshelved = map[tie][]bucket.Entry{}, nil, 0
	p.late, p.vanished, p.recall, p.room, p.renewal = map[int64]tie{}, nil, recalling{took: p.recall.took}, newRoom(), nil
	p.tracker = p.s.newTracker(p.claim, p.source, from)
	p.tracker.Restore(known)
	p.tracker.SetHold(known.Hold)
	p.kept, p.batch, p.at, p.have = 0, Batch{}, 0, false
	p.endRebuild()
	p.rebuild = beginRebuild(p.s.parts.Clock.Boot())
	p.started, p.commits.dirty = true, true
	p.stream = p.s.parts.Log.Open(p.claim.Topic, p.claim.Partition, from)
	if p.phase == running || p.phase == lingering {
		p.port.Resume()
	}
}

// takeIn indexes the next slice of the batch. When there is no room it closes the
// stream and forgets the rest of the batch, because a batch that waits would hold a
// whole fetch response in memory; reading resumes at that offset.
func (p *partition) takeIn(wall time.Time, boot time.Duration) {
	if p.stalled {
		p.resumeReading()
		return
	}
	if !p.have {
		return
	}
	if p.at == 0 {
		p.holdStart(&p.batch, wall)
	}
	end := min(p.at+intakeChunk, len(p.batch.Records))
	if p.room.full && p.at < end {
		p.stall(p.batch.Records[p.at].Offset)
		return
	}
	for ; p.at < end; p.at++ {
		p.index1(&p.batch.Records[p.at], wall)
	}
	if p.at < len(p.batch.Records) {
		p.more = true
		return
	}
	p.endBatch(wall, boot)
}

func (p *partition) endBatch(wall time.Time, boot time.Duration) {
	b := &p.batch
	if b.Err == nil {
		p.started = true
		if b.Next > p.tracker.Next() {
			p.tracker.Advance(b.Next)
			p.commits.dirty = true
		}
		if n := len(b.Records); n > 0 && b.Next >= b.LogEnd && b.Records[n-1].AppendTime {
			p.s.watch.fresh(time.UnixMilli(b.Records[n-1].Timestamp), wall, boot)
		}
	}
	p.rebuilt(b, boot)
	b.GiveBack()
	p.batch, p.at, p.have = Batch{}, 0, false
}

func (p *partition) stall(next int64) {
	p.stream.Close()
	p.stream = nil
	p.stalled = true
	p.started = true
	p.tracker.Advance(next)
	p.batch, p.at, p.have = Batch{}, 0, false
	p.metrics.stalls.Inc()
	p.log.Warn("memory.budget is used up by the index alone: reading waits until pending records leave", zap.Int64("next", next))
}

func (p *partition) resumeReading() {
	room := min(reopenRoom, p.s.parts.Budget.Limit()/8)
	if p.account.Used() > 0 {
		if !p.indexFits() || !p.take(room, p.s.parts.Clock.Wall().UnixMilli()) {
			return
		}
		p.account.Release(room)
	}
	p.stalled, p.room.full = false, false
	p.stream = p.s.parts.Log.Open(p.claim.Topic, p.claim.Partition, p.from())
	p.log.Info("reading goes on", zap.Int64("next", p.from()))
}

// index1 takes one record in. Its payload stays in memory only if it is due before
// those that have none, and if there is room for it.
func (p *partition) index1(rec *delay.Record, wall time.Time) {
	req, ref := p.source.Judge(p.parser, rec)
	if n := len(rec.Headers); faultDropHeader && n > 0 {
		rec.Headers = rec.Headers[:n-1]
	}
	due := req.Due
	if ref != nil {
		due = rec.Timestamp
	}
	fate := p.fate(rec, due)
	if fate == offset.Kept || fate == offset.Dropped {
		return
	}
	if ref != nil && fate == offset.Free {
		// A refused record leaves at once, whatever its timestamp, in the order of the log.
		due = 0
	}
	l := p.laneFor(&req, ref, fate == offset.Released)
	fromRules := req.FromRules || (ref != nil && ref.FromRules)
	if p.tracker.Read(rec.Offset, l.key(due), l.hash, fromRules) {
		p.lanes.release(l)
		p.metrics.skipped.Inc()
		return
	}
	p.checkTimestamp(rec, wall)
	l.pending++
	l.soonest = min(l.soonest, due)
	e := bucket.Entry{Due: due, Offset: rec.Offset, Lane: l.id}
	if !p.index.Near(e.Key()) {
		p.index.Add(e)
		return
	}
	if p.spare(due) && p.index.Defer(e) {
		return
	}
	m := delay.Pack(rec, &req, ref)
	cost := bucket.Cost(len(m))
	p.room.seen(cost)
	switch {
	case p.take(cost, due):
		e.Message = m
	case p.index.Defer(e): // of all that are near it would be the farthest
		return
	default:
		p.account.Force(bucket.Cost(0))
	}
	p.index.Add(e)
}

// checkTimestamp tells of a producer's clock that is ahead. It changes nothing: due is a
// function of the record. One warning a claim, since a producer that is ahead is so in
// every record.
func (p *partition) checkTimestamp(rec *delay.Record, wall time.Time) {
	ahead := rec.Timestamp - wall.UnixMilli() // no Duration: a timestamp in microseconds would overflow it
	if rec.AppendTime || ahead <= p.s.opts.MaxSkew.Milliseconds() {
		return
	}
	p.metrics.future.Inc()
	if !p.futureTold {
		p.futureTold = true
		p.log.Warn("a producer's timestamp is ahead of this machine's clock by more than clock.max_skew, and delays count from it: "+
			"set message.timestamp.type=LogAppendTime on the topic", zap.Int64("offset", rec.Offset), zap.Int64("ahead_ms", ahead))
	}
}

func (p *partition) laneFor(req *delay.Request, ref *delay.Refusal, released bool) *lane {
	if ref != nil {
		return p.lanes.get(laneName{p.source.Rules.DeadLetter(p.claim.Topic), true, released})
	}
	return p.lanes.get(laneName{req.Target, false, released})
}
