package bucket

import (
	"math/bits"
	"slices"
)

// record is what the far tier knows of a pending record.
type record struct {
	due    int64
	offset int64
	lane   uint32
}

func (r record) key() Key { return Key{Due: r.due, Offset: r.offset} }

func compareKeys(a, b record) int {
	switch {
	case a.key().Less(b.key()):
		return -1
	case b.key().Less(a.key()):
		return 1
	}
	return 0
}

const (
	// The bins of a level are 256 to the power of the level ms wide: 1 ms, 256 ms,
	// 65.5 s, 4.7 h, 50 days. A due time takes as many bytes as its level. The last
	// level is one bin for whatever is due beyond those, with due times as they are.
	levels    = 6
	lastLevel = levels - 1

	// A bin with no more records than that is taken as it is when it comes near. To
	// split it would cost more memory, in chunks of a few records, than it would save
	// time.
	splitFrom = 8192
	// looseMost is the number of records in a chunk of what was taken out and put back.
	looseMost = 256

	// binBytes is a bin and its place in the map.
	binBytes = 32
)

// bin is a stretch of due times with the records that lie in it. Several levels may
// have bins for one time: where a record goes depends on how far away it is when it
// comes.
type bin struct {
	number int64 // due time / width of the level, rounded down
	n      int
	open   *chunk // to which records are added
	level  uint8
}

// far holds the records that are known by due time, offset and lane alone, in chunks
// that know their least and greatest key. The chunk with the least of all keys is
// looked at when records are taken: it goes as a whole when nothing else lies between
// its keys, and otherwise its records go into finer bins. So the work of splitting is
// done chunk by chunk, for a chunk that is needed, and once for each level.
type far struct {
	n     int
	edge  Key // the least key, and Endless when there is none
	heaps [levels]chunks
	bins  [levels]map[int64]*bin
	peaks [levels]int // the most bins there have been in the map
	last  *bin        // of the last record
	size  int64       // of chunks and bins

	splitFrom int // a bin with more records is split
}

func (f *far) clear() { *f = far{edge: Endless, splitFrom: f.splitFrom} }

// level is where a record goes that is due so long after a time: into bins at least 16
// of which lie between.
func level(due, after int64) int {
	if due <= after {
		return 1
	}
	return min(max((bits.Len64(uint64(due)-uint64(after))+3)/8, 1), lastLevel)
}

// add takes a record. The level of its bin is chosen by the distance from after.
func (f *far) add(r record, after int64) {
	f.put(f.bin(r.due, level(r.due, after)), r)
	f.n++
	if k := r.key(); k.Less(f.edge) || f.n == 1 {
		f.edge = k
	}
}

// put adds records to a bin.
func (f *far) put(b *bin, records ...record) {
	c := b.open
	if c == nil {
		c = f.open(b, len(records))
	}
	least, size := c.min, cap(c.data)
	for _, r := range records {
		if !c.add(r) {
			f.settle(c, least, size)
			c = f.open(b, 1)
			least, size = c.min, cap(c.data)
			c.add(r)
		}
	}
	f.settle(c, least, size)
	b.n += len(records)
}

// open makes the chunk of a bin to which records are added from now on, n at first.
func (f *far) open(b *bin, n int) *chunk {
	c := &chunk{bin: b, width: b.level, at: -1}
	if b.level == lastLevel {
		c.width = 8
	} else {
		c.base = b.number << (8 * b.level)
	}
	size := leastChunk
	if b.n > splitFrom/2 {
		size = mostChunk
	}
	for size < mostChunk && size < 3*n {
		size *= 2
	}
	c.data = make([]byte, 0, size)
	f.size += chunkBytes + int64(cap(c.data))
	b.open = c
	return c
}

// settle puts a chunk to which records were added into its place, given its least key
// and its size before.
func (f *far) settle(c *chunk, least Key, size int) {
	f.size += int64(cap(c.data) - size)
	switch h := &f.heaps[c.bin.level]; {
	case c.at < 0:
		h.push(c)
	case c.min != least:
		h.rise(c)
	}
}

// bin finds or makes the bin of a due time.
func (f *far) bin(due int64, level int) *bin {
	number := int64(0)
	if level < lastLevel {
		number = due >> (8 * level)
	}
	if b := f.last; b != nil && b.number == number && int(b.level) == level {
		return b
	}
	b := f.bins[level][number]
	if b == nil {
		if f.bins[level] == nil {
			f.bins[level] = make(map[int64]*bin)
		}
		b = &bin{number: number, level: uint8(level)}
		f.bins[level][number] = b
		f.peaks[level] = max(f.peaks[level], len(f.bins[level]))
		f.size += binBytes
	}
	f.last = b
	return b
}

// first gives the chunk with the least key, and the least key of all others.
func (f *far) first() (c *chunk, next Key) {
	next = Endless
	for _, h := range f.heaps {
		switch {
		case len(h) == 0:
		case c == nil || h[0].min.Less(c.min):
			if c != nil && c.min.Less(next) {
				next = c.min
			}
			c = h[0]
		case h[0].min.Less(next):
			next = h[0].min
		}
	}
	if c == nil {
		return nil, Endless
	}
	h := f.heaps[c.level()]
	if i := h.least(1, 5); i > 0 && h[i].min.Less(next) {
		next = h[i].min
	}
	return c, next
}

