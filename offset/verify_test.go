package offset

import (
	"fmt"
	"slices"
)

// verify checks everything that has to hold between two calls of a tracker's methods.
func (t *Tracker) verify() error {
	if t.low > t.next || t.start > t.low {
		return fmt.Errorf("start %d, low %d, next %d", t.start, t.low, t.next)
	}
	if err := t.pending.verify(); err != nil {
		return fmt.Errorf("pending: %w", err)
	}
	low := t.next
	if t.pending.len() > 0 {
		low = t.pending.min()
	}
	if t.low != low {
		return fmt.Errorf("low is %d, should be %d", t.low, low)
	}
	if t.popped.less(t.done) {
		return fmt.Errorf("done %v is after popped %v", t.done, t.popped)
	}
	if err := t.verifyOpen(); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if t.early.keys.len() != len(t.early.lanes) {
		return fmt.Errorf("%d early keys, %d lanes", t.early.keys.len(), len(t.early.lanes))
	}
	for _, k := range t.early.keys.all() {
		if !t.popped.less(k) || t.pending.has(k.Offset) {
			return fmt.Errorf("early %v: popped is %v, pending %v", k, t.popped, t.pending.has(k.Offset))
		}
	}
	for _, s := range t.old {
		if s.to <= t.next {
			return fmt.Errorf("segment %d-%d is behind %d", s.from, s.to, t.next)
		}
	}
	return t.early.keys.verify()
}

func (t *Tracker) verifyOpen() error {
	n, idle := 0, 0
	seen := map[int64]bool{}
	for id, l := range t.open.lanes {
		if err := l.keys.verify(); err != nil {
			return err
		}
		if l.id != id || l.pinned && len(t.old) == 0 {
			return fmt.Errorf("lane %d: id %d, %d keys, pinned %v", id, l.id, l.keys.len(), l.pinned)
		}
		if t.done.less(l.done) {
			return fmt.Errorf("lane %d: done %v is after that of all, %v", id, l.done, t.done)
		}
		n += l.keys.len()
		if l.keys.len() == 0 && !l.pinned {
			idle++
		}
		for _, k := range l.keys.all() {
			if seen[k.Offset] || !t.pending.has(k.Offset) || t.popped.less(k) {
				return fmt.Errorf("lane %d: key %v is there twice, not pending or after popped %v", id, k, t.popped)
			}
			seen[k.Offset] = true
		}
	}
	if n != t.open.n || idle != t.open.idle || idle > idleLanes {
		return fmt.Errorf("%d keys and %d idle lanes, counted %d and %d", n, idle, t.open.n, t.open.idle)
	}
	return nil
}

func (s *pendingSet) verify() error {
	n, holes, size := 0, 0, 0
	for i, p := range s.pages[s.head:] {
		if i > 0 && p.no <= s.pages[s.head+i-1].no {
			return fmt.Errorf("page %d follows %d", p.no, s.pages[s.head+i-1].no)
		}
		if got := p.countFrom(0); p.n > 0 && got != p.n || p.n == 0 && (p.few != nil || p.many != nil) {
			return fmt.Errorf("page %d holds %d, counted %d", p.no, got, p.n)
		}
		if p.n == 0 {
			holes++
			if i == 0 {
				return fmt.Errorf("the first page is empty")
			}
		}
		n += p.n
		size += cap(p.few) * fewBytes
		if p.many != nil {
			size += wordsBytes
		}
	}
	if int64(size) != s.size {
		return fmt.Errorf("%d bytes, counted %d", size, s.size)
	}
	if n != s.n || holes != s.holes {
		return fmt.Errorf("%d pending and %d holes, counted %d and %d", n, holes, s.n, s.holes)
	}
	return nil
}

func (s *keySet) all() []Key {
	var keys []Key
	for _, b := range s.blocks {
		keys = append(keys, b.keys()...)
	}
	return keys
}

func (s *keySet) verify() error {
	keys := s.all()
	if len(keys) != s.n {
		return fmt.Errorf("%d keys, counted %d", len(keys), s.n)
	}
	room := len(s.spare)
	for _, b := range s.blocks {
		room += len(b.buf)
		if b.len() == 0 || len(b.buf) > blockMost {
			return fmt.Errorf("block of %d keys in a buffer of %d", b.len(), len(b.buf))
		}
	}
	if room != s.keys {
		return fmt.Errorf("room for %d keys, counted %d", room, s.keys)
	}
	for i := 1; i < len(keys); i++ {
		if !keys[i-1].less(keys[i]) {
			return fmt.Errorf("key %v follows %v", keys[i], keys[i-1])
		}
	}
	if !slices.IsSortedFunc(keys, Key.Compare) {
		return fmt.Errorf("not sorted")
	}
	return nil
}
