package offset

import (
	"math/bits"
	"slices"
)

const (
	pageShift = 12
	pageSize  = 1 << pageShift // offsets a page
	pageWords = pageSize / 64

	// A page with few pending offsets lists them (2 bytes each), one with many is a
	// bitset of 512 bytes. The thresholds differ so that a page at the border does
	// not go back and forth.
	fewMost  = 64
	fewAgain = 24
)

// page holds the pending offsets of one stretch of pageSize offsets.
type page struct {
	no    int64
	n     int
	first int // words of many before this one are empty
	few   []uint16
	many  *[pageWords]uint64
}

// pendingSet holds the pending offsets of a window. Pages exist only where something is
// pending, so a window of any length costs at most about one bit an offset where it is
// dense and next to nothing where it is not.
type pendingSet struct {
	pages []page // ascending; those before head are gone, others may be empty
	head  int
	holes int // empty pages behind head
	hit   int // where the last page was found
	n     int
	size  int64 // bytes of the pages' lists and bitsets
	spare *[pageWords]uint64
}

func (s *pendingSet) len() int { return s.n }

// bytes is what the set takes.
func (s *pendingSet) bytes() int64 {
	sum := s.size + int64(cap(s.pages))*pageBytes
	if s.spare != nil {
		sum += wordsBytes
	}
	return sum
}

// add appends an offset greater than all that were added before.
func (s *pendingSet) add(offset int64) {
	no := offset >> pageShift
	last := len(s.pages) - 1
	if last < s.head || s.pages[last].no != no {
		s.pages = append(s.pages, page{no: no})
		last++
	} else if s.pages[last].n == 0 {
		s.holes--
	}
	s.n++
	p := &s.pages[last]
	p.n++
	at := uint16(offset & (pageSize - 1))
	if p.many == nil {
		if len(p.few) < fewMost {
			before := cap(p.few)
			p.few = append(p.few, at)
			s.size += int64(cap(p.few)-before) * fewBytes
			return
		}
		s.size += wordsBytes - int64(cap(p.few))*fewBytes
		p.widen(s.takeSpare())
	}
	p.many[at>>6] |= 1 << (at & 63)
}

func (s *pendingSet) takeSpare() *[pageWords]uint64 {
	w := s.spare
	if w == nil {
		return new([pageWords]uint64)
	}
	s.spare = nil
	*w = [pageWords]uint64{}
	return w
}

func (p *page) widen(words *[pageWords]uint64) {
	p.many, p.first = words, 0
	for _, at := range p.few {
		p.many[at>>6] |= 1 << (at & 63)
	}
	p.few = nil
}

func (p *page) narrow() {
	p.few = make([]uint16, 0, p.n+8)
	for w, word := range p.many {
		for ; word != 0; word &= word - 1 {
			p.few = append(p.few, uint16(w<<6|bits.TrailingZeros64(word)))
		}
	}
	p.many = nil
}

// find is the index of a page, or -1.
func (s *pendingSet) find(no int64) int {
	if s.hit >= s.head && s.hit < len(s.pages) && s.pages[s.hit].no == no {
		return s.hit
	}
	i := s.search(no)
	if i >= 0 {
		s.hit = i
	}
	return i
}

