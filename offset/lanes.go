package offset

// idleLanes is how many lanes in which nothing is open are kept, because the next record
// of a quiet target will need its lane again.
const idleLanes = 64

// lane is what has left the index for one target and is not completed.
type lane struct {
	id   uint64
	keys keySet
	// done is not before any key of the lane completed above the watermark. It is the
	// greatest such key, unless the lane was made later than that completion.
	done Key
	// pinned lanes are kept although nothing is open in them: while a set is being
	// restored, their horizons are found again exactly.
	pinned bool
}

// openSet holds every record that has left the index and is not completed, by lane.
type openSet struct {
	lanes map[uint64]*lane
	last  *lane // the lane of the last call
	n     int
	idle  int     // lanes in which nothing is open, without the pinned ones
	pool  []*lane // given up, to be used again
}

func (s *openSet) len() int { return s.n }

func (s *openSet) lane(id uint64) *lane {
	if s.last != nil && s.last.id == id {
		return s.last
	}
	l := s.lanes[id]
	if l != nil {
		s.last = l
	}
	return l
}

// insert adds a key and says whether it is new. A lane that has to be made starts with
// the horizon done.
func (s *openSet) insert(k Key, id uint64, done Key) bool {
	l := s.lane(id)
	if l == nil {
		l = s.make(id, done)
	}
	if !l.keys.insert(k) {
		return false
	}
	s.n++
	if l.keys.len() == 1 && !l.pinned {
		s.idle--
	}
	return true
}

func (s *openSet) make(id uint64, done Key) *lane {
	var l *lane
	if n := len(s.pool) - 1; n >= 0 {
		l, s.pool = s.pool[n], s.pool[:n]
	} else {
		l = new(lane)
	}
	l.id, l.done = id, done
	if s.lanes == nil {
		s.lanes = make(map[uint64]*lane)
	}
	s.lanes[id] = l
	s.last = l
	s.idle++
	return l
}

// complete removes a key and raises the lane's horizon. It says whether the key was open.
func (s *openSet) complete(k Key, id uint64) bool {
	l := s.lane(id)
	if l == nil || !l.keys.remove(k) {
		if l = s.search(k); l == nil {
			return false
		}
	}
	s.n--
	l.done = later(l.done, k)
	if l.keys.len() == 0 && !l.pinned {
		if s.idle++; s.idle > idleLanes {
			s.dropIdle()
		}
	}
	return true
}

// search finds and removes a key that is open in another lane than its owner says. Only
// a mistake leads here; leaving the key would hold it back for ever.
func (s *openSet) search(k Key) *lane {
	for _, l := range s.lanes {
		if l.keys.remove(k) {
			return l
		}
	}
	return nil
}

// raise says that a key of the lane was completed without having been open.
func (s *openSet) raise(k Key, id uint64) {
	if l := s.lane(id); l != nil {
		l.done = later(l.done, k)
	}
}

// dropIdle forgets the lanes in which nothing is open.
func (s *openSet) dropIdle() {
	for id, l := range s.lanes {
		if l.keys.len() > 0 || l.pinned {
			continue
		}
		delete(s.lanes, id)
		if len(s.pool) < idleLanes {
			s.pool = append(s.pool, l)
		}
	}
	s.idle = 0
	s.last = nil
}

// pin makes a lane that starts with nothing done and is kept until unpin.
func (s *openSet) pin(id uint64) {
	if s.lane(id) == nil {
		s.make(id, noKey).pinned = true
		s.idle--
	}
}

func (s *openSet) unpin() {
	for _, l := range s.lanes {
		l.pinned = false
	}
	s.dropIdle()
}
