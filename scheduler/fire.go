package scheduler

import (
	"time"

	"delay-scheduler/bucket"
	"delay-scheduler/delay"
)

// maySend says whether records may leave now. The lease ends well before the group
// could have given the partition to somebody else: a produce request is not fenced.
func (p *partition) maySend(clockHeld bool, boot time.Duration) bool {
	if clockHeld || boot >= p.lease || p.verdict != nil || p.renewal != nil {
		return false
	}
	switch p.phase {
	case running:
		return true
	case lingering:
		// One chunk at a time, each committed before the next: what the next owner
		// could repeat is at most one chunk.
		return p.port.InFlight() == p.port.Held() && !p.commits.inFlight && !p.commits.dirty
	}
	return false
}

// fire pops a chunk of what is due and offers every lane what waits for it. A lane
// that takes nothing is offered it again in the next turn, at the latest after
// maxTimer, so a lost signal costs a second and not the record.
func (p *partition) fire(now int64, boot time.Duration) {
	p.pop(now, boot)
	p.takeBack() // what waited behind a record that turned out to be gone
	still := p.waiters[:0]
	for _, l := range p.waiters {
		p.unshelve(l, boot)
		p.send(l, boot)
		if l.queued = l.backlog() > 0; l.queued {
			still = append(still, l)
		}
	}
	clear(p.waiters[len(still):])
	p.waiters = still
}

// pop takes a chunk of what is due out of the index. Once plenty waits for its lanes,
// more is popped only now and then: a burst that all loops popped at once would keep
// the processors from those who send its first records. It does not stop as long as there
// may be records for another lane behind the backlog of one.
func (p *partition) pop(now int64, boot time.Duration) {
	waiting := 0
	for _, l := range p.waiters {
		waiting += l.waiting()
	}
	plenty := waiting >= plentyWaits
	most := min(chunk, p.lateMost()-(len(p.late)-p.unshelved)) // all of them may have no payload
	if plenty && (boot < p.popNext || !p.starving()) || most <= 0 {
		return
	}
	p.popNext = boot + popPause
	far := p.index.Far()
	p.due = p.index.PopDue(now+faultEarly, most, p.due[:0])
	if far -= p.index.Far(); far > 0 {
		p.account.Force(int64(far) * bucket.Cost(0))
	}
	for i := range p.due {
		e := &p.due[i]
		l := p.lanes.byID[e.Lane]
		p.tracker.Due(e.Offset, l.key(e.Due), l.hash)
		p.enqueue(l, *e)
	}
	p.more = p.more || (len(p.due) == most && !plenty && p.phase == running)
	clear(p.due)
}

// enqueue lets a record that has left the index wait for its target.
func (p *partition) enqueue(l *lane, e bucket.Entry) {
	switch {
	case len(e.Message) == 0:
		p.bare(l, e)
	case len(p.ties) > 0 && p.tied(e):
	default:
		l.push(e)
		p.queue(l)
	}
}

// queue lists a lane among those for which records wait.
func (p *partition) queue(l *lane) {
	if !l.queued {
		l.queued = true
		p.waiters = append(p.waiters, l)
	}
}

func (p *partition) send(l *lane, boot time.Duration) {
	most := chunk
	if p.phase == lingering {
		most = lingerChunk
	}
	window := p.window + p.port.Held()
	for l.waiting() > 0 && l.inFlight < window {
		batch := l.next(min(most, window-l.inFlight))
		var n int
		if l.dead {
			n = p.port.SendDeadLetters(batch)
		} else {
			n = p.port.Send(l.target, batch)
		}
		whole := n == len(batch)
		l.inFlight += n
		if faultCommit {
			for _, e := range batch[:n] {
				p.tracker.Complete(e.Offset, l.key(e.Due), l.hash)
			}
		}
		if n > 0 {
			l.took(n)
			l.welcome()
		} else {
			l.refused(boot)
		}
		if !whole || p.phase == lingering {
			return
		}
	}
}

// over takes the end of one record that was handed over.
func (p *partition) over(e bucket.Entry, o delay.Outcome) {
	l := p.lanes.byID[e.Lane]
	l.inFlight--
	switch o {
	case delay.Returned:
		p.returned = append(p.returned, e)
		return
	case delay.InDoubt:
		p.metrics.inDoubt.Inc()
		return
	case delay.Sent, delay.DeadLettered:
	}
	p.tracker.Complete(e.Offset, l.key(e.Due), l.hash)
	p.account.Release(bucket.Cost(len(e.Message)))
	if e.Offset == p.room.forced {
		p.room.forced = -1
	}
	p.lanes.done(l)
	p.commits.dirty = true
}

// takeBack puts what came back in front of what waits.
func (p *partition) takeBack() {
	if len(p.returned) == 0 {
		return
	}
	groups := map[uint32][]bucket.Entry{}
	for _, e := range p.returned {
		groups[e.Lane] = append(groups[e.Lane], e)
	}
	for id, entries := range groups {
		l := p.lanes.byID[id]
		l.giveBack(entries)
		p.queue(l)
	}
	clear(p.returned)
	p.returned = p.returned[:0]
}
