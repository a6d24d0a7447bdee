package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"delay-scheduler/measure"
)

func TestPercentileIsAValueThatWasMeasured(t *testing.T) {
	hundred := make([]int64, 100)
	for i := range hundred {
		hundred[i] = int64(100 - i) // in no order
	}
	for _, c := range []struct {
		values []int64
		p      int
		want   int64
	}{
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred, 100, 100},
		{hundred, 1, 1},
		{hundred, 0, 1},
		{[]int64{7}, 50, 7},
		{[]int64{7}, 99, 7},
		{[]int64{3, 1}, 50, 1},
		{[]int64{3, 1}, 99, 3},
		{nil, 99, 0},
	} {
		require.Equal(t, c.want, percentile(c.values, c.p), "p%d of %d values", c.p, len(c.values))
	}
	require.Equal(t, int64(100), hundred[0], "the values are left as they were")
}

func TestMedianIsTheMiddleOrTheLowerOfTwo(t *testing.T) {
	require.InDelta(t, 2.0, median([]float64{3, 1, 2}), 0)
	require.InDelta(t, 1.0, median([]float64{3, 1}), 0)
	require.InDelta(t, 0.0, median[float64](nil), 0)
}

func TestSpreadOfNothingIsZero(t *testing.T) {
	require.Zero(t, spreadOf[int64](nil))
	require.Equal(t, spread[int64]{P50: 2, P99: 3, Max: 3}, spreadOf([]int64{3, 2, 1}))
}

func TestAppendsCountWhatCameBeforeTheInstant(t *testing.T) {
	a := appends{late: measure.NewHistogram()}
	for _, at := range []int64{1005, 999, 1000, 1200} {
		a.add(at, 1000)
	}
	require.Equal(t, []int64{4, 1, 999, 1200}, []int64{int64(a.records), int64(a.early), a.first, a.last})
	require.Equal(t, int64(200), a.late.Percentile(99))
}

func TestRatesAreOfTheTimeToTheLastAppend(t *testing.T) {
	p := passage{took: 2 * time.Second, cpu: 500 * time.Millisecond}
	require.InDelta(t, 500.0, p.rate(1000), 0)
	require.InDelta(t, 500.0, p.perCPU(1000), 0)
}

func TestUsageIsReadFromProc(t *testing.T) {
	status := "Name:\tscheduler\nVmPeak:\t  900 kB\nVmHWM:\t  300 kB\nVmRSS:\t  200 kB\nThreads:\t9\n"
	stat := "4711 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20 0 9 0"

	u, err := parseUsage(status, stat)

	require.NoError(t, err)
	require.Equal(t, usage{resident: 200 << 10, peak: 300 << 10, cpu: 1750 * time.Millisecond}, u)

	_, err = parseUsage("Name:\tx\n", stat)
	require.ErrorContains(t, err, "VmRSS")
	_, err = parseUsage(status, "4711 (x) S 1 2")
	require.ErrorContains(t, err, "no CPU time")
}
