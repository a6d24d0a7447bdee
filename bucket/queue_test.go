package bucket

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAQueueGivesKeysInTheOrderInWhichTheyCame(t *testing.T) {
	t.Parallel()
	r := newRand(t)
	wild := []int64{math.MinInt64, -1, 0, 1, math.MaxInt64}
	var q Queue
	var want []Key
	for step := range 20_000 {
		switch k := r.IntN(10); {
		case k < 4:
			k := Key{Due: t0 + int64(step), Offset: int64(step) * 3}
			q.Push(k)
			want = append(want, k)
		case k == 4:
			k := Key{Due: wild[r.IntN(len(wild))], Offset: wild[r.IntN(len(wild))]}
			q.Push(k)
			want = append(want, k)
		case k == 5:
			n := r.IntN(8)
			got := q.Pop(n, nil)
			require.Len(t, got, min(n, len(want)))
			for i, k := range got {
				require.Equal(t, want[i], k)
			}
			want = want[len(got):]
		}
		require.Equal(t, len(want), q.Len())
	}
	require.NotEmpty(t, want)
	require.Equal(t, want, q.Pop(math.MaxInt, nil))
	require.Equal(t, Queue{}, q)
	require.Empty(t, q.Pop(1, nil))
}

func TestAQueueTakesFewBytesAndGivesThemBack(t *testing.T) {
	const n = 1_000_000
	before := heapBytes()
	var q Queue
	for i := range int64(n) {
		q.Push(Key{Due: t0 + i/7, Offset: 1<<40 + 5*i})
	}
	taken := heapBytes() - before
	t.Logf("%.2f B a key", float64(taken)/n)
	require.LessOrEqual(t, taken, int64(3*n))
	require.InEpsilon(t, taken, q.Bytes(), 0.1)
	var keys []Key
	for q.Len() > n/10 {
		keys = q.Pop(500, keys[:0])
	}
	taken = heapBytes() - before
	require.LessOrEqual(t, taken, int64(n/2))
	require.InDelta(t, taken, q.Bytes(), n/20)
	q.Pop(n, nil)
	require.Zero(t, q.Bytes())
}
