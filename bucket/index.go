package bucket

import (
	"maps"
	"slices"
)

// shrinkFrom is the number of seconds from which the map is made anew when three
// quarters of them are gone.
const shrinkFrom = 1024

// Index holds the pending records of one partition. It is not for concurrent use.
type Index struct {
	seconds map[int64]*second
	queue   ends           // the keys of seconds
	runs    map[int64]*run // the seconds that have been put in order; hardly ever more than one
	n       int            // near records
	peak    int            // the most seconds there have been in the map
	size    int64          // bytes of the seconds and their blocks
	far     far

	// The second that was added to last: records with one delay come in a row.
	last       *second
	lastNumber int64
}

// New makes an empty index.
func New() *Index {
	x := &Index{far: far{splitFrom: splitFrom}}
	x.Clear()
	return x
}

// Clear drops everything.
func (x *Index) Clear() {
	*x = Index{seconds: make(map[int64]*second), runs: make(map[int64]*run), far: x.far}
	x.far.clear()
}

// Len counts the records of both tiers.
func (x *Index) Len() int { return x.n + x.far.n }

// Far counts the records of the far tier.
func (x *Index) Far() int { return x.far.n }

// Edge is where the far tier begins: its first key, and Endless while there is
// nothing in it.
func (x *Index) Edge() Key { return x.far.edge }

// Near says whether a record with that key belongs to the near tier.
func (x *Index) Near(k Key) bool { return x.far.n == 0 || k.Less(x.far.edge) }

// FarDue gives the earliest due time in the far tier.
func (x *Index) FarDue() (due int64, ok bool) {
	if x.far.n == 0 {
		return 0, false
	}
	return x.far.edge.Due, true
}

// Add takes a record, in any order and with any due time. Records that were popped
// and could not be sent may be added again; they take their place by (due, offset).
// The record goes into the tier to which its key belongs. The far tier keeps no
// payload: kept is false then, and the message is the caller's to forget. In the near
// tier the message may be nil.
func (x *Index) Add(e Entry) (kept bool) {
	if !x.Near(Key{Due: e.Due, Offset: e.Offset}) {
		x.far.add(record{due: e.Due, offset: e.Offset, lane: e.Lane}, x.far.edge.Due)
		return false
	}
	x.near(e)
	return true
}

// near adds to the near tier and gives the position within the second.
func (x *Index) near(e Entry) (pos int) {
	number, ms := split(e.Due)
	x.n++
	s := x.last
	if s == nil || number != x.lastNumber {
		s = x.seconds[number]
		if s == nil {
			s = newSecond(ms, &e)
			x.seconds[number] = s
			x.peak = max(x.peak, len(x.seconds))
			x.queue.push(number)
			x.size += secondBytes
			x.last, x.lastNumber = s, number
			return 0
		}
		x.last, x.lastNumber = s, number
	}
	x.size += s.add(ms, &e)
	pos = s.len() - 1
	if s.low == opened {
		x.runs[number].join(pos, ms, e.Offset)
	}
	return pos
}

// PopDue appends to dst, in the order of (due, offset), at most limit records that
// are due at now, and removes them. Those of the far tier, which come after all near
// ones, have no message.
func (x *Index) PopDue(now int64, limit int, dst []Entry) []Entry {
	before := len(dst)
	dst = x.popNear(now, limit, dst)
	limit -= len(dst) - before
	x.far.ahead(aheadChunks)
	if x.n > 0 || limit <= 0 || x.far.n == 0 || x.far.edge.Due > now {
		return dst
	}
	return x.popFar(now, limit, dst)
}

const (
	// aheadChunks is how many far chunks are split ahead at most in a turn. Each takes
	// some thirty microseconds.
	aheadChunks = 4
	// aheadOf is how many records are drawn for another chunk that is split ahead.
	aheadOf = 256
)

func (x *Index) popFar(now int64, limit int, dst []Entry) []Entry {
	s := takeScratch()
	s.records = x.far.take(limit, now, s.records)
	slices.SortFunc(s.records, compareKeys)
	for _, r := range s.records {
		dst = append(dst, Entry{Due: r.due, Offset: r.offset, Lane: r.lane})
	}
	s.release()
	return dst
}

func (x *Index) popNear(now int64, limit int, dst []Entry) []Entry {
	for limit > 0 && x.n > 0 {
		number := x.queue.min()
		r := x.current(number, now)
		if r == nil {
			break
		}
		before := len(dst)
		dst = r.pop(number*msPerSecond, now, limit, dst)
		x.size -= r.takeFreed()
		popped := len(dst) - before
		if popped == 0 {
			break
		}
		limit -= popped
		x.n -= popped
		if r.left == 0 {
			x.drop(number)
		}
	}
	return dst
}

// current gives the earliest second's run, and puts the second in order when its
// first record is due. It gives nil before that: a second that was ordered too
// early would have to merge all that arrives later.
func (x *Index) current(number, now int64) *run {
	s := x.seconds[number]
	if s.low == opened {
		return x.runs[number]
	}
	if number*msPerSecond+int64(s.low) > now {
		return nil
	}
	r := newRun(s)
	s.low = opened
	x.runs[number] = r
	return r
}

// drop forgets the earliest second, which is empty.
func (x *Index) drop(number int64) {
	x.forget(number)
	delete(x.runs, number)
	x.queue.popMin()
}

// forget takes a second out of the map.
func (x *Index) forget(number int64) {
	x.size -= x.seconds[number].bytes()
	delete(x.seconds, number)
	if x.lastNumber == number {
		x.last = nil
	}
	if x.peak >= shrinkFrom && len(x.seconds) <= x.peak/4 {
		x.shrink()
	}
}

// shrink gives back the room that the map keeps of its greatest size.
func (x *Index) shrink() {
	seconds := make(map[int64]*second, len(x.seconds))
	maps.Copy(seconds, x.seconds)
	x.seconds, x.peak = seconds, len(seconds)
}

// NextDue gives the earliest due time of both tiers.
func (x *Index) NextDue() (due int64, ok bool) {
	if x.n == 0 {
		return x.FarDue()
	}
	number := x.queue.min()
	s := x.seconds[number]
	ms := s.low
	if ms == opened {
		ms = x.runs[number].next()
	}
	return number*msPerSecond + int64(ms), true
}

// split gives the second of a due time, rounded down also before 1970, and the
// milliseconds within it. At the very ends of int64 the product wraps around, and
// back again in due = number*1000 + ms.
func split(due int64) (number int64, ms uint16) {
	number = due / msPerSecond
	if due%msPerSecond < 0 {
		number--
	}
	return number, uint16(due - number*msPerSecond)
}
