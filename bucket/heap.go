package bucket

// ordered is what a heap can hold.
type ordered[T any] interface{ before(other T) bool }

// heap is a min-heap of four children to a node, which has half the levels of a
// binary one and so half the cache misses. container/heap would box every second
// that is pushed.
type heap[T ordered[T]] []T

func (h *heap[T]) push(v T) {
	*h = append(*h, v)
	s := *h
	i := len(s) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !v.before(s[parent]) {
			break
		}
		s[i] = s[parent]
		i = parent
	}
	s[i] = v
}

// pop removes the least element, which must exist. What a burst left behind as
// unused capacity is given back once three quarters of it are idle.
func (h *heap[T]) pop() T {
	s := *h
	top, last := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	if len(s) > 0 {
		sink(s, last)
	}
	if c := cap(s); c > 256 && len(s) < c/4 {
		s = append(make([]T, 0, c/2), s...)
	}
	*h = s
	return top
}

// sink puts v at the root and lets it sink to its place.
func sink[T ordered[T]](s []T, v T) {
	i := 0
	for {
		least := 4*i + 1
		if least >= len(s) {
			break
		}
		for child := least + 1; child < min(4*i+5, len(s)); child++ {
			if s[child].before(s[least]) {
				least = child
			}
		}
		if !s[least].before(v) {
			break
		}
		s[i] = s[least]
		i = least
	}
	s[i] = v
}
