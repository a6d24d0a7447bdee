package offset

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d (-offset.seed=%d)", seed, seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func TestKeySetAgreesWithASortedSlice(t *testing.T) {
	r := seeded(t)
	for _, space := range []int64{50, 5000, 1 << 40} {
		var s keySet
		var model []Key
		grow := 0.7
		for i := range 30_000 {
			if i%5000 == 0 {
				grow = 0.1 + 0.8*r.Float64()
			}
			k := Key{r.Int64N(space), r.Int64N(3)}
			if len(model) > 0 && r.Float64() > grow {
				k = model[r.IntN(len(model))]
				if r.IntN(3) == 0 {
					k = model[0]
				}
			}
			at, found := slices.BinarySearchFunc(model, k, Key.Compare)
			if r.Float64() < grow {
				require.Equal(t, !found, s.insert(k))
				if !found {
					model = slices.Insert(model, at, k)
				}
			} else {
				require.Equal(t, found, s.remove(k))
				if found {
					model = slices.Delete(model, at, at+1)
				}
			}
			if i%500 == 0 {
				requireSameKeys(t, &s, model, Key{r.Int64N(space), r.Int64N(3)})
			}
		}
		require.LessOrEqual(t, len(s.blocks), 2+4*len(model)/(blockMost/2))
	}
}

func requireSameKeys(t *testing.T, s *keySet, model []Key, k Key) {
	t.Helper()
	require.NoError(t, s.verify())
	require.True(t, slices.Equal(model, s.all()))
	if len(model) > 0 {
		require.Equal(t, model[0], s.min())
	}
	to := 0
	var offsets []int64
	for _, m := range model {
		if !k.less(m) {
			to++
			offsets = append(offsets, m.Offset)
		}
	}
	require.Equal(t, to, s.countTo(k))
	require.Equal(t, len(model)-to, s.countAfter(k))
	require.Equal(t, offsets, s.appendOffsets(nil, k))
}

func TestPendingSetAgreesWithASortedSlice(t *testing.T) {
	r := seeded(t)
	for _, gap := range []int64{1, 2, 100, 3000, 100_000} {
		var s pendingSet
		var model []int64
		next := r.Int64N(10_000)
		for i := range 40_000 {
			if i/4000%2 == 0 || len(model) == 0 {
				next += 1 + r.Int64N(gap)
				s.add(next)
				model = append(model, next)
			} else {
				o := model[r.IntN(len(model))]
				switch r.IntN(4) {
				case 0:
					o = model[0]
				case 1:
					o = model[len(model)-1]
				case 2:
					o += r.Int64N(5000) - 2500
				}
				at, found := slices.BinarySearch(model, o)
				require.Equal(t, found, s.has(o))
				require.Equal(t, found, s.remove(o))
				if found {
					model = slices.Delete(model, at, at+1)
				}
			}
			if len(model) > 0 {
				require.Equal(t, model[0], s.min())
			}
			if i%500 == 0 {
				require.NoError(t, s.verify())
				from := next - r.Int64N(20_000)
				at, _ := slices.BinarySearch(model, from)
				require.Equal(t, int64(len(model)-at), s.countFrom(from))
			}
		}
	}
}

func TestSpansAreSortedAndJoined(t *testing.T) {
	r := seeded(t)
	for _, n := range []int{0, 1, 10, 511, 512, 5000} {
		for _, space := range []int64{8192, 1 << 20, 1 << 50} {
			base := r.Int64N(1 << 50)
			seen := map[int64]bool{}
			var offsets []int64
			for len(offsets) < n {
				if o := base + r.Int64N(space); !seen[o] {
					seen[o] = true
					offsets = append(offsets, o)
				}
			}
			var s sorter
			spans := s.spans(slices.Clone(offsets))
			slices.Sort(offsets)
			var got []int64
			for i, sp := range spans {
				require.True(t, i == 0 || spans[i-1].to < sp.from)
				for o := sp.from; o < sp.to; o++ {
					got = append(got, o)
				}
			}
			require.Equal(t, len(offsets), len(got))
			require.True(t, slices.Equal(offsets, got))
		}
	}
}
