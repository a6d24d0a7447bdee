package bucket

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
)

// patterns are ways in which due times lie.
var patterns = []struct {
	name string
	due  func(r *rand.Rand, i int64) int64
}{
	{"instant", func(*rand.Rand, int64) int64 { return t0 }},
	{"second", func(r *rand.Rand, _ int64) int64 { return t0 - 990 + r.Int64N(1000) }},
	{"30s", func(r *rand.Rand, _ int64) int64 { return t0 + r.Int64N(30_000) }},
	{"constant", func(_ *rand.Rand, i int64) int64 { return t0 + i/10 }}, // 10,000 a second, one delay
	{"90d", func(r *rand.Rand, _ int64) int64 { return t0 + r.Int64N(90*86_400_000) }},
}

const benchRecords = 1_000_000

func benchEntries(due func(*rand.Rand, int64) int64) []Entry {
	r := rand.New(rand.NewPCG(1, 1))
	entries := make([]Entry, benchRecords)
	for i := range entries {
		entries[i] = Entry{Due: due(r, int64(i)), Offset: int64(i)}
	}
	return entries
}

func BenchmarkAdd(b *testing.B) {
	for _, p := range patterns {
		b.Run(p.name, func(b *testing.B) {
			entries := benchEntries(p.due)
			x := New()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%benchRecords == 0 {
					x.Clear()
				}
				x.Add(entries[i%benchRecords])
			}
		})
	}
}

func BenchmarkPopDue(b *testing.B) {
	for _, p := range patterns {
		b.Run(p.name, func(b *testing.B) {
			entries := benchEntries(p.due)
			chunk := make([]Entry, 0, 500)
			x := New()
			b.ReportAllocs()
			for n := 0; n < b.N; {
				if x.Len() == 0 {
					b.StopTimer()
					for i := range entries {
						x.Add(entries[i])
					}
					b.StartTimer()
				}
				n += len(x.PopDue(t0+91*86_400_000, cap(chunk), chunk))
			}
		})
	}
}

// BenchmarkLate adds to a second that is being drained what belongs behind, or
// among, what is in it.
func BenchmarkLate(b *testing.B) {
	for _, spread := range []int64{1, 1000} {
		b.Run(fmt.Sprintf("spread%d", spread), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 1))
			chunk := make([]Entry, 0, 1)
			x := New()
			for i := range int64(benchRecords) {
				x.Add(Entry{Due: t0 - 990 + r.Int64N(spread), Offset: i})
			}
			for offset := int64(benchRecords); b.Loop(); offset++ {
				x.Add(Entry{Due: t0 - 990 + r.Int64N(spread), Offset: offset})
				x.PopDue(t0+1000, 1, chunk)
			}
		})
	}
}

// BenchmarkFirstOfABurst measures how long the first record of a million waits for
// its second to be put in order.
func BenchmarkFirstOfABurst(b *testing.B) {
	for _, p := range patterns[:2] {
		b.Run(p.name, func(b *testing.B) {
			entries := benchEntries(p.due)
			chunk := make([]Entry, 0, 1)
			for b.Loop() {
				b.StopTimer()
				x := New()
				for i := range entries {
					x.Add(entries[i])
				}
				b.StartTimer()
				x.PopDue(t0+1000, 1, chunk)
			}
		})
	}
}

// BenchmarkResident reports what a pending record takes with a million of them,
// its message of 300 B included.
func BenchmarkResident(b *testing.B) {
	for _, p := range patterns {
		b.Run(p.name, func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 1))
			for b.Loop() {
				before := heapBytes()
				x := New()
				for i := range int64(benchRecords) {
					x.Add(Entry{Due: p.due(r, i), Offset: i, Message: make([]byte, 300)})
				}
				b.ReportMetric(float64(heapBytes()-before)/benchRecords, "B/record")
				b.ReportMetric(float64(Cost(300)), "charged-B/record")
				runtime.KeepAlive(x)
			}
		})
	}
}

func BenchmarkAccount(b *testing.B) {
	budget := NewBudget(1 << 30)
	b.RunParallel(func(pb *testing.PB) {
		a := budget.Open()
		defer a.Close()
		for pb.Next() {
			a.Take(400)
			a.Release(400)
		}
	})
}

func BenchmarkAsked(b *testing.B) {
	budget := NewBudget(1 << 30)
	budget.Ask(5)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if due, _ := budget.Asked(); due != 5 {
				b.Error("another due time")
			}
		}
	})
}
