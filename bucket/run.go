package bucket

// run is a second that has been put in order and is being drained. Records that
// arrive for it meanwhile are merged, so that those of one due time leave in offset
// order although some of them arrived when others had already left.
type run struct {
	s      *second
	order  []uint32 // positions by (ms, offset); nil: 0, 1, 2, ...
	cursor int      // the next of order
	end    int      // length of order, or what it would be
	late   heap[place]
	left   int
	freed  int64 // bytes of blocks that have gone since takeFreed
}

// place is a late record's key and position.
type place struct {
	offset int64
	pos    uint32
	ms     uint16
}

func (a place) before(b place) bool {
	if a.ms != b.ms {
		return a.ms < b.ms
	}
	if a.offset != b.offset {
		return a.offset < b.offset
	}
	return a.pos < b.pos
}

func newRun(s *second) *run {
	n := s.len()
	return &run{s: s, order: s.order(), end: n, left: n}
}

// position gives the position of the i-th in order.
func (r *run) position(i int) int {
	if r.order == nil {
		return i
	}
	return int(r.order[i])
}

// join takes a record that was added to the second. One that belongs behind all
// others, as nearly every record of a burst does, prolongs the order.
func (r *run) join(pos int, ms uint16, offset int64) {
	r.left++
	p := place{offset: offset, pos: uint32(pos), ms: ms}
	if p.before(r.lastPlace()) {
		r.late.push(p)
		return
	}
	if r.order == nil && pos != r.end {
		r.spell()
	}
	if r.order != nil {
		r.order = append(r.order, uint32(pos))
	}
	r.end++
}

// lastPlace is the key of the last in order. All of it may have left: the entry
// is then compared all the same, which at worst sends a record to the heap.
func (r *run) lastPlace() place {
	pos := r.position(r.end - 1)
	if r.cursor == r.end {
		return place{}
	}
	e := r.s.at(pos)
	return place{offset: e.offset, pos: uint32(pos), ms: e.ms}
}

// spell writes down what is left of an order that went without saying.
func (r *run) spell() {
	order := make([]uint32, 0, r.end-r.cursor+1)
	for i := r.cursor; i < r.end; i++ {
		order = append(order, uint32(i))
	}
	r.order, r.end, r.cursor = order, len(order), 0
}

// next gives the least ms of a run that has records left.
func (r *run) next() uint16 {
	ms := uint16(msPerSecond)
	if r.cursor < r.end {
		ms = r.s.at(r.position(r.cursor)).ms
	}
	if len(r.late) > 0 {
		ms = min(ms, r.late[0].ms)
	}
	return ms
}

// pop appends at most limit records that are due at now. start is the second's
// beginning in ms.
func (r *run) pop(start, now int64, limit int, dst []Entry) []Entry {
	limit = min(limit, r.left)
	before := len(dst)
	for len(dst)-before < limit {
		pos, late := r.head()
		e, message := r.s.look(pos)
		due := start + int64(e.ms)
		if due > now {
			break
		}
		dst = append(dst, Entry{Due: due, Offset: e.offset, Lane: e.lane, Message: message})
		r.freed += r.s.leave(pos)
		if late {
			r.late.pop()
		} else {
			r.cursor++
		}
	}
	r.left -= len(dst) - before
	return dst
}

// takeFreed gives what has been freed since it was last asked.
func (r *run) takeFreed() int64 {
	freed := r.freed
	r.freed = 0
	return freed
}

// bytes is what the run takes, without its second.
func (r *run) bytes() int64 {
	return runBytes + int64(cap(r.order))*4 + int64(cap(r.late))*placeBytes
}

// head gives the position of the least record, and whether it is a late one. There
// must be one.
func (r *run) head() (pos int, late bool) {
	if len(r.late) == 0 {
		return r.position(r.cursor), false
	}
	if r.cursor < r.end {
		pos = r.position(r.cursor)
		e := r.s.at(pos)
		if (place{offset: e.offset, pos: uint32(pos), ms: e.ms}).before(r.late[0]) {
			return pos, false
		}
	}
	return int(r.late[0].pos), true
}
