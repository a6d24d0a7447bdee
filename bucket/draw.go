package bucket

import "delay-scheduler/delay"

// Wanted is a record that was drawn into the near tier and has no payload yet.
type Wanted struct {
	Due    int64 // epoch ms
	Offset int64
	Lane   uint32

	pos uint32 // in its second
}

// Draw moves the earliest far records into the near tier, without payload: at most
// n, and none that is due after until, in epoch ms. It appends them to dst in
// ascending order of their offsets, which is the order in which they lie in the log.
// The edge rises to the first record that stays.
func (x *Index) Draw(n int, until int64, dst []Wanted) []Wanted {
	if n <= 0 || x.far.n == 0 || x.far.edge.Due > until {
		return dst
	}
	s := takeScratch()
	s.records = x.far.take(n, until, s.records)
	x.far.ahead(aheadChunks + len(s.records)/aheadOf)
	sortOffsets(s.records)
	for _, r := range s.records {
		pos := x.near(Entry{Due: r.due, Offset: r.offset, Lane: r.lane})
		dst = append(dst, Wanted{Due: r.due, Offset: r.offset, Lane: r.lane, pos: uint32(pos)})
	}
	s.release()
	return dst
}

// Fill gives a drawn record its payload. It says no, and keeps nothing of m, when the
// record is not where it was put any more, because it was popped or spilled or had to
// move, and when it has a payload already.
func (x *Index) Fill(w Wanted, m delay.Message) bool {
	number, ms := split(w.Due)
	s := x.seconds[number]
	if s == nil {
		return false
	}
	slot := s.slot(int(w.pos), ms, w.Offset)
	if slot == nil || *slot != nil {
		return false
	}
	*slot = m
	return true
}
