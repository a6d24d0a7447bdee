package kafka

import (
	"sync"
	"sync/atomic"

	"delay-scheduler/delay"
	"delay-scheduler/scheduler"
)

// sheet is the memory that a page is decoded into: records and their headers, as much
// again as the bytes that they alias.
type sheet struct {
	records []delay.Record
	headers headerSlab
}

// sheetRecords is the most that a sheet has room for when it is kept. Pages of very
// small records have more.
const sheetRecords = 1 << 15

// sheets are those that are not in use. The collector takes what stays unused.
type sheets struct{ free sync.Pool }

func (s *sheets) take() *sheet {
	if kept, ok := s.free.Get().(*sheet); ok {
		return kept
	}
	return new(sheet)
}

// put takes one back. It is emptied: what it aliases is somebody else's from now on, and
// who uses it nevertheless is to find nothing rather than another record.
func (s *sheets) put(used *sheet) {
	if cap(used.records) > sheetRecords {
		return
	}
	clear(used.records)
	used.records = used.records[:0]
	used.headers.reset()
	s.free.Put(used)
}

// loan is a part of a response that is passed on in one or more pages. When the stream
// has passed on all of it and the receiver has given back every page, the next response
// is read into the same bytes. A page that is never given back is the collector's.
type loan struct {
	part  *part
	users atomic.Int32
}

// lend begins one, with the stream as its user.
func lend(p *part) *loan {
	l := &loan{part: p}
	l.users.Store(1)
	return l
}

// end says that one user is done.
func (l *loan) end() {
	if l.users.Add(-1) == 0 {
		l.part.release()
	}
}

// page gives the receiver a page of it.
func (l *loan) page(s *sheets, used *sheet, records []delay.Record) scheduler.Batch {
	l.users.Add(1)
	var once atomic.Bool
	return scheduler.Batch{Records: records, Release: func() {
		if !once.Swap(true) {
			s.put(used)
			l.end()
		}
	}}
}
