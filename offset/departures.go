package offset

const (
	departuresKept  = 256
	departuresEvery = 512
)

// departure is how far the index had been emptied when so many records had left it.
type departure struct {
	popped Key
	left   int64
}

// departures remembers, coarsely, the last hundred thousand records that left the index.
// A record whose key is after the popped of a departure left later than that, so the
// counts bound how many are forgotten when the horizon is put back to it.
type departures struct {
	every int64 // records between two
	wait  int64 // records since the last
	left  int64 // records in all
	ring  []departure
	next  int // the oldest, when the ring is full
}

// add counts one record that left.
func (d *departures) add(popped Key) {
	d.left++
	if d.wait++; d.wait < d.every {
		return
	}
	d.wait = 0
	at := departure{popped, d.left}
	if len(d.ring) < departuresKept {
		d.ring = append(d.ring, at)
		return
	}
	d.ring[d.next] = at
	d.next = (d.next + 1) % departuresKept
}

func (d *departures) len() int { return len(d.ring) }

// at is the i-th, from the oldest.
func (d *departures) at(i int) departure { return d.ring[(d.next+i)%len(d.ring)] }
