package offset

import "fmt"

// layout is how a segment was written.
type layout struct {
	bytes         int
	pending, done [blockKinds]int // blocks of each kind
}

// Info is commit metadata for people.
type Info struct {
	Version     int
	TopicID     TopicID
	Offset      int64
	Nonce       uint64
	Fingerprint uint64
	Segments    []SegmentInfo
	Hold        *Hold // nil if nothing is kept back
	Characters  int
	Bytes       int // before base64
}

// SegmentInfo is one stretch of offsets. In it a record is done if it is not after the
// horizon, but for the exceptions.
type SegmentInfo struct {
	From, To int64 // To is not in it
	// Horizon is nil if nothing but the exceptions is done.
	Horizon *Key
	// Lanes are the targets that lag behind, with their own horizons.
	Lanes []LaneInfo
	// Pending and Done count the exceptions: records that are pending or done whatever
	// the horizon says.
	Pending, Done int64
	// Kinds is how the exceptions are written, in blocks: "runs 1, bitset 2".
	Kinds string
	Stale bool // written under other rules, taken over in the middle of a restore
	Whole bool // all of it is done
	Bytes int
}

// LaneInfo is the horizon of the lane of one target, by LaneOf.
type LaneInfo struct {
	Lane    uint64
	Horizon Key
}

// Inspect reads metadata without knowing where it should belong. Errors are those of
// Decode, except ErrOtherTopic and ErrOtherOffset.
func Inspect(metadata string) (Info, error) {
	s, layouts, err := parse(metadata)
	if err != nil {
		return Info{}, err
	}
	info := Info{
		Version: 1, TopicID: s.TopicID, Offset: s.Offset, Nonce: s.Nonce, Fingerprint: s.Fingerprint, Hold: s.Hold,
		Characters: len(metadata), Bytes: encoding.DecodedLen(len(metadata) - len(prefix)),
	}
	for i := range s.segments {
		info.Segments = append(info.Segments, s.segments[i].info(layouts[i]))
	}
	return info, nil
}

func (s *segment) info(lay layout) SegmentInfo {
	info := SegmentInfo{
		From: s.from, To: s.to,
		Pending: count(s.pending, s.to), Done: count(s.done, s.to),
		Stale: s.stale, Whole: s.whole, Bytes: lay.bytes,
	}
	if s.horizon != noKey {
		h := s.horizon
		info.Horizon = &h
	}
	for _, l := range s.lanes {
		info.Lanes = append(info.Lanes, LaneInfo{Lane: l.id, Horizon: l.done})
	}
	for k := range blockKinds {
		if n := lay.pending[k] + lay.done[k]; n > 0 {
			if info.Kinds != "" {
				info.Kinds += ", "
			}
			info.Kinds += fmt.Sprintf("%s %d", k, n)
		}
	}
	return info
}
