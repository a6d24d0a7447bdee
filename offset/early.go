package offset

// earlySet holds the records completed before they were due, which no horizon covers:
// moved elsewhere, or known to be done from a set whose horizon is further on.
type earlySet struct {
	keys  keySet
	lanes map[int64]uint64 // by offset
}

func (s *earlySet) len() int { return s.keys.len() }

func (s *earlySet) add(k Key, lane uint64) {
	if s.lanes == nil {
		s.lanes = make(map[int64]uint64)
	}
	if s.keys.insert(k) {
		s.lanes[k.Offset] = lane
	}
}

// take removes a key and returns its lane.
func (s *earlySet) take(k Key) uint64 {
	lane := s.lanes[k.Offset]
	s.keys.remove(k)
	delete(s.lanes, k.Offset)
	return lane
}

// offsets appends those not below low and forgets the others.
func (s *earlySet) offsets(dst []int64, low int64) []int64 {
	var passed []Key
	for _, b := range s.keys.blocks {
		for _, k := range b.keys() {
			if k.Offset < low {
				passed = append(passed, k)
				continue
			}
			dst = append(dst, k.Offset)
		}
	}
	for _, k := range passed {
		s.take(k)
	}
	return dst
}
