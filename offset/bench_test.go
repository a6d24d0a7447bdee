package offset

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkRecord is the whole way of one record: read, due, completed some time later.
func BenchmarkRecord(b *testing.B) {
	for _, inFlight := range []int{1, 100, 10_000} {
		for _, lanes := range []int{1, 20} {
			b.Run(fmt.Sprintf("inFlight=%d/lanes=%d", inFlight, lanes), func(b *testing.B) {
				t := New(Options{})
				t.Read(0, 1<<50, 1, false) // holds the watermark
				b.ReportAllocs()
				i := int64(0)
				for b.Loop() {
					i++
					lane := uint64(i % int64(lanes))
					t.Read(i, i, lane, false)
					t.Due(i, i, lane)
					if o := i - int64(inFlight); o > 0 {
						t.Complete(o, o, uint64(o%int64(lanes)))
					}
				}
			})
		}
	}
}

// BenchmarkScattered is the same with random delays over a window of ten million offsets.
func BenchmarkScattered(b *testing.B) {
	const window = 10_000_000
	t := New(Options{})
	r := rand.New(rand.NewPCG(1, 2))
	order := make([]int64, window)
	for i := range order {
		order[i] = int64(i)
	}
	r.Shuffle(window, func(i, j int) { order[i], order[j] = order[j], order[i] })
	b.ReportAllocs()
	var base int64
	i := window
	for b.Loop() {
		if i == window {
			b.StopTimer()
			base, i = t.Next(), 0
			for o := range int64(window) {
				t.Read(base+o, 1<<60, 1, false)
			}
			t.popped = noKey
			b.StartTimer()
		}
		o := base + order[i]
		due := base + int64(i)
		t.Due(o, due, 1)
		t.Complete(o, due, 1)
		i++
	}
}

// parkedTracker has a lane of 300,000 parked records and ten thousand exceptions of
// other lanes in a window of 1.5 million.
func parkedTracker() *Tracker {
	t := New(Options{})
	r := rand.New(rand.NewPCG(1, 2))
	t.Read(0, 1<<50, 1, false)
	const window = 1_500_000
	parked, others := window/300_000, window/10_000
	for o := int64(1); o < window; o++ {
		lane := uint64(100 + r.IntN(50))
		if r.IntN(parked) == 0 {
			lane = 2
		}
		t.Read(o, o, lane, false)
		t.Due(o, o, lane)
		if lane != 2 && (r.IntN(others) != 0 || o == window-1) {
			t.Complete(o, o, lane)
		}
	}
	return t
}

func BenchmarkEncodeTenThousandExceptions(b *testing.B) {
	t := parkedTracker()
	for _, limit := range []int{4096, 1 << 20} {
		b.Run(fmt.Sprintf("limit=%d", limit), func(b *testing.B) {
			b.ReportAllocs()
			var e Encoded
			for b.Loop() {
				e = t.Encode(limit)
			}
			b.ReportMetric(float64(len(e.Metadata)), "chars")
			b.ReportMetric(float64(e.Dropped), "dropped")
			b.ReportMetric(float64(t.Exceptions()), "exceptions")
		})
	}
}

func BenchmarkExceptions(b *testing.B) {
	t := parkedTracker()
	for b.Loop() {
		t.Exceptions()
	}
}

// BenchmarkRestore reads a window again, of which a part is pending.
func BenchmarkRestore(b *testing.B) {
	t := parkedTracker()
	e := t.Encode(1 << 20)
	set, err := Decode(e.Metadata, TopicID{}, e.Offset)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	var again *Tracker
	o := t.Next()
	for b.Loop() {
		if o >= t.Next() {
			again = New(Options{Start: e.Offset})
			again.Restore(set)
			o = e.Offset
		}
		lane := uint64(100)
		if t.pending.has(o) {
			lane = 2
		}
		again.Read(o, o, lane, false)
		o++
	}
}

func BenchmarkDecode(b *testing.B) {
	t := parkedTracker()
	e := t.Encode(4096)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(e.Metadata, TopicID{}, e.Offset); err != nil {
			b.Fatal(err)
		}
	}
}
