package bucket

import (
	"math"
	"slices"

	"delay-scheduler/delay"
)

const (
	// blockSize is the number of records in a full block. Blocks keep a growing
	// second from being copied again and again, and let a draining one go in
	// pieces. With 255 both allocations of a block, one of which has a header of the
	// allocator's, just fit what the allocator gives.
	blockSize = 255

	msPerSecond = 1000

	// opened stands in second.low for a second that has been put in order.
	opened = math.MaxUint16
	// left stands in ms for a record that has left.
	left = math.MaxUint16

	// countingFrom is the size from which the fixed cost of counting a thousand
	// milliseconds is less than that of comparing.
	countingFrom = 128
)

// entry is one record's place in the index. It holds no pointer, so that the
// garbage collector never looks at it, and nothing of the payload, so that a
// record can stay in the index after its payload was given up. The payload is in
// the slot with the same position.
type entry struct {
	offset int64
	lane   uint32
	ms     uint16 // within the second
}

// block is a piece of a second: entries and, apart from them, payload slots.
type block struct {
	entries []entry
	slots   []delay.Message
	live    int // entries that have not left
}

// second holds the records that are due within one second, in order of arrival.
// The first of them lives in the struct itself: with delays of days most seconds
// hold one record, and blocks would cost more than it does.
type second struct {
	offset int64
	lane   uint32
	ms     uint16
	low    uint16 // the least ms of all records, or opened
	first  delay.Message
	blocks []block
}

func newSecond(ms uint16, e *Entry) *second {
	return &second{offset: e.Offset, lane: e.Lane, ms: ms, low: ms, first: e.Message}
}

// len counts the positions in use, those of records that have left included.
func (s *second) len() int {
	if len(s.blocks) == 0 {
		return 1
	}
	last := len(s.blocks) - 1
	return 1 + last*blockSize + len(s.blocks[last].entries)
}

// add appends a record and says by how many bytes the second has grown.
func (s *second) add(ms uint16, e *Entry) (grown int64) {
	last := len(s.blocks) - 1
	if last < 0 || len(s.blocks[last].entries) == blockSize {
		before := cap(s.blocks)
		s.blocks = append(s.blocks, newBlock(last+1))
		last++
		if cap(s.blocks) != before {
			grown = scanned(cap(s.blocks)*blockBytes) - scanned(before*blockBytes)
		}
		grown += s.blocks[last].bytes()
	}
	b := &s.blocks[last]
	if len(b.entries) == cap(b.entries) || len(b.slots) == cap(b.slots) {
		grown -= b.bytes()
		b.entries = append(b.entries, entry{offset: e.Offset, lane: e.Lane, ms: ms})
		b.slots = append(b.slots, e.Message)
		grown += b.bytes()
	} else {
		b.entries = append(b.entries, entry{offset: e.Offset, lane: e.Lane, ms: ms})
		b.slots = append(b.slots, e.Message)
	}
	b.live++
	if s.low != opened && ms < s.low {
		s.low = ms
	}
	return grown
}

// bytes is what the block's entries and slots take.
func (b *block) bytes() int64 {
	return allocated(cap(b.entries)*entryBytes) + scanned(cap(b.slots)*slotBytes)
}

// bytes is what the second takes with its blocks.
func (s *second) bytes() int64 {
	sum := secondBytes + scanned(cap(s.blocks)*blockBytes)
	for i := range s.blocks {
		sum += s.blocks[i].bytes()
	}
	return sum
}

// newBlock makes the i-th block of a second. The first one grows as records come;
// a second that has filled one gets whole ones.
func newBlock(i int) block {
	n := 1
	if i > 0 {
		n = blockSize
	}
	return block{entries: make([]entry, 0, n), slots: make([]delay.Message, 0, n)}
}

// look gives the entry at a position and its payload. The record must not have left.
func (s *second) look(pos int) (entry, delay.Message) {
	if pos == 0 {
		return s.only(), s.first
	}
	pos--
	b := &s.blocks[pos/blockSize]
	i := pos % blockSize
	return b.entries[i], b.slots[i]
}

