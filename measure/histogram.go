package measure

import (
	"math"
	"math/bits"
)

// Histogram counts values that are not negative in memory that does not grow with their
// number: small ones are exact, larger ones share a count with their neighbours, so that
// a percentile is at most 1/2^precision above a value that was counted, never below it.
type Histogram struct {
	precision uint
	counts    []uint64 // as long as the largest value needs
	n         uint64
	most      int64
}

// Precisions of the whole run and of a second of it.
const (
	finePrecision   = 10 // exact below 2048
	coarsePrecision = 5  // exact below 64
)

// NewHistogram makes an empty one that is exact below 2048 and within 0.1 % above.
func NewHistogram() *Histogram { return &Histogram{precision: finePrecision} }

// Add counts a value; a negative one counts as 0.
func (h *Histogram) Add(v int64) { h.addMany(max(v, 0), 1) }

func (h *Histogram) addMany(v int64, n uint64) {
	i := h.index(v)
	if i >= len(h.counts) {
		h.counts = append(h.counts, make([]uint64, i+1-len(h.counts))...)
	}
	h.counts[i] += n
	h.n += n
	h.most = max(h.most, v)
}

// index is where a value is counted. Below 2^(precision+1) each has a place of its own;
// above, each power of two has 2^precision places.
func (h *Histogram) index(v int64) int {
	shift := max(bits.Len64(uint64(v))-int(h.precision)-1, 0)
	return shift<<h.precision + int(v>>shift)
}

// top is the largest value that is counted at a place.
func (h *Histogram) top(i int) int64 {
	shift := max(i>>h.precision-1, 0)
	low := int64(i-shift<<h.precision) << shift
	return low + 1<<shift - 1
}

// Percentile is the least value that p percent of all are not above; 0 of none.
func (h *Histogram) Percentile(p float64) int64 {
	if h.n == 0 {
		return 0
	}
	rank := max(uint64(math.Ceil(float64(h.n)*p/100)), 1)
	var seen uint64
	for i, n := range h.counts {
		if seen += n; seen >= rank {
			return min(h.top(i), h.most)
		}
	}
	return h.most
}

// Count is how many values there are.
func (h *Histogram) Count() int { return int(h.n) }

// Max is the largest value; 0 of none.
func (h *Histogram) Max() int64 { return h.most }

// merge adds all of another one of the same precision.
func (h *Histogram) merge(o *Histogram) {
	if len(o.counts) > len(h.counts) {
		h.counts = append(h.counts, make([]uint64, len(o.counts)-len(h.counts))...)
	}
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.n += o.n
	h.most = max(h.most, o.most)
}
