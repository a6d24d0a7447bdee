package offset

import (
	"fmt"
	"slices"
)

// fact is a record of the log as it is under any rules.
type fact struct {
	exists  bool
	byRules bool   // due and lane come from the rules
	due     int64  // for version 0
	target  int    // for version 0
	listed  uint64 // rules whose number modulo 4 is this refuse it; 4 and more: none
}

// verdict is a record as it is under one version of the rules.
type verdict struct {
	due       int64
	lane      uint64
	fromRules bool
}

var laneNames = func() (lanes [8]uint64) {
	for i := range lanes {
		lanes[i] = LaneOf(fmt.Sprint("target", i))
	}
	return lanes
}()

func (f fact) under(rules uint64) verdict {
	if f.listed == rules%4 {
		return verdict{due: Refused, lane: laneNames[7], fromRules: true}
	}
	if f.byRules {
		return verdict{
			due:  f.due + int64(rules*7919%5000) - 2500,
			lane: laneNames[(f.target+int(rules))%7], fromRules: true,
		}
	}
	return verdict{due: f.due, lane: laneNames[f.target]}
}

// flight is a record that one life of the owner holds.
type flight struct {
	offset int64
	verdict
}

func (f flight) key() Key { return Key{f.due, f.offset} }

// commit is what the group remembers.
type commit struct {
	Encoded
	rules uint64
	known map[int64]bool // what the owner knew to be done
}

// read reads up to n records.
func (w *world) read(n int) error {
	for range n {
		offset := w.t.Next()
		f := w.fact(offset)
		if !f.exists {
			w.t.Advance(offset + 1)
			continue
		}
		v := f.under(w.rules)
		w.stats.Reads++
		if w.t.Read(offset, v.due, v.lane, v.fromRules) {
			w.stats.Skipped++
			if !w.completed[offset] {
				return fmt.Errorf("LOST: offset %d is said to be done", offset)
			}
			w.done[offset] = true
			continue
		}
		if w.before[offset] {
			return fmt.Errorf("offset %d is sent again, the sets say that it is done", offset)
		}
		w.hold(flight{offset, v})
	}
	return nil
}

// hold puts a record into the index, or sends it at once.
func (w *world) hold(f flight) {
	if f.due == Refused && w.r.IntN(2) == 0 {
		w.send(f)
		return
	}
	i, _ := slices.BinarySearchFunc(w.index, f, func(a, b flight) int { return a.key().Compare(b.key()) })
	w.index = slices.Insert(w.index, i, f)
}

func (w *world) send(f flight) {
	w.t.Due(f.offset, f.due, f.lane)
	w.sent = append(w.sent, f)
}

func (w *world) fire() {
	for n := w.r.IntN(500); n > 0 && len(w.index) > 0 && w.index[0].due <= w.now; n-- {
		w.send(w.index[0])
		w.index = w.index[1:]
	}
}

func (w *world) acknowledge() {
	kept := w.sent[:0]
	for _, f := range w.sent {
		if w.parked[w.log[f.offset-w.start].target] || w.r.Float64() > w.ackOdds {
			kept = append(kept, f)
			continue
		}
		w.complete(f)
	}
	w.sent = kept
	if w.r.IntN(20) == 0 {
		w.parked = map[int]bool{w.r.IntN(7): true}
	}
}

func (w *world) complete(f flight) {
	w.stats.Completions++
	w.completed[f.offset] = true
	w.done[f.offset] = true
	w.t.Complete(f.offset, f.due, f.lane)
}

// forward completes some of the oldest pending records before they are due.
func (w *world) forward() {
	for n := w.r.IntN(10); n > 0 && len(w.index) > 0; n-- {
		least := 0
		for i, f := range w.index {
			if f.offset < w.index[least].offset {
				least = i
			}
		}
		f := w.index[least]
		w.index = slices.Delete(w.index, least, least+1)
		w.stats.Early++
		w.complete(f)
	}
}

// mistakes calls what a correct owner does not.
func (w *world) mistakes() {
	offset := w.start + w.r.Int64N(int64(len(w.log))+10)
	w.t.Advance(min(offset, w.t.Next()))
	if offset < w.t.Next() {
		w.t.Read(offset, w.now, 1, false)
	}
	if offset >= w.t.Next() || !w.holds(offset) {
		w.t.Complete(offset, w.now+w.r.Int64N(1000), uint64(w.r.IntN(3)))
		w.t.Due(offset, w.now+w.r.Int64N(1000), uint64(w.r.IntN(3)))
	}
	if len(w.sent) > 0 {
		f := w.sent[w.r.IntN(len(w.sent))]
		w.t.Due(f.offset, f.due, f.lane)
	}
	if !w.t.read {
		return
	}
	w.t.Restore(&Set{TopicID: w.t.id, segments: []segment{{from: 0, to: 1 << 50, whole: true}}})
}

func (w *world) holds(offset int64) bool {
	same := func(f flight) bool { return f.offset == offset }
	return slices.ContainsFunc(w.index, same) || slices.ContainsFunc(w.sent, same)
}
