package offset

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestStructuresHaveTheSizesThatAreCounted(t *testing.T) {
	t.Parallel()
	require.EqualValues(t, pageBytes, unsafe.Sizeof(page{}))
	require.EqualValues(t, wordsBytes, unsafe.Sizeof([pageWords]uint64{}))
	require.EqualValues(t, keyBytes, unsafe.Sizeof(Key{}))
	require.EqualValues(t, blockBytes, unsafe.Sizeof(block{}))
	require.EqualValues(t, departureBytes, unsafe.Sizeof(departure{}))
	require.LessOrEqual(t, unsafe.Sizeof(lane{}), uintptr(laneBytes))
	require.LessOrEqual(t, unsafe.Sizeof(segment{}), uintptr(segmentBytes))
}

// What a tracker says that it takes is what it takes, within a quarter.
func TestBytesFollowWhatATrackerTakes(t *testing.T) {
	const n = 2_000_000
	cases := []struct {
		name string
		run  func(tr *Tracker)
	}{
		{"dense", func(tr *Tracker) {
			for o := range int64(n) {
				tr.Read(o, o, 1, false)
			}
		}},
		{"one in 4096", func(tr *Tracker) {
			for o := int64(17); o < 4096*20_000; o += 4096 {
				tr.Read(o, o, 1, false)
			}
		}},
		{"became sparse", func(tr *Tracker) {
			for o := range int64(n) {
				tr.Read(o, o, 1, false)
				tr.Due(o, o, 1)
				if o%1000 != 0 {
					tr.Complete(o, o, 1)
				}
			}
		}},
		{"many open", func(tr *Tracker) {
			for o := range int64(n / 4) {
				tr.Read(o, o, uint64(o%3), false)
				tr.Due(o, o, uint64(o%3))
			}
		}},
		{"many lanes", func(tr *Tracker) {
			for o := range int64(20_000) {
				tr.Read(o, o, uint64(2+o%5000), false)
				tr.Due(o, o, uint64(2+o%5000))
			}
		}},
		{"open in disorder", func(tr *Tracker) {
			due, at := scatter(n / 4)
			for o := range int64(n / 4) {
				tr.Read(o, due(o), 1, false)
			}
			for i := range at {
				o := at[int64(i)*7919%int64(len(at))]
				tr.Due(o, due(o), 1)
			}
		}},
		{"restored", func(tr *Tracker) {
			former := New(Options{})
			for o := range int64(n / 10) {
				former.Read(o, 1000+o, 1, false)
				if o%3 == 1 {
					former.Complete(o, 1000+o, 1)
				}
			}
			tr.Restore(former.Snapshot())
		}},
		{"completed early", func(tr *Tracker) {
			for o := range int64(n / 10) {
				tr.Read(o, 1000+o, 1, false)
				if o > 0 {
					tr.Complete(o, 1000+o, 1)
				}
			}
		}},
	}
	for _, c := range cases {
		before := heap()
		tr := New(Options{})
		c.run(tr)
		taken := int64(heap()) - int64(before)
		t.Logf("%s: takes %d, says %d", c.name, taken, tr.Bytes())
		require.InEpsilon(t, taken, tr.Bytes(), 0.25, c.name)
		runtime.KeepAlive(tr)
	}
}