func (s *second) at(pos int) entry {
	if pos == 0 {
		return s.only()
	}
	pos--
	return s.blocks[pos/blockSize].entries[pos%blockSize]
}

// only is the entry that lives in the second itself.
func (s *second) only() entry { return entry{offset: s.offset, lane: s.lane, ms: s.ms} }

// slot gives the payload's slot of a record that should be at a position, and nil if it
// is not, or has left. Positions are used again: the offset is what tells.
func (s *second) slot(pos int, ms uint16, offset int64) *delay.Message {
	if pos == 0 {
		if s.offset == offset && s.ms == ms {
			return &s.first
		}
		return nil
	}
	pos--
	if pos/blockSize >= len(s.blocks) {
		return nil
	}
	b, i := &s.blocks[pos/blockSize], pos%blockSize
	if i >= len(b.entries) || b.entries[i].offset != offset || b.entries[i].ms != ms {
		return nil
	}
	return &b.slots[i]
}

// leave notes that the record at a position has left, and says how many bytes are free
// now: a full block goes with its last record. In one that is not full, more may follow.
func (s *second) leave(pos int) (freed int64) {
	if pos == 0 {
		s.ms, s.first = left, nil
		return 0
	}
	pos--
	b, i := &s.blocks[pos/blockSize], pos%blockSize
	b.entries[i].ms, b.slots[i] = left, nil
	b.live--
	if b.live == 0 && len(b.entries) == blockSize {
		freed = b.bytes()
		b.entries, b.slots = nil, nil
	}
	return freed
}

// order gives the positions in the order of (ms, offset), or nil when they are in
// that order as they stand.
func (s *second) order() []uint32 {
	if s.ascending() {
		return nil
	}
	if s.len() >= countingFrom {
		return s.countingOrder()
	}
	order := make([]uint32, s.len())
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, s.compare)
	return order
}

func (s *second) ascending() bool {
	ms, offset := s.ms, s.offset
	for i := range s.blocks {
		for _, e := range s.blocks[i].entries {
			if e.ms < ms || e.ms == ms && e.offset < offset {
				return false
			}
			ms, offset = e.ms, e.offset
		}
	}
	return true
}

// countingOrder takes two passes, whatever the number of records. Records arrive
// in offset order, which a stable sort keeps; only where some were given back and
// added again is a millisecond sorted by offset.
func (s *second) countingOrder() []uint32 {
	var next [msPerSecond + 1]uint32 // next[ms]: where its next record goes
	next[s.ms+1]++
	for i := range s.blocks {
		for _, e := range s.blocks[i].entries {
			next[e.ms+1]++
		}
	}
	for ms := 1; ms < len(next); ms++ {
		next[ms] += next[ms-1]
	}
	var last [msPerSecond]int64
	for i := range last {
		last[i] = math.MinInt64
	}
	order := make([]uint32, s.len())
	shuffled := make(map[uint16]struct{})
	place := func(pos uint32, ms uint16, offset int64) {
		if offset < last[ms] {
			shuffled[ms] = struct{}{}
		}
		last[ms] = offset
		order[next[ms]] = pos
		next[ms]++
	}
	place(0, s.ms, s.offset)
	for i := range s.blocks {
		base := uint32(1 + i*blockSize)
		for j, e := range s.blocks[i].entries {
			place(base+uint32(j), e.ms, e.offset)
		}
	}
	for ms := range shuffled {
		from := uint32(0)
		if ms > 0 {
			from = next[ms-1] // by now the end of the millisecond before
		}
		slices.SortFunc(order[from:next[ms]], s.compare)
	}
	return order
}

// compare orders two positions by (ms, offset).
func (s *second) compare(a, b uint32) int {
	x, y := s.at(int(a)), s.at(int(b))
	switch {
	case x.ms != y.ms:
		return int(x.ms) - int(y.ms)
	case x.offset < y.offset:
		return -1
	case x.offset > y.offset:
		return 1
	}
	return int(a) - int(b)
}
