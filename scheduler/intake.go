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
	if p.candidate.open && b.Err == nil && !p.examine(&b) {
		return
	}
	if b.Truncated {
		p.startOver(&b)
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

// again reads the partition from an offset on, with what is known to be done. What is
// still in flight is in doubt.
func (p *partition) again(known *offset.Set, from int64) {
	p.port.Abandon()
	p.port.Drain(p.over)
	if p.stream != nil {
		p.stream.Close()
	}
	p.stalled = false
	p.account.Close()
	p.account = p.s.parts.Budget.Open()
	p.index, p.lanes, p.waiters, p.returned = bucket.New(), newLaneTable(), nil, nil
	p.tracker = p.s.newTracker(p.claim, p.source, from)
	p.tracker.Restore(known)
	p.tracker.SetHold(known.Hold)
	p.kept, p.batch, p.at, p.have = 0, Batch{}, 0, false
	p.restoreBegan = p.s.parts.Clock.Boot()
	p.started, p.restoring, p.commits.dirty = true, p.tracker.Restoring(), true
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
	for ; p.at < end; p.at++ {
		if !p.index1(&p.batch.Records[p.at], wall) {
			p.stall(p.batch.Records[p.at].Offset)
			return
		}
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
	if p.restoring && !p.tracker.Restoring() {
		p.restoring = false
		took := boot - p.restoreBegan
		p.metrics.rebuild.Observe(took.Seconds())
		p.log.Info("buckets rebuilt", zap.Duration("took", took), zap.Int("pending", p.tracker.Pending()))
	}
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
	p.log.Warn("memory.budget is used up: reading waits until pending records leave", zap.Int64("next", next))
}

func (p *partition) resumeReading() {
	if p.account.Used() > 0 {
		if !p.account.Take(reopenRoom) {
			return
		}
		p.account.Release(reopenRoom)
	}
	p.stalled = false
	p.stream = p.s.parts.Log.Open(p.claim.Topic, p.claim.Partition, p.from())
	p.log.Info("reading goes on", zap.Int64("next", p.from()))
}

// index1 takes one record in; false means that there is no room for it.
func (p *partition) index1(rec *delay.Record, wall time.Time) bool {
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
		return true
	}
	if ref != nil && fate == offset.Free {
		// A refused record leaves at once, whatever its timestamp, in the order of the log.
		due = 0
	}
	l := p.laneFor(&req, ref, fate == offset.Released)
	most := bucket.Cost(packedMost(rec, ref))
	if !p.account.Take(most) {
		p.lanes.release(l)
		return false
	}
	fromRules := req.FromRules || (ref != nil && ref.FromRules)
	if p.tracker.Read(rec.Offset, l.key(due), l.hash, fromRules) {
		p.account.Release(most)
		p.lanes.release(l)
		p.metrics.skipped.Inc()
		return true
	}
	p.checkTimestamp(rec, wall)
	m := delay.Pack(rec, &req, ref)
	p.account.Release(most - bucket.Cost(len(m)))
	l.pending++
	p.index.Add(bucket.Entry{Due: due, Offset: rec.Offset, Lane: l.id, Message: m})
	return true
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

// packedMost is the most that a record can take when it is packed. It is charged
// before it is known whether the record is pending at all, since packing one that
// was done before the restart would be work for nothing.
func packedMost(rec *delay.Record, ref *delay.Refusal) int {
	n := 64 + len(rec.Key) + len(rec.Value)
	for i := range rec.Headers {
		n += 10 + len(rec.Headers[i].Key) + len(rec.Headers[i].Value)
	}
	if ref != nil {
		n += 10 + len(ref.Reason) + len(ref.Detail)
	}
	return n
}

func (p *partition) laneFor(req *delay.Request, ref *delay.Refusal, released bool) *lane {
	if ref != nil {
		return p.lanes.get(laneName{p.source.Rules.DeadLetter(p.claim.Topic), true, released})
	}
	return p.lanes.get(laneName{req.Target, false, released})
}
