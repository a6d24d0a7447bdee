package offset

import "math"

// Everything is the due time up to which a Hold keeps whatever there is.
const Everything int64 = math.MaxInt64

// HeldLane is the lane to give for a record that a decided Hold covers, whatever its
// target. While nothing is decided, such records are pending without being named one by
// one; a lane of their own is what tells them from all else that is due as early.
const HeldLane uint64 = 1

// Hold keeps records back until a person says what becomes of them: those below an
// offset that are due no later than a time. Everything else of the partition goes its
// way. It is committed with the watermark, so that it outlives the process.
type Hold struct {
	// From is where reading begins again when it is decided. It may be below the
	// watermark.
	From int64
	// Below is the first offset that is free.
	Below int64
	// Due, in epoch ms, is the latest due time that is held.
	Due int64
	// Decided says that somebody has: what is due before Since is dropped, and the rest
	// is sent.
	Decided bool
	Since   int64
}

// Fate is what a hold means for one record.
type Fate uint8

// The fates of a record.
const (
	Free     Fate = iota // the hold has nothing to do with it
	Kept                 // nothing is done with it before a decision
	Dropped              // it was decided that it counts as done
	Released             // it was decided that it is sent
)

// Fate judges a record. A nil hold frees everything.
func (h *Hold) Fate(offset, due int64) Fate {
	switch {
	case h == nil || offset < h.From || offset >= h.Below || due > h.Due:
		return Free
	case !h.Decided:
		return Kept
	case due < h.Since:
		return Dropped
	}
	return Released
}

// Decide is the hold after a decision.
func (h *Hold) Decide(since int64) *Hold {
	decided := *h
	decided.Decided, decided.Since = true, since
	return &decided
}

// below is the hold of a log that was cut at end; nil if nothing that it held is left.
func (h *Hold) below(end int64) *Hold {
	if h == nil || end <= h.From {
		return nil
	}
	cut := *h
	cut.Below = min(cut.Below, end)
	return &cut
}

// over says that a hold has nothing left to say at a watermark.
func (h *Hold) over(low int64) bool {
	return low >= h.Below && (h.Decided || h.Due != Everything)
}

// SetHold begins a hold, or replaces it by what was decided. It has to come before the
// records that it covers are read.
func (t *Tracker) SetHold(h *Hold) { t.hold = h }

// Hold is the hold in force; nil if there is none.
func (t *Tracker) Hold() *Hold {
	if t.hold != nil && t.hold.over(t.low) {
		t.hold = nil
	}
	return t.hold
}

// Keep says that a record was read which the hold keeps: it is pending, and no
// prediction covers it.
func (t *Tracker) Keep(offset int64) {
	if offset < t.next || offset == math.MaxInt64 {
		return
	}
	t.read = true
	t.pending.add(offset)
	if t.pending.len() == 1 {
		t.low = offset
	}
	t.Advance(offset + 1)
}

// holdLanes adds, while nothing is decided, that nothing of the held lane is done.
func (t *Tracker) holdLanes(lanes []laneHorizon) []laneHorizon {
	if h := t.Hold(); h == nil || h.Decided {
		return lanes
	}
	return append([]laneHorizon{{id: HeldLane, done: noKey}}, lanes...)
}
