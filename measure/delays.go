package measure

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Delays are how far ahead records are due.
type Delays interface {
	// Due is the due time of a record that is written now, in a run that began then.
	Due(began, now time.Time, r *rand.Rand) time.Time
	// Longest is how far ahead of its writing a record can be due.
	Longest() time.Duration
	String() string
}

// Fixed is the same delay for every record.
type Fixed time.Duration

// Due implements Delays.
func (d Fixed) Due(_, now time.Time, _ *rand.Rand) time.Time { return now.Add(time.Duration(d)) }

// Longest implements Delays.
func (d Fixed) Longest() time.Duration { return time.Duration(d) }

func (d Fixed) String() string { return fmt.Sprintf("fixed %v", time.Duration(d)) }

// Uniform are delays from Least to Most, all equally likely.
type Uniform struct{ Least, Most time.Duration }

// Due implements Delays.
func (d Uniform) Due(_, now time.Time, r *rand.Rand) time.Time {
	return now.Add(d.Least + time.Duration(r.Int64N(int64(d.Most-d.Least)+1)))
}

// Longest implements Delays.
func (d Uniform) Longest() time.Duration { return d.Most }

func (d Uniform) String() string { return fmt.Sprintf("uniform %v to %v", d.Least, d.Most) }

// Exponential are delays with that mean: many short ones and a few long ones, cut off at
// ten times the mean.
type Exponential time.Duration

// Due implements Delays.
func (d Exponential) Due(_, now time.Time, r *rand.Rand) time.Time {
	return now.Add(min(time.Duration(r.ExpFloat64()*float64(d)), d.Longest()))
}

// Longest implements Delays.
func (d Exponential) Longest() time.Duration { return 10 * time.Duration(d) }

func (d Exponential) String() string { return fmt.Sprintf("exponential, mean %v", time.Duration(d)) }

// Bimodal are two delays, of which each record has one: a retry soon or much later.
type Bimodal struct {
	Near, Far time.Duration
	Share     float64 // of Near, 0 to 1
}

// Due implements Delays.
func (d Bimodal) Due(_, now time.Time, r *rand.Rand) time.Time {
	if r.Float64() < d.Share {
		return now.Add(d.Near)
	}
	return now.Add(d.Far)
}

// Longest implements Delays.
func (d Bimodal) Longest() time.Duration { return max(d.Near, d.Far) }

func (d Bimodal) String() string {
	return fmt.Sprintf("bimodal, %.0f%% %v, the rest %v", d.Share*100, d.Near, d.Far)
}

// Instant is one moment for all records, that long after the beginning. Records that are
// written later are due at once.
type Instant time.Duration

// Due implements Delays.
func (d Instant) Due(began, _ time.Time, _ *rand.Rand) time.Time { return began.Add(time.Duration(d)) }

// Longest implements Delays.
func (d Instant) Longest() time.Duration { return time.Duration(d) }

func (d Instant) String() string {
	return fmt.Sprintf("one instant, %v after the start", time.Duration(d))
}
