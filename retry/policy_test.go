package retry_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"delay-scheduler/retry"
)

const base = int64(1_790_000_000_000)

// exponential is the default policy without its jitter.
func exponential() retry.Policy {
	return retry.Policy{Initial: time.Second, Multiplier: 2, MaxInterval: 5 * time.Minute, MaxAttempts: 5}
}

func newPolicy(t *testing.T, p retry.Policy) *retry.Policy {
	t.Helper()
	checked, err := retry.New(p)
	require.NoError(t, err)
	return checked
}

func TestIntervalsGrowUpToTheCap(t *testing.T) {
	p := exponential()
	p.MaxAttempts = math.MaxInt32
	checked := newPolicy(t, p)
	for attempt, want := range map[int32]time.Duration{
		-1: time.Second, 0: time.Second, 1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 9: 256 * time.Second,
		10: 5 * time.Minute, 64: 5 * time.Minute, 2000: 5 * time.Minute, math.MaxInt32: 5 * time.Minute,
	} {
		got, refusal := checked.Next(attempt, 7, base, 0)
		require.Empty(t, refusal)
		require.Equal(t, want, got, "attempt %d", attempt)
	}
}

func TestWithoutACapTheIntervalEndsAtTheLongestDuration(t *testing.T) {
	p := exponential()
	p.MaxInterval, p.MaxAttempts, p.Jitter = 0, math.MaxInt32, 1
	checked := newPolicy(t, p)
	for _, attempt := range []int32{35, 64, 1025, math.MaxInt32} {
		got, refusal := checked.Next(attempt, math.MaxUint64, base, 0)
		require.Empty(t, refusal)
		require.Equal(t, time.Duration(math.MaxInt64), got)
	}
}

func TestAMultiplierOfOneKeepsTheInterval(t *testing.T) {
	p := exponential()
	p.Multiplier, p.MaxAttempts = 1, 1000
	got, _ := newPolicy(t, p).Next(1000, 7, base, 0)
	require.Equal(t, time.Second, got)
}

func TestStepsAreALadder(t *testing.T) {
	steps := []time.Duration{30 * time.Second, 5 * time.Minute, time.Hour}
	p := newPolicy(t, retry.Policy{Steps: steps, MaxInterval: time.Minute, MaxAttempts: retry.Unset})
	for i, want := range steps {
		got, refusal := p.Next(int32(i+1), 7, base, 0)
		require.Empty(t, refusal)
		require.Equal(t, want, got)
	}
	_, refusal := p.Next(4, 7, base, 0)
	require.Equal(t, "attempt 4 is above max_attempts 3", refusal)

	t.Run("the last step repeats when there are more attempts", func(t *testing.T) {
		p := newPolicy(t, retry.Policy{Steps: steps, MaxAttempts: 10})
		got, refusal := p.Next(10, 7, base, 0)
		require.Empty(t, refusal)
		require.Equal(t, time.Hour, got)
	})
	t.Run("fewer attempts than steps", func(t *testing.T) {
		_, refusal := newPolicy(t, retry.Policy{Steps: steps, MaxAttempts: 1}).Next(2, 7, base, 0)
		require.Equal(t, "attempt 2 is above max_attempts 1", refusal)
	})
	t.Run("the caller's slice is not kept", func(t *testing.T) {
		mine := []time.Duration{time.Second}
		p := newPolicy(t, retry.Policy{Steps: mine, MaxAttempts: 1})
		mine[0] = time.Hour
		got, _ := p.Next(1, 7, base, 0)
		require.Equal(t, time.Second, got)
	})
}

func TestTheBudgetOfAttemptsEnds(t *testing.T) {
	for _, tt := range []struct {
		most    int
		attempt int32
		refusal string
	}{
		{5, 5, ""},
		{5, 6, "attempt 6 is above max_attempts 5"},
		{200, 127, ""},
		{200, 128, ""}, // F-45: the count does not wrap at a byte
		{200, 200, ""},
		{200, 201, "attempt 201 is above max_attempts 200"},
		{200, math.MaxInt32, "attempt 2147483647 is above max_attempts 200"},
		{0, 1, "attempt 1 is above max_attempts 0"},
		{0, 0, "attempt 1 is above max_attempts 0"},
	} {
		p := exponential()
		p.MaxAttempts = tt.most
		got, refusal := newPolicy(t, p).Next(tt.attempt, 7, base, 0)
		require.Equal(t, tt.refusal, refusal)
		require.Equal(t, refusal == "", got > 0)
	}
}

func TestMaxAgeEndsARetryThatHasGoneOnTooLong(t *testing.T) {
	p := exponential()
	p.MaxAge = time.Hour
	aged := newPolicy(t, p)
	for _, tt := range []struct {
		name         string
		firstFailure int64
		refusal      string
	}{
		{"not known", 0, ""},
		{"exactly max_age ago", base - 3_600_000, ""},
		{"one millisecond more", base - 3_600_001, "attempt 2 comes 3600001 ms after the first failure, above max_age 1h0m0s"},
		{"in the future", base + 3_600_001, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, refusal := aged.Next(2, 7, base, tt.firstFailure)
			require.Equal(t, tt.refusal, refusal)
		})
	}
	_, refusal := newPolicy(t, exponential()).Next(2, 7, base, 1)
	require.Empty(t, refusal, "no limit")
}

func TestNewNamesEverythingThatIsWrong(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(p *retry.Policy)
		want   []string
	}{
		{"initial", func(p *retry.Policy) { p.Initial = 0 }, []string{"initial 0s is not above 0"}},
		{"multiplier", func(p *retry.Policy) { p.Multiplier = 0.5 }, []string{"multiplier 0.5 is not a number of at least 1"}},
		{"multiplier NaN", func(p *retry.Policy) { p.Multiplier = math.NaN() }, []string{"multiplier NaN"}},
		{"multiplier Inf", func(p *retry.Policy) { p.Multiplier = math.Inf(1) }, []string{"multiplier +Inf"}},
		{"cap below", func(p *retry.Policy) { p.MaxInterval = time.Millisecond }, []string{"max_interval 1ms is below initial 1s"}},
		{"cap negative", func(p *retry.Policy) { p.MaxInterval = -1 }, []string{"max_interval -1ns is negative"}},
		{"jitter", func(p *retry.Policy) { p.Jitter = 1.1 }, []string{"jitter 1.1 is not between 0 and 1"}},
		{"jitter negative", func(p *retry.Policy) { p.Jitter = -0.1 }, []string{"jitter -0.1 is not between 0 and 1"}},
		{"jitter NaN", func(p *retry.Policy) { p.Jitter = math.NaN() }, []string{"jitter NaN"}},
		{"attempts", func(p *retry.Policy) { p.MaxAttempts = -2 }, []string{"max_attempts -2 is negative"}},
		{"attempts unset", func(p *retry.Policy) { p.MaxAttempts = retry.Unset }, []string{"max_attempts is missing"}},
		{"age", func(p *retry.Policy) { p.MaxAge = -time.Hour }, []string{"max_age -1h0m0s is negative"}},
		{"steps", func(p *retry.Policy) { p.Steps = []time.Duration{1, -1} }, []string{"steps[1] -1ns is negative"}},
		{
			"several", func(p *retry.Policy) { p.Initial, p.Multiplier, p.Jitter, p.MaxAge = -1, 0, 2, -1 },
			[]string{"initial", "multiplier", "jitter", "max_age"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := exponential()
			tt.change(&p)
			checked, err := retry.New(p)
			require.Nil(t, checked)
			for _, want := range tt.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}
