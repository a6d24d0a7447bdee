package offset

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// way is how a span may be written while a list is planned: a kind, and for sparse blocks
// a parameter. Every second parameter is enough, because a block is written with the best
// one of its neighbourhood.
type way uint8

const (
	wayRuns way = iota
	wayBitset
	waySparse // with parameter 2, and so on in steps of 2 up to 14
	ways      = waySparse + 7
)

func (w way) kind() blockKind {
	switch w {
	case wayRuns:
		return runs
	case wayBitset:
		return bitset
	}
	return sparse
}

func (w way) parameter() int { return 2 + 2*int(w-waySparse) }

// step is how the cheapest list reached a span: the way of the span before it, and
// whether the block goes on.
type step uint8

const goesOn step = 1 << 7

func (s step) way() way { return way(s &^ goesOn) }

// Costs are in bits.
type costs [ways]int64

const (
	headerBits = 32                // of a block: more than 2^26 offsets in it fit no limit
	listBytes  = 5                 // the number of blocks
	longSpan   = int64(1) << 40    // a longer one is never written bit by bit
	unpayable  = math.MaxInt64 / 4 // more than any list
)

// listPlan finds the cheapest way to write a list of spans, and each prefix of it: a
// shortest path on which keeping to a way continues a block and all else begins one.
type listPlan struct {
	spans []span
	base  int64
	cost  []int64      // of the first i spans
	steps [][ways]step // to span i, for each way to write it
	last  []way        // of span i where it is the last one
}

// newListPlan plans a list whose offsets count from base. The first span may begin before.
func newListPlan(spans []span, base int64) listPlan {
	if len(spans) > 0 && spans[0].from < base {
		spans = slices.Clone(spans) // others have it too
		spans[0].from = base
	}
	p := listPlan{
		spans: spans, base: base,
		cost:  make([]int64, len(spans)+1),
		steps: make([][ways]step, len(spans)),
		last:  make([]way, len(spans)),
	}
	var cost costs
	for w := range cost {
		cost[w] = unpayable
	}
	end, best := base, wayRuns
	for i, sp := range spans {
		begin, stay := spanCosts(sp.from-end, sp.to-sp.from)
		before := p.cost[i] + headerBits
		steps := &p.steps[i]
		next := wayRuns
		for w := range cost {
			c := cost[w] + stay[w]
			steps[w] = step(w) | goesOn
			if fresh := before + begin[w]; fresh < c {
				c = fresh
				steps[w] = step(best)
			}
			cost[w] = c
			if c < cost[next] {
				next = way(w)
			}
		}
		best = next
		p.last[i] = best
		p.cost[i+1] = cost[best]
		end = sp.to
	}
	return p
}

// spanCosts is what a span costs in each way, where it begins a block and where not.
func spanCosts(gap, length int64) (begin, stay costs) {
	skipped := 8 * varintLen(uint64(gap))
	stay[wayRuns] = skipped + 8*varintLen(uint64(length-1))
	begin[wayRuns] = stay[wayRuns]
	gap, length = min(gap, longSpan), min(length, longSpan)
	stay[wayBitset] = gap + length
	begin[wayBitset] = skipped + length + 7 // part of a byte is a byte
	for w := waySparse; w < ways; w++ {
		k := w.parameter()
		inner := (length - 1) * int64(1+k)
		stay[w] = gap>>k + int64(1+k) + inner
		begin[w] = skipped + 8 + inner + 7
	}
	return begin, stay
}

// varintLen is the number of bytes of an unsigned varint.
func varintLen(v uint64) int64 { return int64(bits.Len64(v|1)+6) / 7 }

// below is the number of spans that begin below cut.
func (p *listPlan) below(cut int64) int {
	i, _ := slices.BinarySearchFunc(p.spans, cut, func(s span, cut int64) int {
		if s.from < cut {
			return -1
		}
		return 1
	})
	return i
}

// size is not less than what append takes for the same cut.
func (p *listPlan) size(cut int64) int64 {
	n := p.below(cut)
	if n == 0 {
		return 0
	}
	return listBytes + (p.cost[n]+7)/8
}

// append writes the offsets below cut. Nothing is written if there are none.
func (p *listPlan) append(dst []byte, cut int64) []byte {
	n := p.below(cut)
	if n == 0 {
		return dst
	}
	spans := p.spans[:n]
	if last := spans[n-1]; last.to > cut {
		spans = slices.Clone(spans)
		spans[n-1].to = cut
	}
	var begins []int // the first spans of the blocks, from the last block to the first
	var how []way
	for i, w := n-1, p.last[n-1]; i >= 0; i-- {
		s := p.steps[i][w]
		if s&goesOn == 0 {
			begins = append(begins, i)
			how = append(how, w)
		}
		w = s.way()
	}
	dst = binary.AppendUvarint(dst, uint64(len(begins)))
	end := p.base
	for b, from := range slices.Backward(begins) {
		to := n
		if b > 0 {
			to = begins[b-1]
		}
		dst = appendBlock(dst, how[b], spans[from:to], end)
		end = spans[to-1].to
	}
	return dst
}
