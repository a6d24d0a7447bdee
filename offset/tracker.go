package offset

import "math"

// Options say which partition a Tracker follows and who it is.
type Options struct {
	TopicID TopicID
	// Start is the committed offset, or the first one of the log.
	Start int64
	// Fingerprint is that of the rules by which the caller finds due times and lanes.
	Fingerprint uint64
	// Nonce is the writer's, by which it knows its own commit again.
	Nonce uint64
}

// Tracker follows one partition: what was read, what has left the index, what is
// completed. It belongs to one goroutine.
//
// The same offset, due time and lane have to be given for a record in every call.
type Tracker struct {
	id    TopicID
	rules uint64
	nonce uint64
	start int64

	low, next int64
	read      bool // Read has been called
	pending   pendingSet

	// popped is the greatest key that has left the index. Every pending record whose
	// key is not after it is in open: that is what makes the exceptions to a
	// prediction known.
	popped Key
	open   openSet
	// done is the greatest key completed, never after popped.
	done  Key
	early earlySet
	hold  *Hold
	left  departures

	old    []segment // what a former owner wrote about offsets not read again yet
	sorter sorter
}

// New returns a Tracker that has read nothing.
func New(o Options) *Tracker {
	start := max(o.Start, 0)
	return &Tracker{
		id: o.TopicID, rules: o.Fingerprint, nonce: o.Nonce, start: start,
		low: start, next: start,
		popped: noKey, done: noKey,
		left: departures{every: departuresEvery},
	}
}

// Read says that a record was read; offsets ascend. It says whether the record was
// completed before the restart, in which case there is nothing left to do for it, and
// the same of an offset that it knows already. A refused record has the due time Refused.
// fromRules says that due time or lane may be another under other rules.
func (t *Tracker) Read(offset, due int64, lane uint64, fromRules bool) (done bool) {
	if offset < t.next || offset == math.MaxInt64 {
		return true
	}
	t.read = true
	k := Key{Due: due, Offset: offset}
	if due == Refused {
		lane = refusedLane
		t.popped = later(t.popped, k)
	}
	if len(t.old) > 0 && t.wasDone(k, lane, fromRules) {
		t.found(k, lane)
		t.Advance(offset + 1)
		return true
	}
	t.pending.add(offset)
	if t.pending.len() == 1 {
		t.low = offset
	}
	if !t.popped.less(k) {
		t.leave(k, lane)
	}
	t.Advance(offset + 1)
	return false
}

// Advance moves the reading position. An offset below it that was never given to Read
// does not exist and counts as done.
func (t *Tracker) Advance(next int64) {
	if next <= t.next {
		return
	}
	t.next = next
	if t.pending.len() == 0 {
		t.low = next
	}
	if len(t.old) > 0 {
		t.trimOld()
	}
}

// Due says that a record has left the index, and with it everything that was read and is
// due before it. The exceptions are found by that, so it is more than a hint: while a
// record that was read is neither in open nor after the last key given here, a set may be
// written that calls it done. Give the records in the order in which they leave, all of
// them, and before the next Read. Without effect on a record that is not pending, or that
// has left before.
func (t *Tracker) Due(offset, due int64, lane uint64) {
	if !t.pending.has(offset) {
		return
	}
	k := Key{Due: due, Offset: offset}
	if due == Refused {
		lane = refusedLane
	}
	if t.popped.less(k) {
		t.popped = k
		if t.early.len() > 0 {
			t.promote()
		}
	}
	t.leave(k, lane)
}

// leave notes that a pending record is not in the index any more.
func (t *Tracker) leave(k Key, lane uint64) {
	if t.open.insert(k, lane, t.done) {
		t.left.add(t.popped)
	}
}

// Complete says that a record needs nothing any more. Without effect on a record that is
// not pending. A record may be completed before it was due.
func (t *Tracker) Complete(offset, due int64, lane uint64) {
	k := Key{Due: due, Offset: offset}
	if due == Refused {
		lane = refusedLane
	}
	switch {
	case t.popped.less(k):
		if !t.pending.remove(offset) {
			return
		}
		t.early.add(k, lane)
	case t.open.complete(k, lane):
		t.pending.remove(offset)
		t.done = later(t.done, k)
	default:
		// Unknown, completed already, or named with another due time than it was
		// read with. Whatever it is, pending is the safe side.
		return
	}
	if offset == t.low {
		t.low = t.next
		if t.pending.len() > 0 {
			t.low = t.pending.min()
		}
	}
}

// found accounts for a record that is done without having been open here.
func (t *Tracker) found(k Key, lane uint64) {
	t.left.add(t.popped)
	if t.popped.less(k) {
		t.early.add(k, lane)
		return
	}
	t.done = later(t.done, k)
	t.open.raise(k, lane)
}

// promote turns records completed before they were due into ordinary completions once
// their time has come.
func (t *Tracker) promote() {
	for t.early.len() > 0 {
		k := t.early.keys.min()
		if t.popped.less(k) {
			return
		}
		t.found(k, t.early.take(k))
	}
}

// Low is the low watermark: everything below it is done.
func (t *Tracker) Low() int64 { return t.low }

// Next is the reading position.
func (t *Tracker) Next() int64 { return t.next }

// Pending counts the records read and not completed.
func (t *Tracker) Pending() int { return t.pending.len() }

// Above counts what is done above the low watermark. Offsets that do not exist are
// counted too: nobody knows them apart.
func (t *Tracker) Above() int64 { return t.next - t.low - int64(t.pending.len()) }

// Open counts the records that have left the index and are not completed.
func (t *Tracker) Open() int { return t.open.len() }

// Restoring says whether offsets are still to be read again of which a former owner has
// completed some.
func (t *Tracker) Restoring() bool { return len(t.old) > 0 }
