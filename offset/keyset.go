package offset

import (
	"slices"
	"sort"
)

const (
	blockMost  = 256 // keys a block, 4 KiB
	blockLeast = 8   // what a block starts with, so that a thousand lanes of one record stay small
)

// block is a sorted run of keys within a buffer. It has room at both ends: keys come at
// the back and go at the front most of the time.
type block struct {
	buf    []Key
	lo, hi int
}

func (b *block) keys() []Key { return b.buf[b.lo:b.hi] }
func (b *block) len() int    { return b.hi - b.lo }
func (b *block) min() Key    { return b.buf[b.lo] }
func (b *block) max() Key    { return b.buf[b.hi-1] }

// search is the place of k and whether it is there.
func (b *block) search(k Key) (int, bool) {
	keys := b.keys()
	if b.max().less(k) {
		return len(keys), false
	}
	lo, hi := 0, len(keys)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if keys[mid].less(k) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, keys[lo] == k
}

// insert puts k at place at. The block must not be full.
func (b *block) insert(at int, k Key) {
	if b.hi == len(b.buf) && (b.lo == 0 || at == b.len()) {
		b.makeRoom()
	}
	front := b.lo > 0 && (b.hi == len(b.buf) || at < b.len()/2)
	if front {
		copy(b.buf[b.lo-1:], b.buf[b.lo:b.lo+at])
		b.lo--
	} else {
		copy(b.buf[b.lo+at+1:b.hi+1], b.buf[b.lo+at:b.hi])
		b.hi++
	}
	b.buf[b.lo+at] = k
}

// makeRoom makes room at the back: by moving to the front of the buffer if that is worth
// it, else by a larger buffer if there is one.
func (b *block) makeRoom() {
	switch {
	case b.lo >= len(b.buf)/2:
		b.hi = copy(b.buf, b.keys())
		b.lo = 0
	case len(b.buf) < blockMost:
		buf := make([]Key, 2*len(b.buf))
		b.hi = copy(buf, b.keys())
		b.buf, b.lo = buf, 0
	}
}

func (b *block) remove(at int) {
	if at < b.len()/2 {
		copy(b.buf[b.lo+1:], b.buf[b.lo:b.lo+at])
		b.lo++
		return
	}
	copy(b.buf[b.lo+at:], b.buf[b.lo+at+1:b.hi])
	b.hi--
}

// keySet is an ordered set of keys: a list of blocks. A change costs a search and a
// move within one block, also when there are hundreds of thousands of keys.
type keySet struct {
	blocks []block
	n      int
	spare  []Key // the buffer of the last block that was emptied
	keys   int   // room in all buffers, the spare one included
}

func (s *keySet) len() int { return s.n }

// bytes is what the set takes beside its own struct.
func (s *keySet) bytes() int64 {
	return int64(s.keys)*keyBytes + int64(cap(s.blocks))*blockBytes
}

// min is the smallest key. The set must not be empty.
func (s *keySet) min() Key { return s.blocks[0].min() }

// locate is the index of the block in which k is or would be.
func (s *keySet) locate(k Key) int {
	last := len(s.blocks) - 1
	if last <= 0 || !k.less(s.blocks[last].min()) {
		return last
	}
	if k.less(s.blocks[1].min()) {
		return 0
	}
	return sort.Search(last, func(i int) bool { return k.less(s.blocks[i].min()) }) - 1
}

// insert says whether k is new.
func (s *keySet) insert(k Key) bool {
	i := s.locate(k)
	if i < 0 {
		s.blocks = append(s.blocks, s.newBlock(k, blockLeast))
		s.n++
		return true
	}
	b := &s.blocks[i]
	at, found := b.search(k)
	if found {
		return false
	}
	s.n++
	last := i == len(s.blocks)-1
	switch {
	case last && at == b.len() && b.hi == blockMost && b.lo < blockMost/2:
		// The usual case of a long set. The block may have some room at its front,
		// but moving all of it for every key would cost more than another block.
		s.blocks = append(s.blocks, s.newBlock(k, blockMost))
		return true
	case b.len() == blockMost:
		i, at = s.split(i, at)
		b = &s.blocks[i]
	}
	before := len(b.buf)
	b.insert(at, k)
	s.keys += len(b.buf) - before
	return true
}

func (s *keySet) newBlock(k Key, size int) block {
	buf := s.spare
	if buf == nil {
		buf = make([]Key, size)
		s.keys += size
	}
	s.spare = nil
	buf[0] = k
	return block{buf: buf, hi: 1}
}

// split halves block i and says where place at is now.
func (s *keySet) split(i, at int) (int, int) {
	const half = blockMost / 2
	upper := block{buf: make([]Key, blockMost), hi: half}
	s.keys += blockMost
	copy(upper.buf, s.blocks[i].keys()[half:])
	s.blocks[i].hi -= half
	s.blocks = slices.Insert(s.blocks, i+1, upper)
	if at > half {
		return i + 1, at - half
	}
	return i, at
}

// remove says whether k was there.
func (s *keySet) remove(k Key) bool {
	i := s.locate(k)
	if i < 0 {
		return false
	}
	b := &s.blocks[i]
	at, found := b.search(k)
	if !found {
		return false
	}
	b.remove(at)
	s.n--
	if b.len() == 0 {
		s.keys -= len(s.spare)
		s.spare = b.buf
		s.blocks = slices.Delete(s.blocks, i, i+1)
		return true
	}
	if b.len() < blockMost/4 && len(s.blocks) > 1 {
		s.merge(i)
	}
	return true
}

// merge joins block i with a neighbour when both are nearly empty, so that a set that
// shrank at random does not keep a block a key.
func (s *keySet) merge(i int) {
	if i > 0 && s.blocks[i-1].len()+s.blocks[i].len() <= blockMost/2 {
		i--
	} else if i+1 >= len(s.blocks) || s.blocks[i].len()+s.blocks[i+1].len() > blockMost/2 {
		return
	}
	buf := make([]Key, blockMost)
	n := copy(buf, s.blocks[i].keys())
	n += copy(buf[n:], s.blocks[i+1].keys())
	s.keys += blockMost - len(s.blocks[i].buf) - len(s.blocks[i+1].buf)
	s.blocks[i] = block{buf: buf, hi: n}
	s.blocks = slices.Delete(s.blocks, i+1, i+2)
}

// countTo counts the keys not after k, looking from the front: cheap when they are few.
func (s *keySet) countTo(k Key) int {
	n := 0
	for i := range s.blocks {
		b := &s.blocks[i]
		if k.less(b.min()) {
			break
		}
		if !k.less(b.max()) {
			n += b.len()
			continue
		}
		return n + b.countTo(k)
	}
	return n
}

// countAfter counts the keys after k, looking from the back.
func (s *keySet) countAfter(k Key) int {
	n := 0
	for i := len(s.blocks) - 1; i >= 0; i-- {
		b := &s.blocks[i]
		if !k.less(b.max()) {
			break
		}
		if k.less(b.min()) {
			n += b.len()
			continue
		}
		return n + b.len() - b.countTo(k)
	}
	return n
}

func (b *block) countTo(k Key) int {
	at, found := b.search(k)
	if found {
		at++
	}
	return at
}

// appendOffsets appends the offsets of the keys not after k.
func (s *keySet) appendOffsets(dst []int64, k Key) []int64 {
	for i := range s.blocks {
		b := &s.blocks[i]
		if k.less(b.min()) {
			break
		}
		for _, key := range b.keys()[:b.countTo(k)] {
			dst = append(dst, key.Offset)
		}
	}
	return dst
}
