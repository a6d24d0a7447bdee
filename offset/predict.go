package offset

import (
	"cmp"
	"slices"
)

// minGain is how many exceptions a horizon of its own has to save a lane. It takes about
// as many bytes as eight exceptions far apart.
const minGain = 8

// laneGain is a lane that lags behind the common horizon.
type laneGain struct {
	lane *lane
	gain int // open records not after the common horizon, but after the lane's own
}

// lagging returns the lanes that get a horizon of their own, and how many exceptions are
// left: open records that are not after the horizon of their lane.
func (t *Tracker) lagging(horizon Key) ([]laneGain, int) {
	var gains []laneGain
	exceptions := 0
	for _, l := range t.open.lanes {
		below := l.keys.len() - l.keys.countAfter(horizon)
		exceptions += below
		if below < minGain || l.id == refusedLane {
			continue
		}
		if gain := below - l.keys.countTo(earlier(l.done, horizon)); gain >= minGain {
			gains = append(gains, laneGain{l, gain})
		}
	}
	if len(gains) >= maxLanes { // One is left for the held ones.
		slices.SortFunc(gains, func(a, b laneGain) int {
			return cmp.Or(cmp.Compare(b.gain, a.gain), cmp.Compare(a.lane.id, b.lane.id))
		})
		gains = gains[:maxLanes-1]
	}
	for _, g := range gains {
		exceptions -= g.gain
	}
	slices.SortFunc(gains, func(a, b laneGain) int { return cmp.Compare(a.lane.id, b.lane.id) })
	return gains, exceptions
}

// Exceptions counts what Encode has to name one by one at the moment. It costs a look at
// each lane in which something is open.
func (t *Tracker) Exceptions() int {
	_, n := t.lagging(t.done)
	return n + t.early.len()
}

// current is the segment of what this tracker has read. With a horizon before t.done it
// forgets the completions after it.
func (t *Tracker) current(horizon Key) segment {
	seg := segment{from: t.low, to: t.next, horizon: earlier(t.done, horizon)}
	if t.Above() == 0 {
		seg.to = seg.from
		return seg
	}
	gains, _ := t.lagging(seg.horizon)
	seg.lanes = t.holdLanes(seg.lanes)
	offsets := t.sorter.offsets[:0]
	for _, g := range gains {
		// The horizon is put right before the first open record if nothing of the lane
		// is done up to there: it says the same and is a shorter number.
		h := laneHorizon{id: g.lane.id, done: later(g.lane.done, g.lane.keys.min().before())}
		seg.lanes = append(seg.lanes, h)
		offsets = g.lane.keys.appendOffsets(offsets, h.done)
	}
	for id, l := range t.open.lanes {
		if _, own := slices.BinarySearchFunc(gains, id, func(g laneGain, id uint64) int {
			return cmp.Compare(g.lane.id, id)
		}); !own {
			offsets = l.keys.appendOffsets(offsets, seg.horizon)
		}
	}
	seg.pending = t.sorter.spans(offsets)
	offsets = t.early.offsets(offsets[:0], t.low)
	seg.done = t.sorter.spans(offsets)
	t.sorter.release(offsets)
	return seg
}

// Snapshot is the whole of what the tracker knows to be done since its start, without
// the limit that commit metadata has: the memory for completions that could not be
// committed. Unlike a decoded set it also covers what lies between the tracker's start
// and its watermark, in case the group still has an older one.
func (t *Tracker) Snapshot() *Set {
	s := t.set(t.done)
	start := t.start
	if h := t.Hold(); h != nil && h.Due == Everything {
		start = min(start, h.Below) // The hold's own offsets are read again, and what follows with them.
	}
	if start < t.low {
		s.segments = append(s.segments, segment{from: start, to: t.low, horizon: noKey, whole: true})
	}
	return s
}

// set is what is known to be done above the watermark, up to a horizon.
func (t *Tracker) set(horizon Key) *Set {
	s := &Set{TopicID: t.id, Offset: t.low, Fingerprint: t.rules, Nonce: t.nonce, Hold: t.Hold()}
	cur := t.current(horizon)
	if cur.from < cur.to && (cur.horizon != noKey || len(cur.done) > 0) {
		s.segments = append(s.segments, cur)
	}
	s.segments = append(s.segments, t.old...)
	return s
}
