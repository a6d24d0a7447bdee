package bucket

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// hundred adds the sizes that take gigabytes and minutes.
var hundred = flag.Bool("bucket.hundred", false, "benchmark with 100 M pending records too")

func sizes() []int64 {
	n := []int64{1_000_000, 10_000_000}
	if *hundred {
		n = append(n, 100_000_000)
	}
	return n
}

// fillFar adds n far records, at most ten million at a time measured by itself.
func fillFar(x *Index, n int64, due func(*rand.Rand, int64) int64) {
	r := rand.New(rand.NewPCG(3, 4))
	for i := range n {
		x.Add(Entry{Due: due(r, i), Offset: i, Lane: 1})
	}
}

var spreads = []struct {
	name string
	due  func(r *rand.Rand, i int64) int64
}{
	{"instant", func(*rand.Rand, int64) int64 { return t0 + 600_000 }},
	{"second", func(r *rand.Rand, _ int64) int64 { return t0 + 600_010 + r.Int64N(1000) }},
	{"64s", func(r *rand.Rand, _ int64) int64 { return t0 + 600_010 + r.Int64N(64_000) }},
	{"1500s", func(r *rand.Rand, _ int64) int64 { return t0 + r.Int64N(1_500_000) }},
	{"90d", func(r *rand.Rand, _ int64) int64 { return t0 + r.Int64N(90*86_400_000) }},
}

// BenchmarkFar adds n far records and draws a million of them, 10,000 at a time, and
// drops them. It reports ns a record for both, the longest call of each, and the memory.
func BenchmarkFar(b *testing.B) {
	for _, p := range spreads {
		for _, n := range sizes() {
			b.Run(fmt.Sprintf("%s/%dM", p.name, n/1_000_000), func(b *testing.B) {
				for b.Loop() {
					benchFar(b, n, p.due)
				}
			})
		}
	}
}

func benchFar(b *testing.B, n int64, due func(*rand.Rand, int64) int64) {
	before := resident()
	start := time.Now()
	x := farIndex()
	fillFar(x, n, due)
	b.ReportMetric(float64(time.Since(start).Nanoseconds())/float64(n), "ns/add")
	b.ReportMetric(float64(resident()-before)/float64(n), "rss-B/record")
	b.ReportMetric(float64(x.Bytes())/float64(n), "B/record")
	const drawn, at = 1_000_000, 10_000
	var longest, longestPop, draw, pop time.Duration
	var wanted []Wanted
	entries := make([]Entry, 0, 500)
	for left := drawn; left > 0; left -= at {
		start := time.Now()
		wanted = x.Draw(at, math.MaxInt64, wanted[:0])
		took := time.Since(start)
		draw += took
		longest = max(longest, took)
		start = time.Now()
		for range at / 50 { // as many turns of a loop
			start := time.Now()
			entries = x.PopDue(math.MaxInt64, 50, entries[:0])
			longestPop = max(longestPop, time.Since(start))
		}
		pop += time.Since(start)
	}
	b.ReportMetric(float64(draw.Nanoseconds())/drawn, "ns/draw")
	b.ReportMetric(float64(pop.Nanoseconds())/drawn, "ns/pop")
	b.ReportMetric(float64(longest.Microseconds()), "longest-draw-us")
	b.ReportMetric(float64(longestPop.Microseconds()), "longest-pop-us")
	runtime.KeepAlive(x)
}

// resident is what the process takes, in bytes.
func resident() int64 {
	runtime.GC()
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data))
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
