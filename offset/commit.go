package offset

import "sort"

// Encoded is what is to be committed.
type Encoded struct {
	Offset   int64 // the low watermark
	Metadata string
	// Dropped counts completed records above the watermark that did not fit. They are
	// sent again after a restart. Offsets that do not exist are counted with them, and so
	// is what is still to be read again and may be pending: at the most so many.
	Dropped int64
}

// Encode writes what is done above the watermark in at most limit characters, which is
// what the broker takes. What does not fit is left out from the far end: the farthest
// offsets or the latest completions, whichever are fewer. Metadata is empty if not even
// its header fits.
func (t *Tracker) Encode(limit int) Encoded {
	s := t.set(t.done)
	metadata, cut := s.encode(limit)
	e := Encoded{Offset: t.low, Metadata: metadata, Dropped: t.beyond(cut)}
	if e.Dropped > 0 && cut < t.next {
		e = t.encodeEarlier(limit, e)
	}
	return e
}

// beyond counts what is done from cut on.
func (t *Tracker) beyond(cut int64) int64 {
	var n int64
	if from := max(cut, t.low); from < t.next {
		n = t.next - from - t.pending.countFrom(from)
	}
	for i := range t.old {
		s := &t.old[i]
		if from := max(cut, s.from, t.next); from < s.to {
			n += s.to - from - (count(s.pending, s.to) - count(s.pending, from))
		}
	}
	return n
}

// encodeEarlier forgets the latest completions instead of the farthest offsets: it puts
// the horizon back until there are few enough records that have left the index before it
// and are not completed. When one partition of a target hangs and the others go on, that
// is the completions of seconds against those of the greater part of the window.
func (t *Tracker) encodeEarlier(limit int, other Encoded) Encoded {
	n := t.left.len()
	if n == 0 {
		return other
	}
	best := other
	fits := func(i int) bool {
		d := t.left.at(n - 1 - i)
		metadata, cut := t.set(d.popped).encode(limit)
		if t.beyond(cut) > 0 {
			return false
		}
		if dropped := t.completedAfter(d); dropped < best.Dropped {
			best = Encoded{Offset: t.low, Metadata: metadata, Dropped: dropped}
		}
		return true
	}
	// The farther back, the fewer exceptions: the first that fits, from the latest on,
	// is the one that forgets the least.
	if fits(n - 1) {
		sort.Search(n-1, fits)
	}
	return best
}

// completedAfter bounds the number of completions whose keys are after a departure's.
func (t *Tracker) completedAfter(d departure) int64 {
	n := t.left.left - d.left
	for _, l := range t.open.lanes {
		n -= int64(l.keys.countAfter(d.popped))
	}
	return n
}
