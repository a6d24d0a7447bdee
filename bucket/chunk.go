package bucket

import "encoding/binary"

const (
	leastChunk = 64
	mostChunk  = 4096
	// mostRecord is the most bytes that a record takes in a chunk: the offset of the
	// first one, a step, a lane and a due time.
	mostRecord = 3*binary.MaxVarintLen64 + 8
	// chunkBytes is a chunk without its data, and its place in a heap.
	chunkBytes = 96 + 8
)

// chunk is a run of far records in the order of their arrival, which is mostly that of
// their offsets. Its data holds, for each of them,
//
//	uvarint  the step from the last offset, zigzag, times two; plus one if the lane is
//	         another than the last record's
//	uvarint  that lane, if so
//	width    bytes: the due time, counted from base, lowest byte first
//
// and in front of all the first offset as a varint. It holds no pointers: the garbage
// collector has one object to look at where there are a thousand records.
type chunk struct {
	min, max Key // of its records, exactly
	data     []byte
	bin      *bin  // nil for a chunk to which nothing is added any more
	base     int64 // what due times are counted from
	last     int64 // the last offset
	lane     uint32
	count    int32
	at       int32 // place in the heap of its level
	width    uint8 // bytes of a due time
}

// add appends a record. It says no when the chunk is full, or the step too wide.
func (c *chunk) add(r record) bool {
	at := len(c.data)
	if cap(c.data)-at >= mostRecord {
		n := c.encode(c.data[at:at+mostRecord], r)
		c.data = c.data[:at+n]
		return n > 0 && c.note(r)
	}
	var b [mostRecord]byte
	n := c.encode(b[:], r)
	if n == 0 || !c.room(n) {
		return false
	}
	c.data = append(c.data, b[:n]...)
	return c.note(r)
}

// encode writes a record to b and gives its length, 0 if the step is too wide.
func (c *chunk) encode(b []byte, r record) int {
	n, last := 0, c.last
	if c.count == 0 {
		n = binary.PutVarint(b, r.offset)
		last = r.offset
	}
	step := r.offset - last
	head := uint64(step<<1) ^ uint64(step>>63)
	if head>>63 != 0 {
		return 0
	}
	if head <<= 1; r.lane != c.lane {
		n += binary.PutUvarint(b[n:], head|1)
		n += binary.PutUvarint(b[n:], uint64(r.lane))
	} else {
		n += binary.PutUvarint(b[n:], head)
	}
	binary.LittleEndian.PutUint64(b[n:], uint64(r.due-c.base))
	return n + int(c.width)
}

// room makes room for n more bytes, as long as the chunk does not become too large.
func (c *chunk) room(n int) bool {
	size := cap(c.data)
	if len(c.data)+n <= size {
		return true
	}
	if size >= mostChunk {
		return false
	}
	c.data = append(make([]byte, 0, max(leastChunk, 2*size)), c.data...)
	return true
}

// note keeps what is known of the chunk as a whole, and says yes.
func (c *chunk) note(r record) bool {
	k := r.key()
	if c.count == 0 || k.Less(c.min) {
		c.min = k
	}
	if c.count == 0 || c.max.Less(k) {
		c.max = k
	}
	c.last, c.lane = r.offset, r.lane
	c.count++
	return true
}

// records appends what is in the chunk to dst.
func (c *chunk) records(dst []record) []record {
	data := c.data
	offset, n := binary.Varint(data)
	data = data[n:]
	lane := uint32(0)
	mask := ^uint64(0) >> (64 - 8*uint(c.width))
	for len(data) > 0 {
		head, n := uvarint(data)
		data = data[n:]
		if head&1 != 0 {
			v, n := binary.Uvarint(data)
			lane, data = uint32(v), data[n:]
		}
		step := head >> 1
		offset += int64(step>>1) ^ -int64(step&1)
		due := uint64(0)
		if len(data) >= 8 {
			due = binary.LittleEndian.Uint64(data) & mask
		} else {
			for i := range data[:c.width] {
				due |= uint64(data[i]) << (8 * i)
			}
		}
		data = data[c.width:]
		dst = append(dst, record{due: c.base + int64(due), offset: offset, lane: lane})
	}
	return dst
}

// uvarint is binary.Uvarint, faster for one and two bytes.
func uvarint(data []byte) (uint64, int) {
	if data[0] < 0x80 {
		return uint64(data[0]), 1
	}
	if len(data) > 1 && data[1] < 0x80 {
		return uint64(data[0]&0x7f) | uint64(data[1])<<7, 2
	}
	return binary.Uvarint(data)
}

// chunks is a min-heap of chunks by their least keys. Each knows its place.
type chunks []*chunk

func (h *chunks) push(c *chunk) {
	*h = append(*h, c)
	c.at = int32(len(*h) - 1)
	h.rise(c)
}

// rise moves a chunk up whose least key has become less.
func (h *chunks) rise(c *chunk) {
	s, i := *h, int(c.at)
	for i > 0 {
		parent := (i - 1) / 4
		if !c.min.Less(s[parent].min) {
			break
		}
		s[i] = s[parent]
		s[i].at = int32(i)
		i = parent
	}
	s[i], c.at = c, int32(i)
}

// pop removes the first chunk. What a burst left behind as unused capacity is given
// back once three quarters of it are idle.
func (h *chunks) pop() {
	s := *h
	last := s[len(s)-1]
	s[len(s)-1] = nil
	s = s[:len(s)-1]
	if len(s) > 0 {
		s.sink(last)
	}
	if n := cap(s); n > 64 && len(s) < n/4 {
		s = append(make([]*chunk, 0, n/2), s...)
	}
	*h = s
}

func (h chunks) sink(c *chunk) {
	i := 0
	for {
		least := h.least(4*i+1, 4*i+5)
		if least < 0 || !h[least].min.Less(c.min) {
			break
		}
		h[i] = h[least]
		h[i].at = int32(i)
		i = least
	}
	h[i], c.at = c, int32(i)
}

// least is the place of the first among those from <= i < to, or -1.
func (h chunks) least(from, to int) int {
	if from >= len(h) {
		return -1
	}
	least := from
	for i := from + 1; i < min(to, len(h)); i++ {
		if h[i].min.Less(h[least].min) {
			least = i
		}
	}
	return least
}
