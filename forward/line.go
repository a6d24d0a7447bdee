package forward

import (
	"slices"
	"time"
)

// line is who wants to send through a lane and could not, first come first served.
// Without it a large record would wait for ever behind the small ones of another
// port, and a busy port would always be before a quiet one.
//
// The front is called as soon as its need fits. From then on that much is granted to
// it, so nobody takes it away before it comes; a grant that is not used lapses,
// because a port may have nothing to send any more and must not hold up the others.
type line struct {
	turns   []turn
	grants  []grant
	granted int64 // bytes of the grants
}

// turn is one place in the line. A nil port is the dead letters that wait for this
// lane.
type turn struct {
	port  *Port
	first int64 // the size of the record that has to fit
	asked int64 // of all that the port wanted to send
}

// wish is a turn for records of these sizes.
func wish(p *Port, sizes []int64) turn {
	t := turn{port: p, first: sizes[0]}
	for _, n := range sizes {
		t.asked += n
	}
	return t
}

type grant struct {
	port   *Port
	need   int64
	lapses time.Duration
}

// grantFor is how long a grant waits for its port: many times what a goroutine takes
// to wake up, and short beside what people notice.
const grantFor = 20 * time.Millisecond

// add gives a port a place at the end, or leaves it the one it has.
func (q *line) add(t turn) {
	if i := q.index(t.port); i >= 0 {
		q.turns[i] = t
		return
	}
	q.turns = append(q.turns, t)
}

// push puts a port that had its turn and got nothing back in front.
func (q *line) push(t turn) {
	q.turns = slices.Insert(q.turns, 0, t)
}

func (q *line) index(p *Port) int {
	return slices.IndexFunc(q.turns, func(t turn) bool { return t.port == p })
}

// present says whether a port may send now: it had a grant, or nobody waits before
// it. If so its grant is used up and its place given away.
func (q *line) present(p *Port) bool {
	for i, g := range q.grants {
		if g.port == p {
			q.granted -= g.need
			q.grants = slices.Delete(q.grants, i, i+1)
			q.remove(p)
			return true
		}
	}
	if len(q.turns) > 0 && q.turns[0].port != p {
		return false
	}
	q.remove(p)
	return true
}

// call takes the front out of the line and grants it what it needs.
func (q *line) call(need int64, lapses time.Duration) *Port {
	p := q.turns[0].port
	q.turns = slices.Delete(q.turns, 0, 1)
	q.grants = append(q.grants, grant{port: p, need: need, lapses: lapses})
	q.granted += need
	return p
}

// lapse takes back what was granted and not used. Grants lapse in their order.
func (q *line) lapse(at time.Duration) {
	n := 0
	for n < len(q.grants) && q.grants[n].lapses <= at {
		q.granted -= q.grants[n].need
		n++
	}
	q.grants = slices.Delete(q.grants, 0, n)
}

// leave forgets a port.
func (q *line) leave(p *Port) {
	q.present(p)
	q.remove(p)
}

func (q *line) remove(p *Port) {
	if i := q.index(p); i >= 0 {
		q.turns = slices.Delete(q.turns, i, i+1)
	}
}

// disperse empties the line and calls everybody.
func (q *line) disperse(call func(*Port)) {
	for _, t := range q.turns {
		call(t.port)
	}
	*q = line{}
}

func (q *line) empty() bool { return len(q.turns) == 0 && len(q.grants) == 0 }
