package measure

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// exact is the percentile by sorting.
func exact(values []int64, p float64) int64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(int(math.Ceil(float64(len(sorted))*p/100)), 1)-1]
}

func TestPercentilesAreNeverBelowTheTruthAndHardlyAbove(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, precision := range []uint{finePrecision, coarsePrecision} {
		for range 200 {
			h := &Histogram{precision: precision}
			var values []int64
			span := int64(1) << r.IntN(40)
			for range 1 + r.IntN(300) {
				v := r.Int64N(span + 1)
				values = append(values, v)
				h.Add(v)
			}
			for _, p := range []float64{0, 1, 50, 99, 99.9, 100} {
				want, got := exact(values, p), h.Percentile(p)
				require.GreaterOrEqual(t, got, want, "p%v", p)
				require.LessOrEqual(t, got, want+want>>precision, "p%v, precision %d", p, precision)
			}
			require.Equal(t, slices.Max(values), h.Max())
			require.Equal(t, len(values), h.Count())
		}
	}
}

func TestHistogramStaysSmallWhateverIsCounted(t *testing.T) {
	h := NewHistogram()
	for shift := range 63 {
		h.Add(1<<shift - 1)
	}
	h.Add(math.MaxInt64)
	require.LessOrEqual(t, len(h.counts), 64<<finePrecision)
	require.Equal(t, int64(math.MaxInt64), h.Percentile(100))
}

func TestNegativeValuesCountAsNoneAndNothingHasZeroes(t *testing.T) {
	h := NewHistogram()
	require.Zero(t, h.Percentile(99))
	h.Add(-5)
	require.Equal(t, 1, h.Count())
	require.Zero(t, h.Percentile(99))
}

func TestMergedHistogramsCountAsOne(t *testing.T) {
	a, b := NewHistogram(), NewHistogram()
	a.Add(1)
	b.Add(5000)
	b.Add(3)
	a.merge(b)
	require.Equal(t, 3, a.Count())
	require.Equal(t, int64(3), a.Percentile(50))
	require.Equal(t, int64(5000), a.Max())
}
