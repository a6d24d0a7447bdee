package scheduler

import (
	"time"

	"go.uber.org/zap"

	"delay-scheduler/bucket"
	"delay-scheduler/delay"
)

// recalling is the reading back of payloads, one pass over the log at a time. It belongs
// to the partition's goroutine.
type recalling struct {
	stream   Stream          // nil: no pass
	wanted   []bucket.Wanted // by offset
	at       int             // the first of wanted that no batch has passed
	batch    Batch           // what is being worked through
	record   int             // position within batch.Records
	have     bool
	blocked  bool  // there is no room for the next payload
	reserved int64 // bytes taken for payloads that are not back yet
	window   bool  // the pass is for a window, not for late records alone

	// doubtful were passed by a batch that began before them and held none of them.
	// They are asked for again, alone.
	doubtful []bucket.Wanted
	alone    map[int64]struct{}

	began, took time.Duration // of the pass, by the boot clock; of the last one
	passAt      time.Duration // no pass before
	err         error

	read, returned int64 // records, for the amplification
}

// recalled is the channel of a pass when another batch can be worked through.
func (p *partition) recalled() <-chan Batch {
	if p.recall.stream == nil || p.recall.have {
		return nil
	}
	return p.recall.stream.Batches()
}

// acceptRecalled takes over a batch of the pass; more is false after the last.
func (p *partition) acceptRecalled(b Batch, more bool) {
	r := &p.recall
	if !more {
		p.endPass(p.s.parts.Clock.Boot())
		return
	}
	switch {
	case b.Err != nil && r.err == nil:
		p.log.Warn("payloads cannot be read back", zap.Error(b.Err))
	case b.Err == nil && r.err != nil:
		p.log.Info("payloads can be read back again")
	}
	r.err = b.Err
	if b.Err != nil {
		return
	}
	p.fetched.logStart = max(p.fetched.logStart, b.LogStart)
	r.batch, r.record, r.have = b, 0, true
	r.read += int64(b.Passed)
}

// takeRecalled gives the records of a batch to those that wait for them. Both are in
// offset order.
func (p *partition) takeRecalled(now int64) {
	r := &p.recall
	r.blocked = false
	for n := 0; r.have && n < intakeChunk; n++ {
		if r.at == len(r.wanted) || r.wanted[r.at].Offset >= r.batch.Next {
			p.passOver(r.batch.Next, now)
			if !r.blocked {
				r.batch, r.have = Batch{}, false
			}
			return
		}
		w := r.wanted[r.at]
		if p.passOver(w.Offset, now); r.blocked {
			return
		}
		if r.record < len(r.batch.Records) && r.batch.Records[r.record].Offset == w.Offset {
			if !p.payload(w, &r.batch.Records[r.record], now) {
				r.blocked = true
				return
			}
			r.record++
		} else {
			p.missing(w)
		}
		r.at++
	}
	p.more = p.more || r.have
}

// passOver skips the records below an offset. Those among them that have become late
// since the pass began are taken on the way.
func (p *partition) passOver(offset, now int64) {
	r := &p.recall
	for ; r.record < len(r.batch.Records); r.record++ {
		rec := &r.batch.Records[r.record]
		if rec.Offset >= offset {
			return
		}
		if len(p.late) == 0 {
			continue
		}
		if l, ok := p.late[rec.Offset]; ok && !p.payload(bucket.Wanted{Due: l.due, Offset: rec.Offset, Lane: l.lane}, rec, now) {
			r.blocked = true
			return
		}
	}
}

// payload gives a record its payload back; false means that there is no room for it yet.
func (p *partition) payload(w bucket.Wanted, rec *delay.Record, now int64) bool {
	was, isLate := p.late[w.Offset]
	if isLate {
		w.Due, w.Lane = was.due, was.lane
	}
	req, ref := p.source.Judge(p.parser, rec)
	if !p.agrees(w, rec, &req, ref) {
		p.mistaken(w)
		return true
	}
	m := delay.Pack(rec, &req, ref)
	cost := bucket.Cost(len(m))
	p.room.seen(cost)
	if !p.payloadRoom(cost-bucket.Cost(0), w, isLate) {
		p.letGo() // It makes room as it leaves.
		// What is not due soon waits for room, but not those behind it that are late; and
		// of those none that could not leave before another one anyhow.
		if isLate {
			return !p.heads(tie{w.Due, w.Lane}, w.Offset)
		}
		return w.Due-now < time.Second.Milliseconds() || len(p.late) > 0
	}
	p.recall.returned++
	p.metrics.recalled.Inc()
	if isLate {
		p.untie(tie{w.Due, w.Lane}, w.Offset, m)
	} else if !p.index.Fill(w, m) {
		p.account.Release(cost - bucket.Cost(0))
	}
	return true
}

