package offset

import "slices"

// Restore gives the tracker what is known of the records that it is about to read: the
// set that was committed with the offset where it starts, and any others, such as the
// memory of completions that could not be committed. A record is done if any of them says
// so. Sets of another topic are ignored. It has to come before the first Read, and is
// without effect after it.
//
// Records that were read again are known to the tracker itself; of the others Encode
// repeats what the sets say, so a restart in the middle of a restore loses nothing.
func (t *Tracker) Restore(primary *Set, also ...*Set) {
	if t.read || len(t.old) > 0 {
		return
	}
	for _, s := range append([]*Set{primary}, also...) {
		if s == nil || s.TopicID != t.id {
			continue
		}
		for _, seg := range s.segments {
			seg.stale = seg.stale || s.Fingerprint != t.rules
			t.old = append(t.old, seg)
		}
	}
	slices.SortStableFunc(t.old, func(a, b segment) int {
		return Key{a.from, a.to}.Compare(Key{b.from, b.to})
	})
	t.trimOld()
	for i := range t.old {
		// What was completed has left the index once. A record that is found pending
		// and is not after all that is thereby known to have left has left too: Read
		// puts it into open.
		t.popped = later(t.popped, t.old[i].greatest())
		for _, l := range t.old[i].lanes {
			t.open.pin(l.id)
		}
	}
}

func (t *Tracker) wasDone(k Key, lane uint64, fromRules bool) bool {
	for i := range t.old {
		seg := &t.old[i]
		if seg.from > k.Offset {
			break
		}
		seg.trim(k.Offset)
		if seg.isDone(k, lane, fromRules) {
			return true
		}
	}
	return false
}

// trimOld drops the segments that have been read again.
func (t *Tracker) trimOld() {
	t.old = slices.DeleteFunc(t.old, func(s segment) bool { return s.to <= t.next })
	for i := range t.old {
		if t.old[i].from >= t.next {
			break
		}
		t.old[i].trim(t.next)
	}
	if len(t.old) == 0 {
		t.old = nil
		t.open.unpin()
	}
}
