package forward

import (
	"context"

	"delay-scheduler/delay"
)

// Class says what can follow from a refusal. The Kafka adapter maps client
// errors to classes, once; what follows from a class is decided in this package.
type Class uint8

// The classes.
const (
	// Transient passes by itself: no leader, too few replicas, no connection.
	Transient Class = iota + 1
	// UnknownTopic says that the target does not exist (yet).
	UnknownTopic
	// NotAuthorized says that we may not write to the target (yet).
	NotAuthorized
	// TooLarge says that the target takes no record of this size.
	TooLarge
	// Rejected says that the target refuses this very record for good.
	Rejected
	// Fatal says that the producer as a whole cannot go on.
	Fatal
)

// Error is a refusal with its class.
type Error struct {
	Class Class
	Err   error
}

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap gives the client's own error.
func (e *Error) Unwrap() error { return e.Err }

// Ack is the end of one produced record. A nil Err says that all in-sync
// replicas have it; otherwise it is certainly in no log, unless Uncertain is set.
type Ack struct {
	Tag       any
	Err       *Error
	Uncertain bool
}

// Sink takes acknowledgements. It is called from the producer's goroutines, must
// not block, and must not keep the slice.
type Sink func([]Ack)

// Producer writes records. One goroutine or many may call it.
type Producer interface {
	// Resolve asks whether the topic exists and may be written to. It blocks until
	// the cluster has answered or ctx ends.
	Resolve(ctx context.Context, topic string) *Error
	// Produce queues records for one topic and never blocks: the caller bounds what
	// is in flight. Every Tag comes back through the Sink exactly once, for each
	// partition of the target in the order given. After a transient refusal whatever
	// follows for that partition is refused too, until the next Resolve of the topic:
	// otherwise a later record would overtake one that was given back.
	Produce(topic string, records []delay.Outgoing)
}
