package scheduler

import (
	"cmp"
	"slices"
	"time"

	"go.uber.org/zap"

	"delay-scheduler/bucket"
	"delay-scheduler/delay"
)

const (
	// lateMost bounds how many records of a partition may be due and wait for their
	// payloads, and lateShare what they may take of the budget. Beyond it nothing more is
	// popped. What is late leaves in the order of the log, and so has to be told one by
	// one in a commit, whose metadata has room for two or three thousand.
	lateMost  = 2048
	lateLeast = 256
	// shelfMost is how many more may be asked for that wait on a lane's shelf. They leave
	// in the order of their dues (letGo), so a commit need not tell of each.
	shelfMost = 16384
	lateShare = 64
	// lateBytesEach is what such a record takes in the table.
	lateBytesEach = 96
)

// losses counts the records that were pending and are not in the log any more.
type losses struct {
	records int64
	last    time.Duration // boot time
	told    bool
}

// lateMost is how many records may be late at one time.
func (p *partition) lateMost() int {
	return min(p.shelfMost(), lateMost)
}

// shelfMost is how many may be late at one time because they wait on shelves.
func (p *partition) shelfMost() int {
	each := bucket.Cost(0) + lateBytesEach
	return int(min(max(p.s.parts.Budget.Limit()/lateShare/each, lateLeast), shelfMost))
}

// lateBytes is what the records without payload take beside the index.
func (p *partition) lateBytes() int64 {
	n := int64(len(p.late)) * lateBytesEach
	for _, l := range p.waiters {
		n += l.shelf.Bytes()
	}
	return n
}

// bare takes a record out of the index that has no payload. It waits by itself, so that
// its neighbours leave on time; behind many others for its target, or if that takes
// nothing, its payload is not even asked for.
func (p *partition) bare(l *lane, e bucket.Entry) {
	_, vanished := p.vanished[e.Offset]
	switch {
	case vanished || e.Offset < p.fetched.logStart:
		delete(p.vanished, e.Offset)
		p.gone(tie{e.Due, e.Lane}, e.Offset)
	case len(l.behind) > 0:
		l.behind = append(l.behind, e)
	case l.shelf.Len() > 0 || p.mustShelve(l):
		p.account.Release(bucket.Cost(0))
		l.shelf.push(e.Key())
		p.queue(l)
	default:
		p.beLate(e)
	}
}

// mustShelve says that a lane's record without payload is not worth reading back yet:
// the target takes nothing, or so little that others would wait for what is read for it.
// A backlog that is everybody's is no reason: to catch up, payloads have to be there.
func (p *partition) mustShelve(l *lane) bool {
	return l.stuck(time.Duration(p.turned.Load())) ||
		(l.stuckSince != 0 || l.waiting() > chunk) && p.starving()
}

// starving says that some lane has nothing that waits, and so may have something in the
// index behind what is due of the others.
func (p *partition) starving() bool { return len(p.waiters) < len(p.lanes.byName) }

// beLate lets a record wait for its payload.
func (p *partition) beLate(e bucket.Entry) {
	at := tie{e.Due, e.Lane}
	p.late[e.Offset] = at
	p.ties[at] = append(p.ties[at], e)
}

// tie is what must not overtake each other: records for one target that are due at the
// same millisecond keep the order of their offsets.
type tie struct {
	due  int64
	lane uint32
}

// tied makes a record wait behind one that is due with it and has no payload yet.
func (p *partition) tied(e bucket.Entry) bool {
	at := tie{e.Due, e.Lane}
	waiting, ok := p.ties[at]
	if ok {
		p.ties[at] = append(waiting, e)
	}
	return ok
}

// heads says that a late record is the one that the others of its tie wait for.
func (p *partition) heads(at tie, offset int64) bool {
	waiting := p.ties[at]
	return len(waiting) > 0 && waiting[0].Offset == offset
}

// untie ends the wait of a late record, with its payload or, if that is nil, without one.
// Those behind it go along as far as they can.
func (p *partition) untie(at tie, offset int64, m delay.Message) {
	delete(p.late, offset)
	waiting := p.ties[at]
	i := slices.IndexFunc(waiting, func(e bucket.Entry) bool { return e.Offset == offset })
	if i < 0 {
		return
	}
	if m == nil {
		waiting = slices.Delete(waiting, i, i+1)
	} else {
		waiting[i].Message = m
	}
	n := 0
	for n < len(waiting) && waiting[n].Message != nil {
		n++
	}
	if p.unshelved > 0 {
		p.inOrder = append(p.inOrder, waiting[:n]...)
	} else {
		p.returned = append(p.returned, waiting[:n]...)
	}
	if waiting = waiting[n:]; len(waiting) == 0 {
		delete(p.ties, at)
		return
	}
	p.ties[at] = waiting
}

// letGo lets what came back in the order of the log leave in that of its dues.
func (p *partition) letGo() {
	p.returned = append(p.returned, p.inOrder...)
	p.inOrder, p.unshelved = nil, min(p.unshelved, len(p.late))
}

// lateWanted lists what is late, by offset.
func (p *partition) lateWanted(dst []bucket.Wanted) []bucket.Wanted {
	for offset, r := range p.late {
		dst = append(dst, bucket.Wanted{Due: r.due, Offset: offset, Lane: r.lane})
	}
	slices.SortFunc(dst, func(a, b bucket.Wanted) int { return cmp.Compare(a.Offset, b.Offset) })
	return dst
}

// oldestLate is the least due time of what is late.
func (p *partition) oldestLate() (due int64, ok bool) {
	for _, r := range p.late {
		if !ok || r.due < due {
			due, ok = r.due, true
		}
	}
	return due, ok
}

// gone ends a record whose log does not hold it any more. Nothing can be sent for it, and
// waiting would only pin the watermark.
func (p *partition) gone(r tie, offset int64) {
	l := p.lanes.byID[r.lane]
	p.tracker.Complete(offset, l.key(r.due), l.hash)
	p.account.Release(bucket.Cost(0))
	p.lanes.done(l)
	p.commits.dirty = true
	p.untie(r, offset, nil)
	p.metrics.gone.Inc()
	p.lost.records++
	p.lost.last = p.s.parts.Clock.Boot()
	if !p.lost.told {
		p.lost.told = true
		p.log.Error("a pending record is not in its log any more: retention or deletion; it cannot be sent",
			zap.Int64("offset", offset), zap.Int64("due_ms", r.due), zap.String("target", l.target))
	}
}
