package retry_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"delay-scheduler/delay"
	"delay-scheduler/retry"
)

// anyPolicy draws a policy that New takes.
func anyPolicy(t *rapid.T) retry.Policy {
	long := rapid.Int64Range(1, math.MaxInt64)
	short := rapid.Int64Range(1, int64(time.Hour))
	duration := rapid.OneOf(short, long)
	p := retry.Policy{
		Initial:     time.Duration(duration.Draw(t, "initial")),
		Multiplier:  rapid.OneOf(rapid.Float64Range(1, 4), rapid.Float64Range(1, math.MaxFloat64)).Draw(t, "multiplier"),
		Jitter:      rapid.Float64Range(0, 1).Draw(t, "jitter"),
		MaxAttempts: rapid.IntRange(0, math.MaxInt32).Draw(t, "max attempts"),
	}
	if rapid.Bool().Draw(t, "capped") {
		p.MaxInterval = max(time.Duration(duration.Draw(t, "max interval")), p.Initial)
	}
	for range rapid.IntRange(0, 5).Draw(t, "steps") {
		p.Steps = append(p.Steps, time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "step")))
	}
	return p
}

// TestJitterIsOnlyAddedAndBounded states, for any policy, attempt and identity
// (rapid prints the seed of a failure; -rapid.seed runs it again):
//
//  1. The interval is never below the one without jitter, which is a step, or grows
//     from initial to the cap without ever falling.
//  2. It is never above interval * (1 + jitter), nor negative by an overflow.
//  3. It is the same every time and from a policy made anew, as after a restart.
//  4. It does not depend on when: base and first failure only decide on a refusal.
func TestJitterIsOnlyAddedAndBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPolicy(t)
		plain := p
		plain.Jitter = 0
		attempt := rapid.Int32Range(1, math.MaxInt32).Draw(t, "attempt")
		identity := rapid.Uint64().Draw(t, "identity")
		first, second, bare := mustNew(t, p), mustNew(t, p), mustNew(t, plain)

		got, refusal := first.Next(attempt, identity, base, 0)
		again, refusalAgain := second.Next(attempt, identity, base+rapid.Int64Range(0, 1e12).Draw(t, "later"), 0)
		require.Equal(t, got, again)
		require.Equal(t, refusal, refusalAgain)
		require.Equal(t, int64(attempt) > int64(p.MaxAttempts), refusal != "")
		if refusal != "" {
			require.Equal(t, fmt.Sprintf("attempt %d is above max_attempts %d", attempt, p.MaxAttempts), refusal)
			return
		}
		interval, _ := bare.Next(attempt, identity, base, 0)
		if len(p.Steps) > 0 {
			require.Equal(t, p.Steps[min(int(attempt), len(p.Steps))-1], interval)
		} else {
			before, _ := bare.Next(max(attempt-1, 1), identity, base, 0)
			require.GreaterOrEqual(t, float64(interval), float64(before)*(1-1e-12)) // within a rounding
			require.GreaterOrEqual(t, interval, p.Initial)
			require.True(t, p.MaxInterval == 0 || interval <= p.MaxInterval)
		}
		require.GreaterOrEqual(t, got, interval)
		require.LessOrEqual(t, float64(got-interval), float64(interval)*p.Jitter)
	})
}

func mustNew(t *rapid.T, p retry.Policy) *retry.Policy {
	checked, err := retry.New(p)
	require.NoError(t, err)
	return checked
}

// TestRecordsThatFailTogetherAreSpreadEvenly counts where records with each kind of
// identity land in a hundred slices of the jitter. Of a million, 10,000 are expected
// in each with a deviation of about 100; the bound is six of them.
func TestRecordsThatFailTogetherAreSpreadEvenly(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	rec := &delay.Record{Topic: "orders-retry", Headers: make([]delay.Header, 3)}
	born := func(i int) uint64 {
		rec.Headers[0] = delay.Header{Key: []byte("original-topic"), Value: []byte("orders")}
		rec.Headers[1] = delay.Header{Key: []byte("original-partition"), Value: strconv.AppendInt(nil, int64(i%12), 10)}
		rec.Headers[2] = delay.Header{Key: []byte("original-offset"), Value: strconv.AppendInt(nil, int64(i/12), 10)}
		return delay.RetryIdentity(rec)
	}
	for _, tt := range []struct {
		name     string
		records  int
		identity func(i int) (identity uint64, attempt int32)
	}{
		{"positions", 100_000, func(i int) (uint64, int32) { return born(i), 1 }},
		{"in sequence", 1_000_000, func(i int) (uint64, int32) { return uint64(i), 1 }},
		{"in steps of 2^32", 100_000, func(i int) (uint64, int32) { return uint64(i) << 32, 1 }},
		{"one record's attempts", 100_000, func(i int) (uint64, int32) { return 42, int32(i + 1) }},
		{"sequences of both", 100_000, func(i int) (uint64, int32) { return uint64(i / 1000), int32(i%1000 + 1) }},
		{"random", 100_000, func(int) (uint64, int32) { return random.Uint64(), 3 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			requireEven(t, tt.records, tt.identity)
		})
	}
}

func requireEven(t *testing.T, records int, identity func(i int) (uint64, int32)) {
	const slots = 100
	p := newPolicy(t, retry.Policy{Initial: time.Minute, Multiplier: 1, Jitter: 1, MaxAttempts: records})
	var counts [slots]int
	for i := range records {
		id, attempt := identity(i)
		interval, refusal := p.Next(attempt, id, base, 0)
		if refusal != "" {
			require.FailNow(t, refusal)
		}
		counts[int((interval-time.Minute)*slots/time.Minute)]++
	}
	expected := records / slots
	bound := 6 * math.Sqrt(float64(expected))
	require.InDelta(t, expected, slices.Min(counts[:]), bound)
	require.InDelta(t, expected, slices.Max(counts[:]), bound)
}

func TestAttemptsOfOneRecordAreJitteredApart(t *testing.T) {
	p := newPolicy(t, retry.Policy{Initial: time.Minute, Multiplier: 1, Jitter: 1, MaxAttempts: 100})
	seen := map[time.Duration]bool{}
	for attempt := range int32(100) {
		interval, _ := p.Next(attempt+1, 42, base, 0)
		seen[interval] = true
	}
	require.Len(t, seen, 100)
}

// TestJitterIsTheSameAsEver pins the values: a new version must not re-roll the due
// times of records that are pending.
func TestJitterIsTheSameAsEver(t *testing.T) {
	p := newPolicy(t, retry.Policy{Initial: time.Second, Multiplier: 2, Jitter: 1, MaxAttempts: 5})
	var got []time.Duration
	for attempt := range int32(3) {
		interval, _ := p.Next(attempt+1, 42, base, 0)
		got = append(got, interval)
	}
	require.Equal(t, []time.Duration{1_977_776_785, 2_893_175_747, 5_657_750_692}, got)
}

func BenchmarkNext(b *testing.B) {
	p, err := retry.New(retry.Policy{Initial: time.Second, Multiplier: 2, MaxInterval: 5 * time.Minute, Jitter: 1, MaxAttempts: 5})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := uint64(0); b.Loop(); i++ {
		p.Next(3, i, base, 0)
	}
}
