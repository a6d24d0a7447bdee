package scheduler

import (
	"time"

	"go.uber.org/zap"

	"delay-scheduler/bucket"
)

const (
	// stuckLane is how long a target must have taken nothing before the payloads of what
	// waits for it are the first to be given up.
	stuckLane = time.Second
	// keptOfStuck is how many records such a lane keeps whole, to go on with at once, and
	// keptShare the part of the account's share that all such lanes together may keep: where
	// records are large that is none, and one is read back now and then to ask with.
	keptOfStuck = 256
	keptShare   = 8
)

// shelf is the keys of records that wait for a target, in the order in which they are to
// leave, and nothing else of them.
type shelf struct {
	parts []bucket.Queue
	n     int
}

// Len counts them.
func (s *shelf) Len() int { return s.n }

// Bytes is what they take.
func (s *shelf) Bytes() (n int64) {
	for i := range s.parts {
		n += s.parts[i].Bytes()
	}
	return n
}

// push adds one behind all others.
func (s *shelf) push(k bucket.Key) {
	if len(s.parts) == 0 {
		s.parts = make([]bucket.Queue, 1)
	}
	s.parts[len(s.parts)-1].Push(k)
	s.n++
}

// pushFront puts records before all others.
func (s *shelf) pushFront(entries []bucket.Entry) {
	parts := make([]bucket.Queue, 1, len(s.parts)+1)
	for i := range entries {
		parts[0].Push(entries[i].Key())
	}
	s.parts = append(parts, s.parts...)
	s.n += len(entries)
}

// pop takes at most n from the front.
func (s *shelf) pop(n int, dst []bucket.Key) []bucket.Key {
	n = min(n, s.n)
	s.n -= n
	for n > 0 {
		before := len(dst)
		dst = s.parts[0].Pop(n, dst)
		n -= len(dst) - before
		if s.parts[0].Len() == 0 {
			s.parts = s.parts[1:]
		}
	}
	if s.n == 0 {
		s.parts = nil
	}
	return dst
}

// shelve gives up the payloads of what waits for targets in trouble, until so many bytes
// are free.
func (p *partition) shelve(n int64) (freed int64) {
	boot := p.s.parts.Clock.Boot()
	for _, l := range p.waiters {
		if freed >= n {
			break
		}
		if l.stuck(boot) {
			freed += p.shelveLane(l)
		}
	}
	return freed
}

// shelveLane leaves a lane no more payloads than it needs to go on.
func (p *partition) shelveLane(l *lane) (freed int64) {
	again, fresh := l.beyond(keptOfStuck, p.account.Share()/keptShare/int64(len(p.waiters)))
	n, first := len(again)+len(fresh)+len(l.behind), l.shelf.Len() == len(l.behind)
	if n == 0 {
		return 0
	}
	for _, entries := range [][]bucket.Entry{again, fresh, l.behind} {
		for i := range entries {
			freed += p.letDown(&entries[i])
		}
	}
	for i := range l.behind {
		l.shelf.push(l.behind[i].Key())
	}
	l.shelf.pushFront(fresh)
	l.shelf.pushFront(again)
	l.cut(len(again), len(fresh))
	p.account.Release(freed)
	p.metrics.spilled.Add(float64(n))
	if first && l.tried == 0 { // more will follow as long as the trouble lasts
		p.log.Info("payloads given up of what waits for a target in trouble", zap.String("target", l.target), zap.Int("records", n))
	}
	return freed
}

// letDown says what is free once a record's payload is given up that waited for a lane.
func (p *partition) letDown(e *bucket.Entry) int64 {
	if e.Offset == p.room.forced {
		p.room.forced = -1
	}
	return bucket.Cost(len(e.Message))
}

// unshelve asks for the payloads of what waits for a lane, as far as it takes records
// again and there is room for them.
func (p *partition) unshelve(l *lane, boot time.Duration) {
	if l.shelf.Len() == 0 || l.waiting() > chunk/2 {
		return
	}
	n := min(int64(p.shelfMost()-len(p.late)), max(p.account.Free()/p.room.each, windowRecords))
	if l.stuckSince != 0 {
		n = min(n, p.tries(l, boot))
	}
	if n <= 0 {
		return
	}
	p.keys = l.shelf.pop(int(n), p.keys[:0])
	for _, k := range p.keys {
		p.account.Force(bucket.Cost(0))
		p.beLate(bucket.Entry{Due: k.Due, Offset: k.Offset, Lane: l.id})
	}
	p.unshelved += len(p.keys)
	if l.shelf.Len() == 0 {
		p.moveUp(l)
	}
}

// tries is how many records are read back to see whether a target that has taken nothing
// takes something by now: one now and then, if the lane has none left to see it with.
func (p *partition) tries(l *lane, boot time.Duration) int64 {
	if l.waiting() > 0 || boot-l.tried < stuckLane {
		return 0
	}
	for _, at := range p.late {
		if at.lane == l.id {
			return 0
		}
	}
	l.tried = boot
	return 1
}

// moveUp lets what waited behind a shelf that is empty take its place, up to the first
// without payload that is too much: that one is the beginning of the next shelf.
func (p *partition) moveUp(l *lane) {
	behind := l.behind
	l.behind = nil
	for i, e := range behind {
		if len(e.Message) == 0 && len(p.late)-p.unshelved >= p.lateMost() {
			p.account.Release(bucket.Cost(0))
			l.shelf.push(e.Key())
			l.behind = behind[i+1:]
			return
		}
		p.enqueue(l, e)
	}
}
