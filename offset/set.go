package offset

import "slices"

const (
	maxSegments = 8  // a restart in the middle of a restore adds one
	maxLanes    = 16 // horizons of their own in one segment
)

// span is the offsets from <= o < to.
type span struct{ from, to int64 }

// laneHorizon is the horizon of one lane that lags behind.
type laneHorizon struct {
	id   uint64
	done Key
}

// segment says of the records in [from, to) which are done: those named in done, and of
// the others those that are not after the horizon and not named in pending. The two lists
// hold whatever due time a record has; the horizon counts only for due times found by the
// same rules.
type segment struct {
	from, to int64
	horizon  Key
	lanes    []laneHorizon // ascending by id
	pending  []span
	done     []span
	stale    bool // written under other rules
	whole    bool // all of it is done
}

// Set is what is done above a watermark, as it was written by an owner of the partition.
// A record is done if any segment that covers it says so.
type Set struct {
	TopicID     TopicID
	Offset      int64 // the low watermark that it belongs to
	Fingerprint uint64
	Nonce       uint64
	// Hold is what is kept back; nil if nothing is.
	Hold *Hold

	segments []segment
}

// bound is the horizon that counts for a lane.
func (s *segment) bound(lane uint64) Key {
	if len(s.lanes) == 0 {
		return s.horizon
	}
	i, ok := slices.BinarySearchFunc(s.lanes, lane, func(l laneHorizon, id uint64) int {
		switch {
		case l.id < id:
			return -1
		case l.id > id:
			return 1
		}
		return 0
	})
	if ok {
		return s.lanes[i].done
	}
	return s.horizon
}

// isDone judges a record. The lists must not begin far before it: see trim.
func (s *segment) isDone(k Key, lane uint64, fromRules bool) bool {
	switch {
	case k.Offset < s.from || k.Offset >= s.to:
		return false
	case s.whole || covers(s.done, k.Offset):
		return true
	case covers(s.pending, k.Offset):
		return false
	case s.stale && fromRules:
		return false
	}
	return !s.bound(lane).less(k)
}

func covers(spans []span, offset int64) bool {
	for _, sp := range spans {
		if offset < sp.to {
			return offset >= sp.from
		}
	}
	return false
}

// trim forgets what lies below from, without touching what other segments share.
func (s *segment) trim(from int64) {
	s.from = max(s.from, from)
	s.pending = skip(s.pending, from)
	s.done = skip(s.done, from)
}

func skip(spans []span, from int64) []span {
	for len(spans) > 0 && spans[0].to <= from {
		spans = spans[1:]
	}
	return spans
}

// greatest is the latest key that the segment may call done because of a horizon.
func (s *segment) greatest() Key {
	k := s.horizon
	for _, l := range s.lanes {
		k = later(k, l.done)
	}
	return k
}

// Below is what the set says of offsets below end: all that is left of it when the log
// was truncated there, since what is appended after that has nothing to do with it.
func (s *Set) Below(end int64) *Set {
	cut := *s
	cut.segments = nil
	cut.Hold = s.Hold.below(end)
	for _, seg := range s.segments {
		if seg.to = min(seg.to, end); seg.from < seg.to {
			cut.segments = append(cut.segments, seg)
		}
	}
	return &cut
}
