package scheduler

import (
	"context"
	"errors"
	"time"

	"delay-scheduler/bucket"
	"delay-scheduler/delay"
	"delay-scheduler/offset"
)

// Batch is what one read of a partition gave.
type Batch struct {
	// Records have ascending offsets and alias the fetch buffer. May be empty.
	Records []delay.Record
	// Release says that nobody uses Records any more, nor what they alias, which is then
	// used again. It is good for one call from any goroutine; without one the collector
	// takes them. Nil: nothing to give back.
	Release func()
	// Next is the position after the batch. An offset below it that is in no
	// batch does not exist: a transaction marker, compacted, or deleted.
	Next int64
	// From is the position that was asked for; only a Recaller sets it. An offset from
	// From up to Next that is in no batch was looked at and is not there.
	From int64
	// Passed counts the records that were looked at, those not wanted included; only a
	// Recaller sets it.
	Passed int
	// LogStart and LogEnd are the log's bounds; LogEnd is the last stable offset.
	LogStart, LogEnd int64
	// Lost counts offsets skipped because the log starts later than was asked for.
	Lost int64
	// Truncated says that the position was beyond the end of the log; reading goes
	// on at the end.
	Truncated bool
	// Hanging is a transaction that has been open for too long; nil: none. LogEnd is
	// where it begins, and nothing behind it can be read.
	Hanging *Transaction
	// Err is why nothing can be read at the moment; nil again when it can. Reading
	// goes on by itself.
	Err error
}

// GiveBack calls Release if there is one, once.
func (b *Batch) GiveBack() {
	if b.Release != nil {
		b.Release()
		b.Release = nil
	}
}

// Transaction is one that its producer has begun and not ended.
type Transaction struct {
	Offset     int64 // of its first record in the partition
	ProducerID int64 // -1: not known
	Open       time.Duration
}

// Stream is one partition's reading. Batches has capacity 1; while it is full the
// partition is not fetched. Close is idempotent and waits for nothing.
type Stream interface {
	Batches() <-chan Batch
	Close()
}

// Log reads partitions.
type Log interface {
	Open(topic string, partition int32, from int64) Stream
}

// Range is a run of offsets: From up to and without Below.
type Range struct {
	From, Below int64
	// Exact ranges are fetched at From whatever was passed before: only that proves that
	// an offset is not there.
	Exact bool
	// Only, if not nil, lists the offsets within the range that are wanted, ascending.
	// Others may come as well.
	Only []int64
}

// Recaller reads again what was read before: the payloads of records that were given up
// for memory. It has connections of its own, so neither fresh records nor sends wait for
// it.
type Recaller interface {
	// Recall reads ranges that ascend and do not overlap, of the log with that id. Its
	// batches have From set and hold no record outside the ranges. After the last range
	// the channel is closed. What lies below the start of the log is passed over with a
	// batch that has Lost set. Trouble comes as batches with an Err, and reading goes on
	// by itself when it is over.
	Recall(topic string, partition int32, id offset.TopicID, ranges []Range) Stream
}

// Commit is one partition's progress. Done is called exactly once, from any
// goroutine, and must not block.
type Commit struct {
	Topic     string
	Partition int32
	Offset    int64
	Metadata  string
	Done      func(error)
}

// Session is one membership generation of the group.
type Session interface {
	// Commit never blocks; requests under one session are sent in order.
	Commit(commits []Commit)
	// ID names the generation in logs.
	ID() string
}

// Claim is a partition that the group gave us, with what the group knows of it.
type Claim struct {
	Topic     string
	Partition int32
	TopicID   offset.TopicID
	Committed int64 // -1: no commit
	Metadata  string
	// KeptFor is how long the brokers keep commits that nobody renews (their
	// offsets.retention.minutes), where there is no commit.
	KeptFor time.Duration
}

// How a commit ends when it is not stored.
var (
	// ErrFenced: the generation is over (codes 22, 25, 82). Nothing may be sent or
	// committed under it any more.
	ErrFenced = errors.New("the group has moved on to another generation")
	// ErrGone: the topic was deleted (code 3).
	ErrGone = errors.New("the topic does not exist any more")
	// ErrMetadataTooLarge: the broker takes less metadata (code 12).
	ErrMetadataTooLarge = errors.New("the broker takes less commit metadata")
	// ErrUnavailable: the retries are used up and the commit is known not to be stored.
	ErrUnavailable = errors.New("the group coordinator does not take the commit")
)

// Port is one partition's way out. It is used by that partition's goroutine alone.
type Port interface {
	// Send takes entries for one target in order and says how many it took. Ready
	// is signalled when more may be taken.
	Send(target string, entries []bucket.Entry) int
	// SendDeadLetters does the same with entries that carry a refusal.
	SendDeadLetters(entries []bucket.Entry) int
	// Expect says that records for a target are due soon, so that what has to be asked of
	// the cluster for them is asked before. It may be called any number of times.
	Expect(target string)
	// Drain reports what has ended since the last call.
	Drain(func(e bucket.Entry, o delay.Outcome))
	// Ready has capacity 1 and is signalled on results and on room.
	Ready() <-chan struct{}
	// InFlight counts the entries taken and not yet reported.
	InFlight() int
	// Held counts those of InFlight that wait for their dead-letter topic; nothing else
	// may wait for them.
	Held() int
	// SetLease ends handing over at a time of the boot clock.
	SetLease(until time.Duration)
	// Withdraw gives back what no producer has got yet; Send takes nothing until Resume.
	Withdraw()
	Resume()
	// Abandon reports all that is still in flight as in doubt.
	Abandon()
	Close()
}

// Outlet opens ports.
type Outlet interface {
	Open(topic string, partition int32, rules *delay.Rules) Port
}

// Policy says when a failed record is tried again (protocol.md section 4).
// A non-empty refusal says why it is not.
type Policy interface {
	Next(attempt int32, identity uint64, base, firstFailure int64) (interval time.Duration, refusal string)
}

// Handler is what a membership drives. Its methods are never called concurrently.
type Handler interface {
	// Quiesce comes first when a generation begins: when it returns, nothing is sent
	// or committed under the old one any more.
	Quiesce(ctx context.Context)
	// Assign comes next, with all claims. It does not block.
	Assign(s Session, claims []Claim)
	// Release comes when the group re-forms: what is in flight is awaited until ctx
	// ends, everything is committed, which may take a few seconds more, and the
	// partitions hold.
	Release(ctx context.Context)
}
