package measure

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// drawn are many delays of records that are written a minute after the beginning.
func drawn(d Delays) *Histogram {
	began := time.Unix(1_700_000_000, 0)
	now := began.Add(time.Minute)
	r, h := rand.New(rand.NewPCG(1, 2)), NewHistogram()
	for range 20_000 {
		h.Add(d.Due(began, now, r).Sub(now).Milliseconds())
	}
	return h
}

func TestDelaysAreDistributedAsTheirNamesSay(t *testing.T) {
	for _, c := range []struct {
		delays               Delays
		least, p50, p99, max int64 // ms
	}{
		{Fixed(30 * time.Second), 30_000, 30_000, 30_000, 30_000},
		{Uniform{time.Second, 11 * time.Second}, 1000, 6000, 10_900, 11_000},
		{Uniform{time.Second, time.Second}, 1000, 1000, 1000, 1000},
		{Exponential(10 * time.Second), 0, 6931, 46_052, 100_000},
		{Bimodal{time.Second, time.Minute, 0.9}, 1000, 1000, 60_000, 60_000},
		{Bimodal{time.Minute, time.Second, 0.001}, 1000, 1000, 1000, 60_000},
		{Instant(90 * time.Second), 30_000, 30_000, 30_000, 30_000},
	} {
		h := drawn(c.delays)
		name := c.delays.String()
		require.InEpsilon(t, float64(c.p50), float64(h.Percentile(50)), 0.05, name)
		require.InEpsilon(t, float64(c.p99), float64(h.Percentile(99)), 0.1, name)
		require.LessOrEqual(t, h.Max(), c.max, name)
		require.LessOrEqual(t, h.Max(), c.delays.Longest().Milliseconds(), name)
		require.GreaterOrEqual(t, h.Percentile(0), c.least, name)
	}
}

func TestWhatIsWrittenAfterTheInstantIsDueAtOnce(t *testing.T) {
	began := time.Unix(1_700_000_000, 0)
	due := Instant(time.Second).Due(began, began.Add(time.Minute), nil)
	require.Equal(t, began.Add(time.Second), due)
}