// payloadRoom finds room for a payload that is back. One that is late and finds none may
// exceed the limit, alone: a record that is larger than its share has to leave as well.
func (p *partition) payloadRoom(n int64, w bucket.Wanted, isLate bool) bool {
	if r := &p.recall; r.reserved >= n {
		r.reserved -= n
		return true
	}
	if p.lanes.byID[w.Lane].stuck(p.s.parts.Clock.Boot()) {
		// Nobody makes way for it but its like.
		p.shelve(n)
		if p.account.Take(n) {
			return true
		}
	} else if p.take(n, w.Due) {
		return true
	}
	if !isLate || p.room.forced >= 0 || !p.heads(tie{w.Due, w.Lane}, w.Offset) {
		return false
	}
	p.room.forced = w.Offset
	p.account.Force(n)
	return true
}

// agrees says whether a record that was read back is the one that the index means.
func (p *partition) agrees(w bucket.Wanted, rec *delay.Record, req *delay.Request, ref *delay.Refusal) bool {
	l := p.lanes.byID[w.Lane]
	if l == nil || l.dead != (ref != nil) {
		return false
	}
	if ref != nil {
		return w.Due == 0 || w.Due == rec.Timestamp
	}
	return l.target == req.Target && w.Due == req.Due
}

// mistaken deals with another record under a pending offset: the log was cut and has
// grown again. What the index says of it is worth nothing, so it is built anew.
func (p *partition) mistaken(w bucket.Wanted) {
	if p.renewal != nil {
		return // one says it all
	}
	p.log.Error("another record is where a pending one was read: the log was cut and has grown again; it is read anew",
		zap.Int64("offset", w.Offset), zap.Int64("due_ms", w.Due))
	p.metrics.truncated.Inc()
	p.renew(func() { p.again(p.tracker.Snapshot(), p.tracker.Low()) })
}

// missing deals with an offset that a batch has passed without a record for it.
func (p *partition) missing(w bucket.Wanted) {
	r := &p.recall
	_, isLate := p.late[w.Offset]
	switch {
	case w.Offset >= r.batch.LogStart && w.Offset != r.batch.From:
		if r.alone == nil {
			r.alone = map[int64]struct{}{}
		}
		r.alone[w.Offset] = struct{}{}
		r.doubtful = append(r.doubtful, w)
	case isLate:
		p.gone(p.late[w.Offset], w.Offset)
	default:
		// It is counted when it is due.
		if p.vanished == nil {
			p.vanished = map[int64]struct{}{}
		}
		if w.Offset >= r.batch.LogStart {
			p.vanished[w.Offset] = struct{}{}
		}
	}
}

// free gives back what is reserved and was not needed.
func (r *recalling) free(a *bucket.Account) {
	a.Release(r.reserved)
	r.reserved = 0
}

// endPass ends a pass, whole or not. What it has not come to falls due without payload,
// or is drawn again.
func (p *partition) endPass(boot time.Duration) {
	r := &p.recall
	if r.stream == nil {
		return
	}
	r.stream.Close()
	r.free(p.account)
	p.letGo()
	r.passAt = boot + passPause
	if r.window && r.at == len(r.wanted) {
		// Windows differ, and one that is begun too late costs more than one too early.
		r.took = max(boot-r.began, r.took/2)
	}
	if r.at < len(r.wanted) || len(r.doubtful) > 0 {
		r.doubtful = append(r.doubtful, r.wanted[r.at:]...)
	}
	if len(r.doubtful) == 0 {
		r.alone = nil
	}
	if cap(r.wanted) > 4*chunk {
		r.wanted = nil
	}
	r.stream, r.batch, r.have, r.blocked, r.window, r.err = nil, Batch{}, false, false, false, nil
	r.wanted, r.at = r.wanted[:0], 0
}
