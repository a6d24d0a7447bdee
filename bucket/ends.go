package bucket

import "math/bits"

// ends is a min-max heap of the numbers of seconds: the least and the greatest can be
// had, and removed, at the price of a heap. Levels with an even number hold what is
// less than all below, the others what is greater.
type ends []int64

func (h ends) min() int64 { return h[0] }

func (h ends) max() int64 { return h[h.greatest()] }

// greatest is the place of the greatest number.
func (h ends) greatest() int {
	switch {
	case len(h) == 1:
		return 0
	case len(h) == 2 || h[1] > h[2]:
		return 1
	}
	return 2
}

// before says whether a comes before b on the levels that count: upwards where they are
// those of the least numbers.
func before(a, b int64, up bool) bool { return up == (a < b) && a != b }

func isMinLevel(i int) bool { return bits.Len(uint(i+1))&1 == 1 }

func (h *ends) push(v int64) {
	*h = append(*h, v)
	s := *h
	i := len(s) - 1
	if i == 0 {
		return
	}
	up, parent := isMinLevel(i), (i-1)/2
	if before(s[parent], v, up) {
		s[i] = s[parent]
		i, up = parent, !up
	}
	for i > 2 {
		grand := ((i-1)/2 - 1) / 2
		if !before(v, s[grand], up) {
			break
		}
		s[i] = s[grand]
		i = grand
	}
	s[i] = v
}

func (h *ends) popMin() { h.remove(0) }

func (h *ends) popMax() { h.remove(h.greatest()) }

// remove takes the least or the greatest out. What a burst left behind as unused
// capacity is given back once three quarters of it are idle.
func (h *ends) remove(i int) {
	s := *h
	last := len(s) - 1
	s[i] = s[last]
	s = s[:last]
	if i < last {
		s.sink(i)
	}
	if n := cap(s); n > 256 && len(s) < n/4 {
		s = append(make([]int64, 0, n/2), s...)
	}
	*h = s
}

// sink lets the number at i sink to its place.
func (h ends) sink(i int) {
	up := isMinLevel(i)
	for {
		next := h.below(i, up)
		if next < 0 || !before(h[next], h[i], up) {
			return
		}
		h[i], h[next] = h[next], h[i]
		if next <= 2*i+2 {
			return // a child
		}
		if parent := (next - 1) / 2; before(h[parent], h[next], up) {
			h[parent], h[next] = h[next], h[parent]
		}
		i = next
	}
}

// below is the place of the first among the children and grandchildren of i, or -1.
func (h ends) below(i int, up bool) int {
	best := -1
	consider := func(from, to int) {
		for j := from; j < min(to, len(h)); j++ {
			if best < 0 || before(h[j], h[best], up) {
				best = j
			}
		}
	}
	consider(2*i+1, 2*i+3)
	consider(4*i+3, 4*i+7)
	return best
}
