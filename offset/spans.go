package offset

import (
	"math/bits"
	"slices"
)

// sorter makes spans of offsets. It keeps its buffers from one time to the next, unless
// they were needed for something unusual.
type sorter struct {
	offsets, other []int64
}

const usualOffsets = 1 << 16

// release ends the use of a buffer that came from s.offsets.
func (s *sorter) release(offsets []int64) {
	if cap(s.offsets) < cap(offsets) {
		s.offsets = offsets[:0]
	}
	if cap(s.offsets) > usualOffsets {
		s.offsets = nil
	}
	if cap(s.other) > usualOffsets {
		s.other = nil
	}
}

// spans sorts offsets, which are all different, and joins neighbours.
func (s *sorter) spans(offsets []int64) []span {
	if len(offsets) == 0 {
		return nil
	}
	offsets = s.sort(offsets)
	n := 1
	for i := 1; i < len(offsets); i++ {
		if offsets[i] != offsets[i-1]+1 {
			n++
		}
	}
	out := make([]span, 0, n)
	for i, o := range offsets {
		if i > 0 && out[len(out)-1].to == o {
			out[len(out)-1].to++
			continue
		}
		out = append(out, span{o, o + 1})
	}
	return out
}

const radixBits = 11

// sort returns the sorted offsets, in their own place or in the other buffer. A partition with several
// lanes in trouble has hundreds of thousands of exceptions once a second: a radix sort by
// distance from the least takes a few milliseconds, a comparison sort ten times that.
func (s *sorter) sort(offsets []int64) []int64 {
	if len(offsets) < 512 {
		slices.Sort(offsets)
		return offsets
	}
	least, most := slices.Min(offsets), slices.Max(offsets)
	if cap(s.other) < len(offsets) {
		s.other = make([]int64, cap(offsets))
	}
	from, to := offsets, s.other[:len(offsets)]
	for shift := 0; shift < bits.Len64(uint64(most-least)); shift += radixBits {
		var at [1 << radixBits]int
		for _, o := range from {
			at[uint64(o-least)>>shift&(1<<radixBits-1)]++
		}
		sum := 0
		for i, n := range at {
			at[i] = sum
			sum += n
		}
		for _, o := range from {
			d := uint64(o-least) >> shift & (1<<radixBits - 1)
			to[at[d]] = o
			at[d]++
		}
		from, to = to, from
	}
	return from
}
