package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/IBM/sarama"

	"delay-scheduler/scheduler"
)

const (
	// quietTime is how long a partition may fail before it is said: leaders move all
	// the time, and then it takes a few tries.
	quietTime = time.Second
	// The backoff of one partition; no other waits with it.
	minFetchBackoff = 50 * time.Millisecond
	maxFetchBackoff = 2 * time.Second
)

var (
	// errRecreated says that the position is another log's. The group takes the new
	// topic up; until then nothing may be read from it.
	errRecreated = errors.New("the topic was deleted and made again; waiting for the group to take it up anew")
	errSilent    = errors.New("no answer; is it gone?")
)

// errBeyondEnd says that what was read before is not there any more, or not yet on a
// leader that has just been elected.
func errBeyondEnd(at, end int64) error {
	return fmt.Errorf("offset %d was read before and the log ends at %d", at, end)
}

// trouble is what keeps a partition from being read.
type trouble struct {
	since time.Time // zero: none
	tries int
	told  string // what the receiver was told; "": nothing
}

// begin notes when it began, unless it has already.
func (t *trouble) begin(at time.Time) {
	if t.since.IsZero() {
		t.since = at
	}
}

// forgive ends trouble that nobody was told of.
func (t *trouble) forgive() {
	if t.told == "" {
		t.clear()
	}
}

// clear ends it and says whether the receiver has to be told.
func (t *trouble) clear() bool {
	told := t.told != ""
	*t = trouble{}
	return told
}

// backoff is how long to wait before the next try.
func (t *trouble) backoff() time.Duration {
	d := min(maxFetchBackoff, minFetchBackoff<<min(t.tries, 10))
	t.tries++
	return d/2 + rand.N(d/2)
}

// complain tells the receiver, once for each cause, when it has lasted.
func (s *stream) complain(ctx context.Context, err error) {
	s.trouble.begin(time.Now())
	if ctx.Err() != nil || s.trouble.told == err.Error() || time.Since(s.trouble.since) < quietTime {
		return
	}
	s.trouble.told = err.Error()
	s.deliver(ctx, scheduler.Batch{Err: err})
}

// fail notes a failed try and waits before the next.
func (s *stream) fail(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	s.fetcher.metrics.failures.WithLabelValues(causeOf(err)).Inc()
	s.complain(ctx, err)
	pause(ctx, s.trouble.backoff())
}

// noResponse deals with a request that failed as a whole.
func (s *stream) noResponse(ctx context.Context, err error) {
	if errors.Is(err, errUndecodable) && s.poll != pollAlone {
		// It may be another partition's fault.
		s.poll = pollAlone
		return
	}
	s.leave()
	s.fail(ctx, fmt.Errorf("read at offset %d: %w", s.next, err))
}

// refused deals with the broker's error for this partition.
func (s *stream) refused(ctx context.Context, code sarama.KError) {
	switch code {
	case sarama.ErrOffsetOutOfRange:
		s.outOfRange(ctx)
	case sarama.ErrUnknownTopicOrPartition, sarama.ErrNotLeaderForPartition, sarama.ErrLeaderNotAvailable,
		sarama.ErrReplicaNotAvailable, sarama.ErrKafkaStorageError, sarama.ErrFencedLeaderEpoch,
		sarama.ErrUnknownLeaderEpoch, sarama.ErrOffsetNotAvailable:
		// Metadata says what is really the matter, and where to go on.
		s.leave()
		s.fail(ctx, fmt.Errorf("read at offset %d: %w", s.next, code))
	default:
		s.fail(ctx, fmt.Errorf("read at offset %d: %w", s.next, code))
	}
}

// outOfRange finds out on which side of the log the position is. Retention and
// deletion of records move the start past it; a lost log, or one restored from an older
// copy, ends before it. The latter is believed only when a second broker lookup gives
// the same, as a leader that has just been elected may not know its end yet.
func (s *stream) outOfRange(ctx context.Context) {
	bounds, err := s.bounds(ctx)
	switch {
	case err != nil:
		s.leave()
		s.fail(ctx, fmt.Errorf("offset %d is out of range; ask for the log's bounds: %w", s.next, err))
	case s.past != nil && s.next < bounds.Start:
		s.passDeleted(ctx, bounds)
	case s.past != nil:
		s.fail(ctx, fmt.Errorf("offset %d is out of range (log is %d to %d)", s.next, bounds.Start, bounds.End))
	case s.next < bounds.Start:
		lost := bounds.Start - s.next
		if s.earliest {
			lost = 0
		}
		s.move(ctx, bounds, bounds.Start, scheduler.Batch{Lost: lost})
	case s.next > bounds.End && s.beyond:
		s.move(ctx, bounds, bounds.Stable, scheduler.Batch{Truncated: true})
	default:
		s.beyond = s.next > bounds.End
		s.leave()
		s.fail(ctx, fmt.Errorf("offset %d is out of range (log is %d to %d)", s.next, bounds.Start, bounds.End))
	}
}

// move goes on somewhere else and says so.
func (s *stream) move(ctx context.Context, bounds Bounds, to int64, b scheduler.Batch) {
	s.next, s.start, s.end = to, bounds.Start, bounds.Stable
	s.beyond, s.earliest = false, false
	s.poll = pollQuick
	s.trouble.clear()
	s.deliver(ctx, b)
}

// bounds asks the leader.
func (s *stream) bounds(ctx context.Context) (Bounds, error) {
	return s.node.bounds(ctx, s.topic, s.partition)
}

// fetchCauses are all that causeOf gives.
var fetchCauses = []string{"connection", "leader", "missing", "refused", "undecodable"}

// causeOf sorts errors for the metric.
func causeOf(err error) string {
	var code sarama.KError
	switch {
	case errors.Is(err, scheduler.ErrGone), errors.Is(err, errRecreated):
		return "missing"
	case errors.Is(err, errUndecodable):
		return "undecodable"
	case errors.Is(err, errLeaderless), errors.Is(err, sarama.ErrNotLeaderForPartition):
		return "leader"
	case errors.As(err, &code):
		return "refused"
	}
	return "connection"
}
