package bucket

import (
	"cmp"
	"math/bits"
	"slices"
	"sync"
)

// scratch is room for records that are between two places.
type scratch struct{ records []record }

// scratches are shared by all indexes: a thousand of them are idle most of the time.
var scratches = sync.Pool{New: func() any { return new(scratch) }}

// mostScratch is the number of records beyond which room is not kept.
const mostScratch = 1 << 16

func takeScratch() *scratch { return scratches.Get().(*scratch) }

func (s *scratch) release() {
	if cap(s.records) > mostScratch {
		return
	}
	s.records = s.records[:0]
	scratches.Put(s)
}

// sel puts the k-th record by key at place k, with none after it that is less, and none
// before it that is greater.
func sel(s []record, k int) {
	for len(s) > 1 {
		at := pivot(s)
		switch {
		case k < at:
			s = s[:at]
		case k > at:
			s, k = s[at+1:], k-at-1
		default:
			return
		}
	}
}

// pivot picks one of s and gives the place where it belongs, with s divided around it.
func pivot(s []record) int {
	mid, last := len(s)/2, len(s)-1
	if s[mid].key().Less(s[0].key()) {
		s[mid], s[0] = s[0], s[mid]
	}
	if s[last].key().Less(s[0].key()) {
		s[last], s[0] = s[0], s[last]
	}
	if s[mid].key().Less(s[last].key()) {
		s[mid], s[last] = s[last], s[mid]
	}
	p := s[last].key() // the median of the three
	at := 0
	for i := range s[:last] {
		if s[i].key().Less(p) {
			s[i], s[at] = s[at], s[i]
			at++
		}
	}
	s[at], s[last] = s[last], s[at]
	return at
}

// divide writes records to dst by their digits, those with one digit in the order in
// which they were, and gives the end of each digit's.
func divide(records []record, dst *[]record, digit func(record) uint8) (ends [256]int) {
	for _, r := range records {
		ends[digit(r)]++
	}
	sum := 0
	for i, n := range ends {
		ends[i] = sum
		sum += n
	}
	*dst = slices.Grow((*dst)[:0], len(records))[:len(records)]
	for _, r := range records {
		d := digit(r)
		(*dst)[ends[d]] = r
		ends[d]++
	}
	return ends
}

// radixFrom is the number of records from which a sort by digits is faster.
const radixFrom = 400

// sortOffsets orders records by their offsets.
func sortOffsets(records []record) {
	byOffset := func(a, b record) int { return cmp.Compare(a.offset, b.offset) }
	if len(records) < radixFrom {
		slices.SortFunc(records, byOffset)
		return
	}
	least, greatest, sorted := records[0].offset, records[0].offset, true
	for i, r := range records {
		sorted = sorted && (i == 0 || records[i-1].offset <= r.offset)
		least, greatest = min(least, r.offset), max(greatest, r.offset)
	}
	if sorted {
		return
	}
	s := takeScratch()
	from, to := &records, &s.records
	for shift := 0; shift < bits.Len64(uint64(greatest)-uint64(least)); shift += 8 {
		divide(*from, to, func(r record) uint8 { return uint8(uint64(r.offset-least) >> shift) })
		from, to = to, from
	}
	if from != &records {
		copy(records, *from)
	}
	s.release()
}
