package measure

import (
	"sync"

	"delay-scheduler/delay"
)

// tally judges what came out. Its methods may be called by several goroutines.
type tally struct {
	mu         sync.Mutex // guards everything below
	seen       numbers
	late       *Histogram
	series     *series
	early      int
	worstEarly int64 // ms
	duplicates int
	unstamped  int // not by the broker
	last       int64
}

func newTally(base int64) *tally {
	return &tally{late: NewHistogram(), series: newSeries(base)}
}

func (t *tally) add(records []delay.Record) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range records {
		r := &records[i]
		m, err := readMark(r)
		if err != nil {
			return err
		}
		if m.number >= warmUp {
			continue
		}
		t.one(r, m)
	}
	return nil
}

func (t *tally) one(r *delay.Record, m mark) {
	if !t.seen.set(m.number) {
		t.duplicates++
		return
	}
	if !r.AppendTime {
		t.unstamped++
	}
	late := r.Timestamp - m.due
	if late < 0 {
		t.early++
		t.worstEarly = max(t.worstEarly, -late)
	}
	t.last = max(t.last, r.Timestamp)
	t.late.Add(late)
	t.series.add(m.due/1000, max(late, 0))
}

// numbers is a set of small numbers.
type numbers []uint64

// set adds a number and says whether it is new.
func (b *numbers) set(n uint64) bool {
	word, bit := int(n/64), uint64(1)<<(n%64)
	if word >= len(*b) {
		*b = append(*b, make([]uint64, word+1-len(*b))...)
	}
	if (*b)[word]&bit != 0 {
		return false
	}
	(*b)[word] |= bit
	return true
}