// level is that of the heap in which a chunk is.
func (c *chunk) level() int {
	if c.bin == nil {
		return 0
	}
	return int(c.bin.level)
}

// remove takes the first chunk of a level out and appends its records to dst.
func (f *far) remove(level int, dst []record) []record {
	c := f.heaps[level][0]
	f.heaps[level].pop()
	f.size -= chunkBytes + int64(cap(c.data))
	if b := c.bin; b != nil {
		b.n -= int(c.count)
		if b.open == c {
			b.open = nil
		}
		if b.n == 0 {
			delete(f.bins[level], b.number)
			f.size -= binBytes
			if f.last == b {
				f.last = nil
			}
		}
	}
	return c.records(slices.Grow(dst, int(c.count)))
}

// worthSplitting says whether a chunk's records should go to finer bins, when the least
// key of the others that matter is next.
func (f *far) worthSplitting(c *chunk, next Key) bool {
	return c.bin != nil && c.bin.level > 0 && c.bin.n > f.splitFrom &&
		c.min.Due != c.max.Due && next.Less(c.max)
}

// split moves the records of the first chunk of a level to bins of the next finer one.
// They are divided first, so that each of those is looked at once.
func (f *far) split(level int) {
	s, t := takeScratch(), takeScratch()
	s.records = f.remove(level, s.records)
	if level == lastLevel {
		for _, r := range s.records {
			f.put(f.bin(r.due, level-1), r)
		}
	} else {
		shift := 8 * (level - 1)
		ends := divide(s.records, &t.records, func(r record) uint8 { return uint8(r.due >> shift) })
		from := 0
		for _, to := range ends {
			if part := t.records[from:to]; len(part) > 0 {
				f.put(f.bin(part[0].due, level-1), part...)
			}
			from = to
		}
	}
	s.release()
	t.release()
}

// ahead splits at most n chunks that will be needed next, so that there is little left
// to split when they are: those that begin within half the width of their bin.
func (f *far) ahead(n int) {
	for l := lastLevel; l > 0 && n > 0; {
		h := f.heaps[l]
		if len(h) < 2 || uint64(h[0].min.Due)-uint64(f.edge.Due) >= 1<<(8*l-1) ||
			!f.worthSplitting(h[0], h[h.least(1, 5)].min) {
			l--
			continue
		}
		f.split(l)
		n--
	}
}

// take removes the earliest records, at most n and none that is due after until, and
// appends them to dst in no particular order.
func (f *far) take(n int, until int64, dst []record) []record {
	s := takeScratch()
	defer s.release()
	from := len(dst)
	bound := Endless // no record from here on is among the first n
	// trim keeps the first n of what has been taken.
	trim := func() {
		sel(dst[from:], n-1)
		bound = dst[from+n-1].key()
		s.records = append(s.records, dst[from+n:]...)
		dst = dst[:from+n]
	}
	for {
		c, next := f.first()
		if c == nil || c.min.Due > until || bound.Less(c.min) {
			break
		}
		if f.worthSplitting(c, next) {
			f.split(c.level())
			continue
		}
		start := len(dst)
		dst = f.remove(c.level(), dst)
		if c.max.Due > until {
			dst, s.records = part(dst, start, until, s.records)
		}
		// What lies within a wide chunk says little about where the n-th is. With each
		// narrow one that comes after it the bound falls.
		if more := len(dst) - from - n; more >= 0 && (bound == Endless || more >= max(n/4, looseMost)) {
			trim()
		}
	}
	if len(dst)-from > n {
		trim()
	}
	f.n -= len(dst) - from
	f.putBack(s.records)
	f.edge = Endless
	if c, _ := f.first(); c != nil {
		f.edge = c.min
	}
	return dst
}

// part moves those of dst[start:] that are due after until to rest.
func part(dst []record, start int, until int64, rest []record) (_, _ []record) {
	kept := dst[:start]
	for _, r := range dst[start:] {
		if r.due > until {
			rest = append(rest, r)
		} else {
			kept = append(kept, r)
		}
	}
	return kept, rest
}

// putBack makes chunks of records that were taken out and are not wanted yet. No two
// of them overlap, so that what is taken next touches few of them.
func (f *far) putBack(records []record) {
	for len(records) > looseMost {
		half := len(records) / 2
		sel(records, half)
		f.putBack(records[half:])
		records = records[:half]
	}
	if len(records) > 0 {
		f.loose(records)
	}
}

// loose makes chunks, hardly ever more than one, of a few records.
func (f *far) loose(records []record) {
	sortOffsets(records)
	least, greatest := records[0].due, records[0].due
	for _, r := range records {
		least, greatest = min(least, r.due), max(greatest, r.due)
	}
	width := (bits.Len64(uint64(greatest)-uint64(least)) + 7) / 8
	for len(records) > 0 {
		c := &chunk{base: least, width: uint8(width), data: make([]byte, 0, mostChunk)}
		for len(records) > 0 && c.add(records[0]) {
			records = records[1:]
		}
		c.data = slices.Clone(c.data)
		f.size += chunkBytes + int64(cap(c.data))
		f.heaps[0].push(c)
	}
}

// bytes is what all of it takes.
func (f *far) bytes() int64 {
	sum := f.size
	for i := range f.heaps {
		// The chunks in a heap have paid for their places.
		sum += int64(cap(f.heaps[i])-len(f.heaps[i]))*8 + mapBytes(f.peaks[i], 16)
	}
	return sum
}
