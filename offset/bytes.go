package offset

// What structures take, in bytes.
const (
	pageBytes      = 56
	wordsBytes     = pageSize / 8 // a page's bitset
	fewBytes       = 2            // an offset in a page's list
	keyBytes       = 16
	blockBytes     = 40 // a block without its keys
	laneBytes      = 128
	spanBytes      = 16
	departureBytes = 24
	segmentBytes   = 128
	// entryBytes is what a map takes for an entry of two words, at the usual load.
	entryBytes = 28
)

// Bytes is what the tracker takes, within a few percent: the pending offsets, what has
// left the index, and what a former owner said. It is counted as things come and go, so
// asking costs a step for each lane and each set that is being restored.
func (t *Tracker) Bytes() int64 {
	sum := t.pending.bytes() + t.open.bytes() + t.early.bytes()
	sum += int64(cap(t.left.ring))*departureBytes + int64(cap(t.sorter.offsets)+cap(t.sorter.other))*8
	for i := range t.old {
		sum += segmentBytes + int64(len(t.old[i].pending)+len(t.old[i].done))*spanBytes
	}
	return sum
}

// bytes counts the lanes that are kept for later too.
func (s *openSet) bytes() int64 {
	var sum int64
	for _, l := range s.lanes {
		sum += laneBytes + entryBytes + l.keys.bytes()
	}
	for _, l := range s.pool {
		sum += laneBytes + l.keys.bytes()
	}
	return sum
}

func (s *earlySet) bytes() int64 { return s.keys.bytes() + int64(len(s.lanes))*entryBytes }
