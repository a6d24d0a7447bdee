package forward

// room counts the bytes that are with the producer. Each lane is sure of minimum
// bytes, whatever the others do; the rest is shared, and of it a lane may take half
// of what would then be left, and never more than a quarter of the whole. So n busy lanes
// come to equal parts of about 3/4/(n+2), and there is always something left for the
// next: a lane that never answers has taken a part, never all.
//
// A lane that has all to itself may have half of the whole: a quarter keeps five batches
// of a dozen partitions from being full, which costs a burst a quarter of its speed.
//
// A lane with nothing in flight may always have one record, however large. That is
// the only way over the limit: never more than limit plus one record for each lane
// that has something in flight.
type room struct {
	limit   int64
	minimum int64 // of each lane, a quarter of the limit divided by the most lanes
	most    int64 // of one lane beside others, a quarter of the limit
	shared  int64 // what is not spoken for by the minima

	used   int64
	excess int64 // what the lanes have beyond their minima
}

func newRoom(limit int64, lanes int) room {
	minimum := limit / 4 / int64(lanes)
	return room{limit: limit, minimum: minimum, most: limit / 4, shared: limit - minimum*int64(lanes)}
}

// fits says whether a lane that has used bytes in flight may have n more.
func (r *room) fits(used, n int64) bool {
	if used == 0 {
		return true
	}
	after := used + n
	if r.used <= used {
		return after <= 2*r.most // It is alone.
	}
	if after > r.most {
		return false
	}
	over := r.over(after)
	left := r.shared - (r.excess - r.over(used) + over)
	return over == 0 || 2*over <= left
}

// over is how much of a lane's bytes is beyond its minimum.
func (r *room) over(used int64) int64 { return max(used-r.minimum, 0) }

// move changes a lane's bytes in flight by n.
func (r *room) move(used *int64, n int64) {
	r.excess -= r.over(*used)
	*used += n
	r.excess += r.over(*used)
	r.used += n
}

// quantum is how much a lane that waits should be able to get before it is woken:
// waking a port for every single record would cost more than sending it. first is
// the record that has to fit, asked what the port wanted.
func (r *room) quantum(first, asked int64) int64 {
	return max(first, min(asked, max(r.minimum, (r.shared-r.excess)/3)/4))
}
