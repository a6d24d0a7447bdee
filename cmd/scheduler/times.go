package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"delay-scheduler/preflight"
)

// leastEpoch is the least number that is taken for epoch milliseconds, as the
// scheduler does: what is below is seconds, or a mistake.
const leastEpoch = 1_000_000_000_000

var errTime = errors.New("must be RFC 3339 (2026-01-02T15:04:05Z), epoch milliseconds, or a time of day (15:04:05)")

// parseTime reads a point in time. A time of day is the next one there is, by the
// clock on the wall here.
func parseTime(s string, now time.Time) (time.Time, error) {
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil {
		if ms < leastEpoch {
			return time.Time{}, fmt.Errorf("is %q, which is before 2001 as epoch milliseconds: %w", s, errTime)
		}
		return time.UnixMilli(ms), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return ceilMillisecond(t), nil
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		clock, err := time.Parse(layout, s)
		if err != nil {
			continue
		}
		y, m, d := now.Date()
		t := time.Date(y, m, d, clock.Hour(), clock.Minute(), clock.Second(), clock.Nanosecond(), now.Location())
		if !t.After(now) {
			t = time.Date(y, m, d+1, clock.Hour(), clock.Minute(), clock.Second(), clock.Nanosecond(), now.Location())
		}
		return ceilMillisecond(t), nil
	}
	return time.Time{}, fmt.Errorf("is %q: %w", s, errTime)
}

func ceilMillisecond(t time.Time) time.Time {
	if cut := t.Truncate(time.Millisecond); !cut.Equal(t) {
		return cut.Add(time.Millisecond)
	}
	return t
}

// parseDelay reads a duration, also in days, and rounds it up to milliseconds.
func parseDelay(s string) (ms int64, err error) {
	d, err := time.ParseDuration(s)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		var n int64
		n, err = strconv.ParseInt(days, 10, 64)
		const day = 24 * time.Hour
		if err == nil && n > math.MaxInt64/int64(day) {
			err = strconv.ErrRange
		}
		d = time.Duration(n) * day
	}
	if err != nil || d < 0 {
		return 0, fmt.Errorf("is %q, must be a duration such as 500ms, 30s, 5m, 1h or 90d", s)
	}
	return (d + time.Millisecond - 1).Milliseconds(), nil
}

// stamp writes a time with its milliseconds, as it is here.
func stamp(t time.Time) string { return t.Local().Format("2006-01-02T15:04:05.000Z07:00") }

// relative says how far off something is.
func relative(d time.Duration) string {
	switch {
	case d > 0:
		return "in " + round(d)
	case d > -time.Millisecond:
		return "now"
	}
	return round(-d) + " ago"
}

// round keeps three digits or so.
func round(d time.Duration) string {
	if d >= 24*time.Hour {
		return fmt.Sprintf("%.1f days", d.Hours()/24)
	}
	return preflight.Long(d)
}
