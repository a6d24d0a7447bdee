// Package retry says when a failed record is tried again: the backoff policy of a
// retry source as a pure function of the record. The template for consumers in
// Go that speak the retry headers for a handler will live here too.
//
// It has no clock, no client and no state: the same record gives the same answer
// in every process and after every restart. A Policy is not changed after New and
// may be shared by any number of goroutines.
package retry

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// Unset as MaxAttempts takes the number of steps.
const Unset = -1

// Policy is a backoff policy: an explicit ladder if it has steps, else an
// exponential one.
type Policy struct {
	// Steps are the intervals before the first, second, ... retry. Attempts beyond
	// the last step wait as long as it says. MaxInterval does not cap them.
	Steps []time.Duration
	// Initial is the interval before the first retry.
	Initial time.Duration
	// Multiplier is by how much each interval is longer than the one before, at least 1.
	Multiplier float64
	// MaxInterval caps the interval, before jitter is added to it. 0: no cap.
	MaxInterval time.Duration
	// Jitter is the most that is added to an interval, 0 to 1 of it. Nothing is ever
	// taken off.
	Jitter float64
	// MaxAttempts is how many retries there are; 0 sends every failure to the
	// dead-letter topic at once. Unset: as many as there are steps.
	MaxAttempts int
	// MaxAge ends a retry whose first failure is longer ago than this. 0: no limit.
	MaxAge time.Duration
}

// New checks a policy and names everything that is wrong with it.
func New(p Policy) (*Policy, error) {
	p.Steps = slices.Clone(p.Steps)
	if p.MaxAttempts == Unset && len(p.Steps) > 0 {
		p.MaxAttempts = len(p.Steps)
	}
	if err := errors.Join(p.checkIntervals(), p.checkLimits()); err != nil {
		return nil, fmt.Errorf("check the retry policy: %w", err)
	}
	return &p, nil
}

func (p *Policy) checkIntervals() error {
	var errs []error
	for i, step := range p.Steps {
		if step < 0 {
			errs = append(errs, fmt.Errorf("steps[%d] %s is negative", i, step))
		}
	}
	if len(p.Steps) > 0 {
		return errors.Join(errs...)
	}
	if p.Initial <= 0 {
		errs = append(errs, fmt.Errorf("initial %s is not above 0", p.Initial))
	}
	if !(p.Multiplier >= 1) || math.IsInf(p.Multiplier, 1) { // the negation catches NaN
		errs = append(errs, fmt.Errorf("multiplier %v is not a number of at least 1", p.Multiplier))
	}
	switch {
	case p.MaxInterval < 0:
		errs = append(errs, fmt.Errorf("max_interval %s is negative", p.MaxInterval))
	case p.MaxInterval > 0 && p.MaxInterval < p.Initial:
		errs = append(errs, fmt.Errorf("max_interval %s is below initial %s", p.MaxInterval, p.Initial))
	}
	return errors.Join(errs...)
}

func (p *Policy) checkLimits() error {
	var errs []error
	if !(p.Jitter >= 0 && p.Jitter <= 1) { // the negation catches NaN
		errs = append(errs, fmt.Errorf("jitter %v is not between 0 and 1", p.Jitter))
	}
	switch {
	case p.MaxAttempts == Unset:
		errs = append(errs, errors.New("max_attempts is missing and there are no steps to count"))
	case p.MaxAttempts < 0:
		errs = append(errs, fmt.Errorf("max_attempts %d is negative", p.MaxAttempts))
	}
	if p.MaxAge < 0 {
		errs = append(errs, fmt.Errorf("max_age %s is negative", p.MaxAge))
	}
	return errors.Join(errs...)
}

// Next says how long after base (epoch ms) an attempt comes, 1 being the first
// retry. A refusal that is not empty says why it does not come at all. The identity
// spreads the records that failed together; firstFailure (epoch ms, 0: not known)
// is what max_age counts from.
func (p *Policy) Next(attempt int32, identity uint64, base, firstFailure int64) (interval time.Duration, refusal string) {
	attempt = max(attempt, 1)
	if int64(attempt) > int64(p.MaxAttempts) {
		return 0, "attempt " + strconv.Itoa(int(attempt)) + " is above max_attempts " + strconv.Itoa(p.MaxAttempts)
	}
	if age := base - firstFailure; p.MaxAge > 0 && firstFailure > 0 && age > p.MaxAge.Milliseconds() {
		return 0, "attempt " + strconv.Itoa(int(attempt)) + " comes " + strconv.FormatInt(age, 10) +
			" ms after the first failure, above max_age " + p.MaxAge.String()
	}
	return p.spread(p.interval(attempt), identity, attempt), ""
}

// interval is the one before jitter.
func (p *Policy) interval(attempt int32) time.Duration {
	if n := len(p.Steps); n > 0 {
		return p.Steps[min(int(attempt), n)-1]
	}
	limit := p.MaxInterval
	if limit == 0 {
		limit = math.MaxInt64
	}
	grown := float64(p.Initial) * power(p.Multiplier, attempt-1)
	if !(grown < float64(limit)) { // also +Inf, from a huge attempt
		return limit
	}
	return time.Duration(grown)
}

// power multiplies by squaring. math.Pow may differ in the last bit from one kind
// of processor to another, and then so would a due time that moves with its
// partition; products alone do not.
func power(x float64, n int32) float64 {
	result := 1.0
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			result *= x
		}
		x *= x
	}
	return result
}

// spread adds the jitter, at most interval * Jitter.
func (p *Policy) spread(interval time.Duration, identity uint64, attempt int32) time.Duration {
	const unit = 1 << 53 // what a float64 holds without a gap
	share := float64(mix(identity, attempt)>>11) / unit
	extra := float64(interval) * p.Jitter * share
	room := math.MaxInt64 - interval
	if extra >= float64(room) {
		return interval + room
	}
	return interval + time.Duration(extra)
}

// mix gives 64 bits that depend on every bit of the identity and the attempt: two
// rounds of splitmix64's finalizer, one is not enough for identities in sequence
// beside attempts in sequence.
func mix(identity uint64, attempt int32) uint64 {
	return finalize(finalize(identity) + uint64(attempt))
}

func finalize(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
