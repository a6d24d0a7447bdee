package bucket

import (
	"cmp"
	"slices"
)

// Spill gives up payloads, farthest first and only of records that are due after
// beyond, in epoch ms, and moves their records to the far tier. It ends when at least
// need bytes are free, counted as Cost counts them, or when there is nothing more to
// give: a second that is being drained is never touched, nor anything before it.
//
// Seconds go as a whole. Only one that is much larger than what is still needed, as
// where a burst is due at one instant, is divided at a key; the part that goes is no
// less than a thirty-second of it, so that finding it is paid for.
func (x *Index) Spill(need, beyond int64) (freed int64, n int) {
	bound, ms := split(beyond)
	for freed < need && len(x.queue) > 0 {
		number := x.queue.max()
		s := x.seconds[number]
		if s.low == opened || number < bound {
			break
		}
		from := place{offset: leastOffset}
		if number == bound {
			from.ms = ms + 1
		}
		if number == bound || s.len() >= cutFrom {
			var ok bool
			if from, ok = s.cut(need-freed, from); !ok {
				break
			}
		}
		bytes, count := x.spillSecond(number, s, from)
		freed += bytes
		n += count
	}
	return freed, n
}

const (
	leastOffset = -1 << 63
	// cutFrom is the number of records from which a second is divided.
	cutFrom = 64
	// cutLeast is the part of a second that is given up at least.
	cutLeast = 32
)

// cut says from where on a second's records are to be given up, so that need bytes are
// free: at least, and not before least. It says no if there are none.
func (s *second) cut(need int64, least place) (from place, ok bool) {
	var costs [msPerSecond]int64
	var total int64
	s.each(func(e entry, size int) {
		if e.ms >= least.ms {
			cost := Cost(size)
			costs[e.ms] += cost
			total += cost
		}
	})
	if total == 0 {
		return least, false
	}
	if s.len() < cutFrom {
		return least, true
	}
	need = max(need, total/cutLeast)
	ms := msPerSecond - 1
	for ; ms > int(least.ms) && costs[ms] < need; ms-- {
		need -= costs[ms]
	}
	if costs[ms] <= 2*need {
		return place{offset: leastOffset, ms: uint16(ms)}, true
	}
	return s.cutInstant(need, uint16(ms)), true
}

// cutInstant finds the offset from which on the records of one ms cost as much as is
// needed.
func (s *second) cutInstant(need int64, ms uint16) place {
	type sized struct{ offset, cost int64 }
	var all []sized
	s.each(func(e entry, size int) {
		if e.ms == ms {
			all = append(all, sized{e.offset, Cost(size)})
		}
	})
	byOffset := func(a, b sized) int { return cmp.Compare(a.offset, b.offset) }
	if !slices.IsSortedFunc(all, byOffset) {
		slices.SortFunc(all, byOffset)
	}
	i := len(all) - 1
	for ; i > 0 && all[i].cost < need; i-- {
		need -= all[i].cost
	}
	return place{offset: all[i].offset, ms: ms}
}

// each visits the records of a second that has not been put in order, with the sizes of
// their messages.
func (s *second) each(visit func(e entry, size int)) {
	visit(s.only(), len(s.first))
	for i := range s.blocks {
		b := &s.blocks[i]
		for j, e := range b.entries {
			visit(e, len(b.slots[j]))
		}
	}
}

// spillSecond moves the records of the farthest second that are not before a place to
// the far tier. The others close up, so some of them are at other positions then.
func (x *Index) spillSecond(number int64, s *second, from place) (freed int64, n int) {
	start, after := number*msPerSecond, x.queue.min()*msPerSecond
	var kept *second
	all := s.len()
	for pos := range all {
		e, m := s.look(pos)
		if (place{offset: e.offset, ms: e.ms}).before(from) {
			rest := Entry{Offset: e.offset, Lane: e.lane, Message: m}
			if kept == nil {
				kept = newSecond(e.ms, &rest)
			} else {
				kept.add(e.ms, &rest)
			}
		} else {
			freed += Cost(len(m))
			n++
			x.far.add(record{due: start + int64(e.ms), offset: e.offset, lane: e.lane}, after)
		}
		if pos > 0 && pos%blockSize == 0 {
			x.size -= s.blocks[pos/blockSize-1].bytes()
			s.blocks[pos/blockSize-1] = block{}
		}
	}
	x.n -= n
	if kept == nil {
		x.forget(number)
		x.queue.popMax()
		return freed, n
	}
	x.size += kept.bytes() - s.bytes()
	x.seconds[number] = kept
	x.last = nil
	return freed, n
}