func (s *pendingSet) search(no int64) int {
	lo, hi := s.head, len(s.pages)
	if lo == hi {
		return -1
	}
	// As far from the first or the last page as the numbers say, unless pages are
	// missing in between; then it is nearer.
	if d := no - s.pages[lo].no; d >= 0 && d < int64(hi-lo) {
		if hi = lo + int(d) + 1; s.pages[hi-1].no == no {
			return hi - 1
		}
	}
	if d := s.pages[len(s.pages)-1].no - no; d >= 0 && d < int64(len(s.pages)-lo) {
		if lo = len(s.pages) - 1 - int(d); s.pages[lo].no == no {
			return lo
		}
	}
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if s.pages[mid].no < no {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(s.pages) && s.pages[lo].no == no {
		return lo
	}
	return -1
}

func (s *pendingSet) has(offset int64) bool {
	i := s.find(offset >> pageShift)
	if i < 0 {
		return false
	}
	p := &s.pages[i]
	at := uint16(offset & (pageSize - 1))
	if p.many != nil {
		return p.many[at>>6]>>(at&63)&1 == 1
	}
	_, ok := p.searchFew(at)
	return ok
}

func (p *page) searchFew(at uint16) (int, bool) {
	lo, hi := 0, len(p.few)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if p.few[mid] < at {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(p.few) && p.few[lo] == at
}

// remove says whether the offset was pending.
func (s *pendingSet) remove(offset int64) bool {
	i := s.find(offset >> pageShift)
	if i < 0 || !s.pages[i].remove(uint16(offset&(pageSize-1))) {
		return false
	}
	s.n--
	p := &s.pages[i]
	switch {
	case p.n == 0:
		s.size -= int64(cap(p.few)) * fewBytes
		if p.many != nil {
			s.size -= wordsBytes
			s.spare = p.many
		}
		p.few, p.many = nil, nil
		s.dropPage()
	case p.many != nil && p.n <= fewAgain:
		s.spare = p.many
		p.narrow()
		s.size += int64(cap(p.few))*fewBytes - wordsBytes
	}
	return true
}

func (p *page) remove(at uint16) bool {
	if p.many != nil {
		bit := uint64(1) << (at & 63)
		if p.many[at>>6]&bit == 0 {
			return false
		}
		p.many[at>>6] &^= bit
		p.n--
		return true
	}
	i, ok := p.searchFew(at)
	if ok {
		p.few = slices.Delete(p.few, i, i+1)
		p.n--
	}
	return ok
}

// dropPage accounts for one more page that has become empty.
func (s *pendingSet) dropPage() {
	s.holes++
	for s.head < len(s.pages) && s.pages[s.head].n == 0 {
		s.head++
		s.holes--
	}
	switch live := len(s.pages) - s.head; {
	case live == 0:
		s.pages, s.head = s.pages[:0], 0
	case s.head >= 16 && s.head > live, s.holes >= 16 && s.holes > live/2:
		s.compact()
	}
}

func (s *pendingSet) compact() {
	kept := s.pages[:0]
	for _, p := range s.pages[s.head:] {
		if p.n > 0 {
			kept = append(kept, p)
		}
	}
	clear(s.pages[len(kept):])
	if cap(kept) > 64 && cap(kept) > 4*len(kept) {
		kept = slices.Clone(kept)
	}
	s.pages, s.head, s.holes = kept, 0, 0
}

// min is the smallest pending offset. The set must not be empty.
func (s *pendingSet) min() int64 {
	p := &s.pages[s.head]
	base := p.no << pageShift
	if p.many == nil {
		return base + int64(p.few[0])
	}
	// Offsets are added in ascending order: what was empty at the start of a page
	// stays empty, so the search goes on where the last one ended.
	for p.many[p.first] == 0 {
		p.first++
	}
	return base + int64(p.first<<6|bits.TrailingZeros64(p.many[p.first]))
}

// countFrom counts the pending offsets that are not below from.
func (s *pendingSet) countFrom(from int64) int64 {
	var n int64
	for i := len(s.pages) - 1; i >= s.head; i-- {
		p := &s.pages[i]
		if p.no < from>>pageShift {
			break
		}
		if p.no > from>>pageShift {
			n += int64(p.n)
			continue
		}
		n += int64(p.countFrom(uint16(from & (pageSize - 1))))
	}
	return n
}

func (p *page) countFrom(at uint16) int {
	if p.many == nil {
		i, _ := p.searchFew(at)
		return len(p.few) - i
	}
	n := bits.OnesCount64(p.many[at>>6] >> (at & 63))
	for _, w := range p.many[at>>6+1:] {
		n += bits.OnesCount64(w)
	}
	return n
}
