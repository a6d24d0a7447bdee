package offset

import "encoding/binary"

// blockKind is how a block of exceptions is written. A list is a number of blocks, each
// in the kind that is the smallest for its stretch of offsets:
//
//	runs    n, and n times: offsets skipped, length - 1
//	bitset  n, offsets skipped, n bytes, lowest bit first
//	sparse  n, offsets skipped before the first, and if n > 1 a parameter k and n-1 times
//	        the offsets skipped before the next: the quotient by 2^k as so many ones and
//	        a zero, then the remainder in k bits (Rice's code: the gaps of what is
//	        strewn at random take half a bit more than they hold)
type blockKind uint8

const (
	runs blockKind = iota
	bitset
	sparse
	blockKinds
)

const maxParameter = 40

// String names the kind for people.
func (k blockKind) String() string {
	return [...]string{"runs", "bitset", "sparse", "unknown"}[min(k, blockKinds)]
}

// appendBlock writes one block. The offset that its first gap counts from is end.
func appendBlock(dst []byte, w way, spans []span, end int64) []byte {
	switch w.kind() {
	case sparse:
		return appendSparse(dst, w.parameter(), spans, end)
	case bitset:
		return appendBitset(dst, spans, end)
	}
	dst = appendBlockHeader(dst, runs, int64(len(spans)))
	for _, sp := range spans {
		dst = binary.AppendUvarint(dst, uint64(sp.from-end))
		dst = binary.AppendUvarint(dst, uint64(sp.to-sp.from-1))
		end = sp.to
	}
	return dst
}

func appendBlockHeader(dst []byte, kind blockKind, n int64) []byte {
	return binary.AppendUvarint(dst, uint64(n)<<2|uint64(kind))
}

func appendBitset(dst []byte, spans []span, end int64) []byte {
	first := spans[0].from
	n := (spans[len(spans)-1].to - first + 7) / 8
	dst = appendBlockHeader(dst, bitset, n)
	dst = binary.AppendUvarint(dst, uint64(first-end))
	at := len(dst)
	dst = append(dst, make([]byte, n)...)
	for _, sp := range spans {
		for o := sp.from - first; o < sp.to-first; o++ {
			dst[at+int(o>>3)] |= 1 << (o & 7)
		}
	}
	return dst
}

func appendSparse(dst []byte, k int, spans []span, end int64) []byte {
	n := count(spans, spans[len(spans)-1].to)
	dst = appendBlockHeader(dst, sparse, n)
	dst = binary.AppendUvarint(dst, uint64(spans[0].from-end))
	if n == 1 {
		return dst
	}
	k = bestParameter(k, spans)
	dst = append(dst, byte(k))
	w := bitWriter{dst: dst}
	for i, sp := range spans {
		if i > 0 {
			w.rice(uint64(sp.from-end), k)
		}
		for o := sp.from + 1; o < sp.to; o++ {
			w.rice(0, k)
		}
		end = sp.to
	}
	return w.bytes()
}

// bestParameter is the best one next to k.
func bestParameter(k int, spans []span) int {
	best, least := k, int64(-1)
	for try := max(k-2, 0); try <= k+2; try++ {
		var cost int64
		for i, sp := range spans {
			cost += (sp.to - sp.from - 1) * int64(try+1)
			if i > 0 {
				cost += (sp.from-spans[i-1].to)>>try + int64(try+1)
			}
		}
		if least < 0 || cost < least {
			best, least = try, cost
		}
	}
	return best
}

// bitWriter appends bits, lowest first.
type bitWriter struct {
	dst []byte
	acc uint64
	n   int
}

// put appends the n lowest bits of v, at most 56; the others must be zero.
func (w *bitWriter) put(v uint64, n int) {
	w.acc |= v << w.n
	for w.n += n; w.n >= 8; w.n -= 8 {
		w.dst = append(w.dst, byte(w.acc))
		w.acc >>= 8
	}
}

func (w *bitWriter) rice(v uint64, k int) {
	q := v >> k
	for ; q >= 32; q -= 32 {
		w.put(1<<32-1, 32)
	}
	w.put(1<<q-1, int(q)+1)
	w.put(v&(1<<k-1), k)
}

func (w *bitWriter) bytes() []byte {
	if w.n > 0 {
		w.dst = append(w.dst, byte(w.acc))
	}
	return w.dst
}

// bitReader reads what bitWriter wrote.
type bitReader struct {
	rest []byte
	acc  uint64
	n    int
}

// get reads n bits, at most 56.
func (r *bitReader) get(n int) (uint64, bool) {
	for r.n < n {
		if len(r.rest) == 0 {
			return 0, false
		}
		r.acc |= uint64(r.rest[0]) << r.n
		r.rest = r.rest[1:]
		r.n += 8
	}
	v := r.acc & (1<<n - 1)
	r.acc >>= n
	r.n -= n
	return v, true
}

func (r *bitReader) rice(k int) (uint64, bool) {
	var q uint64
	for {
		bit, ok := r.get(1)
		if !ok || q > uint64(maxOffset)>>k {
			return 0, false
		}
		if bit == 0 {
			break
		}
		q++
	}
	low, ok := r.get(k)
	return q<<k | low, ok
}

// count is the number of offsets below cut.
func count(spans []span, cut int64) int64 {
	var n int64
	for _, sp := range spans {
		if sp.from >= cut {
			break
		}
		n += min(sp.to, cut) - sp.from
	}
	return n
}
