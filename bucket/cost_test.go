package bucket

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"delay-scheduler/delay"
)

func TestEntriesAndSlotsHaveTheSizesThatAreCharged(t *testing.T) {
	t.Parallel()
	require.Equal(t, uintptr(entryBytes), unsafe.Sizeof(entry{}))
	require.Equal(t, uintptr(slotBytes), unsafe.Sizeof(delay.Message{}))
	require.LessOrEqual(t, unsafe.Sizeof(second{}), uintptr(64))
}

// Growing an empty slice by n bytes rounds its capacity up to what the allocator
// takes for n.
func TestSizeClassesAreThoseOfTheRunningGo(t *testing.T) {
	t.Parallel()
	for n := 1; n < 100_000; n += 1 + n/100 {
		require.Equal(t, int64(cap(append([]byte(nil), make([]byte, n)...))), allocated(n), "%d bytes", n)
	}
	for _, n := range sizeClasses {
		require.Equal(t, int64(n), allocated(n))
	}
	require.Zero(t, allocated(0))
}

// Whatever the due times, the records of an index never take more than they are
// charged, not counting their share of the completed set, which is kept elsewhere.
func TestRecordsNeverTakeMoreThanTheirCost(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	cases := map[string]func(i int64) int64{
		"one instant":               func(int64) int64 { return t0 },
		"one second":                func(int64) int64 { return t0 - 990 + r.Int64N(1000) },
		"random within a minute":    func(int64) int64 { return t0 + r.Int64N(60_000) },
		"a second each":             func(i int64) int64 { return t0 + 1000*i },
		"two in a second":           func(i int64) int64 { return t0 + 500*i },
		"three in a second":         func(i int64) int64 { return t0 + 1000*(i/3) },
		"six in a second":           func(i int64) int64 { return t0 + 1000*(i/6) },
		"just more than a block":    func(i int64) int64 { return t0 + 1000*(i/(blockSize+2)) },
		"random within 90 days":     func(int64) int64 { return t0 + r.Int64N(90*86_400_000) },
		"random within ten minutes": func(int64) int64 { return t0 + r.Int64N(600_000) },
	}
	const noise = 16 << 10 // what the runtime takes for itself
	for name, due := range cases {
		for _, n := range []int64{1000, 15_000, 60_000} {
			const message = 100
			before := heapBytes()
			x := New()
			for i := range n {
				x.Add(Entry{Due: due(i), Offset: i, Message: make(delay.Message, message)})
			}
			taken := heapBytes() - before
			t.Logf("%s: %d records take %d B each", name, n, taken/n-allocated(message))
			require.LessOrEqual(t, taken, n*(Cost(message)-completedBytes)+x.Bytes()+noise, "%s, %d records", name, n)

			// Nor while they are being drained.
			x.PopDue(math.MaxInt64, 1, nil)
			taken = heapBytes() - before
			require.LessOrEqual(t, taken, n*(Cost(message)-completedBytes)+x.Bytes()+noise, "%s, %d records, draining", name, n)
			runtime.KeepAlive(x)
		}
	}
}
