package bucket

// Spill gives up payloads, farthest first and only of records that are due after
// beyond, in epoch ms, and moves their records to the far tier. It ends when at least
// need bytes are free, counted as Cost counts them, or when there is nothing more to
// give. A second that is being drained is never touched.
func (x *Index) Spill(need, beyond int64) (freed int64, n int) {
	for freed < need {
		number, ok := x.farthest()
		s := x.seconds[number]
		if !ok || s.low == opened || number*msPerSecond+int64(s.low) <= beyond {
			break
		}
		var kept []Entry
		for pos := range s.len() {
			e, m := s.look(pos)
			due := number*msPerSecond + int64(e.ms)
			if due <= beyond {
				kept = append(kept, Entry{Due: due, Offset: e.offset, Lane: e.lane, Message: m})
				continue
			}
			freed += Cost(len(m))
			n++
			x.far.add(record{due: due, offset: e.offset, lane: e.lane})
		}
		x.forget(number, s)
		for _, e := range kept {
			x.near(e)
		}
		if len(kept) > 0 {
			break
		}
	}
	return freed, n
}

func (x *Index) farthest() (number int64, ok bool) {
	for i, v := range x.queue {
		if i == 0 || int64(v) > number {
			number, ok = int64(v), true
		}
	}
	return number, ok
}

func (x *Index) forget(number int64, s *second) {
	x.n -= s.len()
	delete(x.seconds, number)
	old := x.queue
	x.queue = nil
	for _, v := range old {
		if int64(v) != number {
			x.queue.push(v)
		}
	}
	x.last = nil
}
