package bucket

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// farPatterns are ways in which the due times of far records lie, with what a record
// may take at most.
var farPatterns = []struct {
	name       string
	partitions int
	records    int64 // in all
	most       float64
	due        func(r *rand.Rand, i int64) int64
}{
	{"1500s/1", 1, 2_000_000, 6, func(r *rand.Rand, _ int64) int64 { return t0 + r.Int64N(1_500_000) }},
	{"1500s/12", 12, 2_000_000, 6, func(r *rand.Rand, _ int64) int64 { return t0 + r.Int64N(1_500_000) }},
	{"1500s/1000", 1000, 2_000_000, 10, func(r *rand.Rand, _ int64) int64 { return t0 + r.Int64N(1_500_000) }},
	{"90d/1", 1, 2_000_000, 8, func(r *rand.Rand, _ int64) int64 { return t0 + r.Int64N(90*86_400_000) }},
	{"90d/12", 12, 2_000_000, 8, func(r *rand.Rand, _ int64) int64 { return t0 + r.Int64N(90*86_400_000) }},
	{"90d/1000", 1000, 2_000_000, 12, func(r *rand.Rand, _ int64) int64 { return t0 + r.Int64N(90*86_400_000) }},
	{"instant/1", 1, 2_000_000, 5, func(*rand.Rand, int64) int64 { return t0 + 600_000 }},
	{"constant/1", 1, 2_000_000, 5, func(_ *rand.Rand, i int64) int64 { return t0 + 600_000 + i/10 }},
}

// farIndex is an index with nothing near whose edge is at t0.
func farIndex() *Index {
	x := New()
	x.Add(Entry{Due: t0, Offset: -1})
	x.Spill(1, math.MinInt64)
	return x
}

func TestFarRecordsTakeFewBytes(t *testing.T) {
	for _, p := range farPatterns {
		r := rand.New(rand.NewPCG(1, 2))
		n := p.records
		if testing.Short() {
			n /= 10
			p.partitions = max(1, p.partitions/10)
		}
		before := heapBytes()
		indexes := make([]*Index, p.partitions)
		for i := range indexes {
			indexes[i] = farIndex()
		}
		empty := heapBytes() - before
		for i := range n {
			x := indexes[i%int64(p.partitions)]
			if x.Add(Entry{Due: p.due(r, i), Offset: i / int64(p.partitions), Lane: 1}) {
				t.Fatal("the record is near")
			}
		}
		check := func(what string) {
			var said, left int64
			for _, x := range indexes {
				said += x.Bytes()
				left += int64(x.Far())
			}
			taken := heapBytes() - before
			each := float64(taken-empty) / float64(n)
			t.Logf("%s, %s: %.2f B a far record, said %.2f", p.name, what, each, float64(said)/float64(n))
			require.LessOrEqual(t, each, p.most, p.name)
			require.InEpsilon(t, taken, said, 0.1, p.name)
			require.Positive(t, left)
		}
		check("full")
		var wanted []Wanted
		for drawn := int64(0); drawn < n/100; {
			for _, x := range indexes {
				wanted = x.Draw(10, math.MaxInt64, wanted[:0])
				drawn += int64(len(wanted))
				x.PopDue(math.MaxInt64, len(wanted), nil)
			}
		}
		check("hundredth drawn")
		runtime.KeepAlive(indexes)
	}
}
