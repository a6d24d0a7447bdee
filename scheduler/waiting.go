package scheduler

import (
	"cmp"
	"math"
	"slices"
	"time"

	"delay-scheduler/bucket"
	"delay-scheduler/offset"
)

// lane is one target as a partition sees it: what is due and could not leave yet.
// The records themselves are counted in pending while they are anywhere: in the
// index, waiting, or in flight.
type lane struct {
	laneName

	id       uint32
	hash     uint64 // the completed set's name for the target
	pending  int
	soonest  int64 // the least due time, in epoch ms, of what was taken in since the target was last expected
	inFlight int
	queued   bool // among the partition's waiters

	// again came back from the target and goes first; fresh is in the order in which
	// it fell due. Records of one due time are read in offset order, so appending
	// keeps them in that order.
	again []bucket.Entry
	fresh []bucket.Entry
	head  int // of fresh

	// shelf holds the keys of what waits behind all that, without payload, and behind what
	// waits behind the shelf, in its turn whole.
	shelf  shelf
	behind []bucket.Entry

	stuckSince time.Duration // boot time from which the target has taken nothing; 0: it takes
	tried      time.Duration // boot time at which one was last read back to try it again
}

// stuck says that the target has taken nothing for so long that others come first.
func (l *lane) stuck(boot time.Duration) bool {
	return l.stuckSince != 0 && boot-l.stuckSince >= stuckLane
}

// refused and welcome note what became of an offer to the target.
func (l *lane) refused(boot time.Duration) {
	if l.stuckSince == 0 {
		l.stuckSince = boot
	}
}

func (l *lane) welcome() { l.stuckSince, l.tried = 0, 0 }

func (l *lane) waiting() int { return len(l.again) + len(l.fresh) - l.head }

// laneName tells the lanes of a partition apart. A dead-letter topic may be a target as
// well, and records that a hold has released are known to the completed set by another
// name than those that were never held.
type laneName struct {
	target   string
	dead     bool // a dead-letter topic, for records refused at intake
	released bool // by the decision about a hold
}

// key is the due time under which the completed set knows a record of the lane.
func (l *lane) key(due int64) int64 {
	if l.dead && !l.released {
		return offset.Refused
	}
	return due
}

func (l *lane) push(e bucket.Entry) {
	if l.shelf.Len() > 0 {
		l.behind = append(l.behind, e)
		return
	}
	l.fresh = append(l.fresh, e)
}

// backlog counts what waits, with payload or without.
func (l *lane) backlog() int { return l.waiting() + l.shelf.Len() + len(l.behind) }

// giveBack puts records before all that wait, in the order of their dues.
func (l *lane) giveBack(entries []bucket.Entry) {
	l.again = append(l.again, entries...)
	slices.SortFunc(l.again, func(a, b bucket.Entry) int {
		return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.Offset, b.Offset))
	})
}

// next gives what is to be sent next, at most n records.
func (l *lane) next(n int) []bucket.Entry {
	if len(l.again) > 0 {
		return l.again[:min(n, len(l.again))]
	}
	return l.fresh[l.head:min(l.head+n, len(l.fresh))]
}

// took removes the first n of what next gave.
func (l *lane) took(n int) {
	if len(l.again) > 0 {
		clear(l.again[:n])
		l.again = l.again[n:]
		if len(l.again) == 0 {
			l.again = nil
		}
		return
	}
	clear(l.fresh[l.head : l.head+n])
	l.head += n
	switch {
	case l.head == len(l.fresh):
		// A burst leaves a large array behind; a small one is worth keeping.
		if cap(l.fresh) > 4096 {
			l.fresh = nil
		}
		l.fresh, l.head = l.fresh[:0], 0
	case l.head > 4096 && l.head > len(l.fresh)/2:
		l.fresh = append([]bucket.Entry(nil), l.fresh[l.head:]...)
		l.head = 0
	}
}

// beyond gives what waits behind the first n records, or behind as many of them as take no
// more than so many bytes.
func (l *lane) beyond(n int, size int64) (again, fresh []bucket.Entry) {
	fits := func(entries []bucket.Entry) (k int) {
		for k < min(n, len(entries)) {
			if size -= bucket.Cost(len(entries[k].Message)); size < 0 {
				n = k
				break
			}
			k++
		}
		n -= k
		return k
	}
	again, fresh = l.again, l.fresh[l.head:]
	again = again[fits(again):]
	return again, fresh[fits(fresh):]
}

// cut takes that many records away from the ends of what came back and of what fell due.
func (l *lane) cut(again, fresh int) {
	clear(l.again[len(l.again)-again:])
	clear(l.fresh[len(l.fresh)-fresh:])
	l.again, l.fresh, l.behind = l.again[:len(l.again)-again], l.fresh[:len(l.fresh)-fresh], nil
}

// oldest gives the least due time that waits.
func (l *lane) oldest() (int64, bool) {
	switch {
	case len(l.again) > 0:
		return l.again[0].Due, true
	case l.head < len(l.fresh):
		return l.fresh[l.head].Due, true
	}
	return 0, false
}

const (
	// expectWithin is how long before its first record is due a target is looked up.
	expectWithin = 5 * time.Second
	// expectMost is the number of targets beyond which none is.
	expectMost = 1024
)

// laneTable numbers a partition's targets. A number is reused once nothing is
// pending for its target, so a producer that invents names cannot make it grow
// beyond what is pending.
type laneTable struct {
	byName map[laneName]*lane
	byID   []*lane
	free   []uint32
	last   *lane // found last: most often the next record's as well
}

func newLaneTable() *laneTable { return &laneTable{byName: map[laneName]*lane{}} }

func (t *laneTable) get(name laneName) *lane {
	if t.last != nil && t.last.laneName == name {
		return t.last
	}
	if l, ok := t.byName[name]; ok {
		t.last = l
		return l
	}
	l := &lane{laneName: name, hash: offset.LaneOf(name.target), soonest: math.MaxInt64}
	if name.released {
		l.hash = offset.HeldLane
	}
	if n := len(t.free); n > 0 {
		l.id, t.free = t.free[n-1], t.free[:n-1]
		t.byID[l.id] = l
	} else {
		l.id = uint32(len(t.byID))
		t.byID = append(t.byID, l)
	}
	t.byName[name] = l
	return l
}

// expected calls for each target that will be needed within a time from now. With very
// many targets it does nothing: there is no use in asking for them all.
func (t *laneTable) expected(now int64, within time.Duration, call func(target string)) {
	if len(t.byID) > expectMost {
		return
	}
	for _, l := range t.byID {
		if l == nil || l.dead || l.soonest > now+within.Milliseconds() {
			continue
		}
		if l.soonest > now {
			call(l.target)
		}
		l.soonest = math.MaxInt64
	}
}

// done counts a record of the lane as over and forgets the lane with its last one.
func (t *laneTable) done(l *lane) {
	l.pending--
	t.release(l)
}

// release forgets a lane for which nothing is pending.
func (t *laneTable) release(l *lane) {
	if l.pending > 0 {
		return
	}
	if t.last == l {
		t.last = nil
	}
	delete(t.byName, l.laneName)
	t.byID[l.id] = nil
	t.free = append(t.free, l.id)
}
