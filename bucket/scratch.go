package bucket

import "sync"

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
