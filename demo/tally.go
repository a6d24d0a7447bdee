package demo

import (
	"slices"
	"time"
)

// span is a time during which no scheduler was running.
type span struct{ from, to time.Time }

// arrival is one record that reached its target.
type arrival struct {
	id      int
	sentAt  time.Time // the record's timestamp: when the scheduler sent it
	arrived time.Time // when the reader had it
}

// tally counts what was asked for and what arrived.
type tally struct {
	due    map[int]time.Time
	first  map[int]arrival
	copies int
	early  int
	worst  time.Duration // lateness, outside the time that no scheduler was running
}

func newTally() *tally { return &tally{due: map[int]time.Time{}, first: map[int]arrival{}} }

func (t *tally) sent(id int, due time.Time) { t.due[id] = due }

func (t *tally) arrived(a arrival, down []span) {
	if a.sentAt.Before(t.due[a.id]) {
		t.early++
	}
	if _, again := t.first[a.id]; again {
		t.copies++
		return
	}
	t.first[a.id] = a
	if !duringOutage(t.due[a.id], down) {
		t.worst = max(t.worst, a.arrived.Sub(t.due[a.id]))
	}
}

func duringOutage(due time.Time, down []span) bool {
	for _, s := range down {
		if !due.Before(s.from) && (s.to.IsZero() || due.Before(s.to)) {
			return true
		}
	}
	return false
}

// Result is the final table.
type Result struct {
	Sent       int           `json:"sent"`
	Delivered  int           `json:"delivered"`
	Lost       int           `json:"lost"`
	Early      int           `json:"early"`
	Duplicates int           `json:"duplicates"`
	P50        time.Duration `json:"p50_late_ns"`
	P99        time.Duration `json:"p99_late_ns"`
	Max        time.Duration `json:"max_late_ns"`
	// Outage are the records that fell due while no scheduler was running; they are
	// not part of the percentiles.
	Outage     int           `json:"due_during_outage"`
	OutageLate time.Duration `json:"outage_max_late_ns"`
}

// Kept says whether the promise was kept.
func (r Result) Kept() bool { return r.Sent > 0 && r.Lost == 0 && r.Early == 0 }

func (t *tally) result(down []span) Result {
	r := Result{Sent: len(t.due), Delivered: len(t.first), Early: t.early, Duplicates: t.copies}
	r.Lost = r.Sent - r.Delivered
	var late []time.Duration
	for id, a := range t.first {
		d := a.arrived.Sub(t.due[id])
		if duringOutage(t.due[id], down) {
			r.Outage++
			r.OutageLate = max(r.OutageLate, d)
			continue
		}
		late = append(late, d)
	}
	if len(late) > 0 {
		slices.Sort(late)
		r.P50, r.P99, r.Max = late[len(late)/2], late[len(late)*99/100], late[len(late)-1]
	}
	return r
}
