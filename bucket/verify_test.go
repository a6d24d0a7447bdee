package bucket

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// verify walks an index and says what is wrong with it.
func verify(t testing.TB, x *Index) {
	t.Helper()
	verifyNear(t, x)
	verifyFar(t, &x.far)
	require.GreaterOrEqual(t, x.Bytes(), int64(0))
}

func verifyNear(t testing.TB, x *Index) {
	t.Helper()
	require.Equal(t, len(x.queue), len(x.seconds))
	require.LessOrEqual(t, len(x.runs), len(x.seconds))
	live, size := 0, int64(0)
	for number, s := range x.seconds {
		size += s.bytes()
		require.GreaterOrEqual(t, number, x.queue.min())
		require.LessOrEqual(t, number, x.queue.max())
		if r := x.runs[number]; r != nil {
			require.EqualValues(t, opened, s.low)
			live += r.left
			continue
		}
		live += s.len()
		low := uint16(opened)
		s.each(func(e entry, _ int) { low = min(low, e.ms) })
		require.Equal(t, low, s.low)
	}
	require.Equal(t, live, x.n)
	require.Equal(t, size, x.size)
}

func verifyFar(t testing.TB, f *far) {
	t.Helper()
	n, size := 0, int64(0)
	bins := map[*bin]int{}
	for level, h := range f.heaps {
		for i, c := range h {
			require.EqualValues(t, i, c.at)
			require.Equal(t, level, c.level())
			require.True(t, i == 0 || !c.min.Less(h[(i-1)/4].min), "the heap is in disorder")
			records := c.records(nil)
			require.Len(t, records, int(c.count))
			least, greatest := Endless, records[0].key()
			for _, r := range records {
				if r.key().Less(least) {
					least = r.key()
				}
				if greatest.Less(r.key()) {
					greatest = r.key()
				}
			}
			require.Equal(t, least, c.min)
			require.Equal(t, greatest, c.max)
			n += len(records)
			size += chunkBytes + int64(cap(c.data))
			if c.bin != nil {
				bins[c.bin] += len(records)
			}
		}
	}
	require.Equal(t, f.n, n)
	known := 0
	for level := range f.bins {
		known += len(f.bins[level])
		for number, b := range f.bins[level] {
			require.Equal(t, number, b.number)
			require.EqualValues(t, level, b.level)
			require.Equal(t, bins[b], b.n)
		}
	}
	require.Len(t, bins, known)
	require.Equal(t, f.size, size+int64(known)*binBytes)
}
