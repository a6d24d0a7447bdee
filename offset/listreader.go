package offset

import "math/bits"

// listReader reads the blocks of one list of exceptions.
type listReader struct {
	*reader
	end   int64 // after the last offset read
	limit int64
	spans []span
}

// block reads one block and says of which kind it was.
func (l *listReader) block() blockKind {
	header := l.uvarint()
	kind, n := blockKind(header&3), header>>2
	// A number that cannot be true is found before the loop, not in it: each thing
	// takes a byte at least, a sparse offset a bit.
	most := uint64(len(l.rest))
	if kind == sparse {
		most *= 8
	}
	if n == 0 || n > most {
		l.fail()
		return kind
	}
	switch kind {
	case runs:
		for ; n > 0 && !l.bad; n-- {
			gap := l.offset()
			l.put(gap, l.offset()+1)
		}
	case bitset:
		l.bitset(int(n))
	case sparse:
		l.sparse(int(n))
	default:
		l.fail()
	}
	return kind
}

func (l *listReader) bitset(n int) {
	gap := l.offset()
	words := l.bytes(n)
	// The first bit is set, and so is one of the last byte.
	if l.bad || words[0]&1 == 0 || words[n-1] == 0 {
		l.fail()
		return
	}
	base := l.end + gap
	for i, w := range words {
		for ; w != 0 && !l.bad; w &= w - 1 {
			at := base + int64(i)*8 + int64(bits.TrailingZeros8(w))
			l.put(at-l.end, 1)
		}
	}
}

func (l *listReader) sparse(n int) {
	l.put(l.offset(), 1)
	if n == 1 {
		return
	}
	k := int(l.byte())
	if k > maxParameter {
		l.fail()
		return
	}
	b := bitReader{rest: l.rest}
	for ; n > 1 && !l.bad; n-- {
		gap, ok := b.rice(k)
		if !ok || gap > uint64(maxOffset) {
			l.fail()
			return
		}
		l.put(int64(gap), 1)
	}
	if b.acc != 0 {
		l.fail()
		return
	}
	if !l.bad {
		l.rest = b.rest
	}
}

// put adds a span that begins gap after the last one and joins it to that if there is
// nothing between.
func (l *listReader) put(gap, length int64) {
	if l.bad || gap > l.limit-l.end || length > l.limit-l.end-gap {
		l.fail()
		return
	}
	from := l.end + gap
	l.end = from + length
	if n := len(l.spans); n > 0 && l.spans[n-1].to == from {
		l.spans[n-1].to = l.end
		return
	}
	l.spans = append(l.spans, span{from, l.end})
}
