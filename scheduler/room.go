package scheduler

const (
	// spillShare of what a partition holds is given up at one time, so that finding the
	// farthest is not done for every single record.
	spillShare = 16
	// indexShare is the part of the budget that indexes may take; the rest is for
	// payloads, since with none nothing could be sent.
	indexShare = 0.75
)

// room is what a partition knows of its memory. Payloads are charged one by one
// (bucket.Cost), the structures around them as they are, once a turn.
type room struct {
	structures int64 // what is charged for index, completed set and queues
	full       bool  // there is no room for the index to grow
	asked      uint64
	each       int64 // a record's usual cost, an average of those packed lately
	forced     int64 // offset of the one record taken in beyond the limit; -1: none
}

func newRoom() room { return room{each: 512, forced: -1} }

// seen lets a record's cost into the average.
func (r *room) seen(cost int64) { r.each += (cost - r.each) / 64 }

// take finds room for the payload of a record that is due at a time. What is due later
// makes way for it, here and, by asking, in the other partitions.
func (p *partition) take(n, due int64) bool {
	if p.account.Take(n) {
		return true
	}
	p.giveUp(n, due)
	if p.account.Take(n) {
		return true
	}
	p.s.parts.Budget.Ask(due)
	return false
}

// giveUp lets go of payloads that are not needed before a due time: first those of lanes
// in trouble, then the farthest.
func (p *partition) giveUp(n, beyond int64) {
	most := max(n, p.account.Used()/spillShare)
	if p.shelve(most) >= n {
		return
	}
	freed, records := p.index.Spill(most, beyond)
	p.account.Release(freed)
	p.metrics.spilled.Add(float64(records))
}

// heed gives up payloads for a partition that could not hold a nearer one.
func (p *partition) heed() {
	due, serial := p.s.parts.Budget.Asked()
	if serial == p.room.asked {
		return
	}
	p.room.asked = serial
	n := p.account.Used() / spillShare
	if p.shelve(n) >= n {
		return
	}
	if edge := p.index.Edge(); edge.Due > due {
		p.giveUp(n, due)
	}
}

// settle charges the structures as they are now. What has grown already cannot be
// refused: then reading stops until there is room again.
func (p *partition) settle(now int64) {
	taken := p.index.Bytes() + p.tracker.Bytes() + p.lateBytes()
	if p.tracker.Pending() == 0 {
		taken = 0
	}
	grown := taken - p.room.structures
	p.room.structures = taken
	p.s.structures.Add(grown)
	switch {
	case grown <= 0:
		p.account.Release(-grown)
	case !p.account.Take(grown):
		p.giveUp(grown, now)
		if !p.account.Take(grown) {
			p.account.Force(grown)
			p.room.full = true
		}
	}
	if !p.indexFits() {
		p.room.full = true
	}
}

// indexFits says whether the indexes leave payloads their part of the budget.
func (p *partition) indexFits() bool {
	return float64(p.s.structures.Load()) <= indexShare*float64(p.s.parts.Budget.Limit())
}

// unsettle gives back what is charged for structures, with the partition's end.
func (p *partition) unsettle() {
	p.s.structures.Add(-p.room.structures)
	p.room.structures = 0
}
