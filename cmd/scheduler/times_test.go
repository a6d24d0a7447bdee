package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTimesAreRead(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2026-03-05T01:02:03Z":              time.Date(2026, 3, 5, 1, 2, 3, 0, time.UTC),
		"2026-03-05T01:02:03.0001+01:00":    time.Date(2026, 3, 5, 0, 2, 3, int(time.Millisecond), time.UTC), // never early
		"1772625600000":                     now,
		"12:00:01":                          now.Add(time.Second),
		"13:30":                             now.Add(90 * time.Minute),
		"11:00:00":                          now.Add(23 * time.Hour), // tomorrow
		"12:00:00":                          now.Add(24 * time.Hour),
		"2026-03-04T12:00:00.123456789Z":    now.Add(124 * time.Millisecond),
		"2020-01-01T00:00:00Z":              time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), // past is allowed
		"2026-03-04T14:00:00.5000000+02:00": now.Add(500 * time.Millisecond),
	} {
		got, err := parseTime(text, now)
		require.NoError(t, err, text)
		require.True(t, want.Equal(got), "%s: %s", text, got)
	}
	for _, text := range []string{"", "soon", "1772625600", "-5", "25:00:00", "2026-03-05"} {
		_, err := parseTime(text, now)
		require.ErrorIs(t, err, errTime, text)
	}
}

func TestDelaysAreRoundedUpToMilliseconds(t *testing.T) {
	for text, want := range map[string]int64{
		"0s": 0, "30s": 30_000, "1h30m": 5_400_000, "90d": 7_776_000_000, "1ns": 1, "1.5ms": 2, "250ms": 250,
	} {
		got, err := parseDelay(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "5", "-1s", "-1d", "d", "1w", "99999999999d"} {
		_, err := parseDelay(text)
		require.Error(t, err, text)
	}
}

func TestRelativeTimesAreShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "now", 5 * time.Second: "in 5s", time.Hour: "in 1h", 90 * time.Second: "in 1m30s", 36 * time.Hour: "in 1.5 days",
		-2 * time.Second: "2s ago", 20 * time.Minute: "in 20m", 1234 * time.Millisecond: "in 1.2s", 7 * time.Millisecond: "in 7ms",
	} {
		require.Equal(t, want, relative(d))
	}
}
