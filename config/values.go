package config

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// Bytes is an amount of memory.
type Bytes int64

// String writes the amount in the largest unit that divides it.
func (b Bytes) String() string {
	for _, u := range byteUnits {
		if b != 0 && int64(b)%u.bytes == 0 {
			return strconv.FormatInt(int64(b)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

var byteUnits = []struct {
	name  string
	bytes int64
}{{"TiB", gib * kib}, {"GiB", gib}, {"MiB", mib}, {"KiB", kib}}

var errBytes = errors.New("a size in bytes or with KiB, MiB or GiB, such as 256MiB")

// parseBytes reads what String writes.
func parseBytes(s string) (Bytes, error) {
	number, unit := s, int64(1)
	for _, u := range byteUnits {
		if n, ok := strings.CutSuffix(s, u.name); ok {
			number, unit = strings.TrimSpace(n), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n > math.MaxInt64/unit || n < math.MinInt64/unit {
		return 0, errBytes
	}
	return Bytes(n * unit), nil
}

var errDuration = errors.New("a duration with a unit, such as 500ms, 30s, 5m, 1h or 90d")

// parseDuration reads Go's durations and, at the beginning, d for 24 h.
func parseDuration(s string) (time.Duration, error) {
	days, rest, ok := strings.Cut(s, "d")
	if !ok {
		d, err := time.ParseDuration(s)
		if err != nil {
			return 0, errDuration
		}
		return d, nil
	}
	n, err := strconv.ParseInt(days, 10, 64)
	if err != nil || n > math.MaxInt64/int64(day) || n < math.MinInt64/int64(day) {
		return 0, errDuration
	}
	d := time.Duration(n) * day
	if rest == "" {
		return d, nil
	}
	more, err := time.ParseDuration(rest)
	if err != nil || more < 0 || rest[0] == '+' || rest[0] == '-' {
		return 0, errDuration
	}
	if strings.HasPrefix(days, "-") {
		more = -more
	}
	if sum := d + more; (sum > d) == (more > 0) {
		return sum, nil
	}
	return 0, errDuration
}

// formatDuration writes what parseDuration reads, without parts that are zero.
func formatDuration(d time.Duration) string {
	if d >= day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Secret is a value that is never printed: only Reveal gives it.
type Secret string

const redacted = "***"

// String hides the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// Format hides the secret whatever the verb: one that does not fit a text, such as %d,
// would show it in the complaint about the verb.
func (s Secret) Format(to fmt.State, verb rune) {
	if verb == 'q' || verb == 'v' && to.Flag('#') {
		_, _ = fmt.Fprintf(to, "%q", s.String()) // The caller sees what was written.
		return
	}
	_, _ = io.WriteString(to, s.String())
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return fmt.Sprintf("%q", s.String()) }

// MarshalText hides the secret from JSON, YAML and loggers.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reveal gives the secret.
func (s Secret) Reveal() string { return string(s) }
