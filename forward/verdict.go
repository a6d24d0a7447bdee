package forward

import (
	"errors"
	"fmt"
	"time"

	"delay-scheduler/delay"
)

var errReplaced = errors.New("the producer was replaced")

// consequence is what follows from an answer for the record that got it.
type consequence uint8

const (
	// goBack: it is certainly in no log; its owner sends it again when the lane takes it.
	goBack consequence = iota
	// inDoubt: it may be in the log.
	inDoubt
	// condemned: its target will never take it; it goes to the dead-letter topic.
	condemned
	// keep: its dead-letter topic did not take it; it waits there for the next try.
	keep
	// shrink: its dead-letter topic will never take it; a pointer to it goes instead.
	shrink
	// keepLong: its dead-letter topic does not even take the pointer.
	keepLong
)

// verdict is what follows from an answer.
type verdict struct {
	record consequence
	park   bool         // the target is in trouble, not just the record
	stop   bool         // the producer cannot go on
	reason delay.Reason // for condemned
}

// judge decides what follows from an answer other than a plain acknowledgement. It is
// the only place that does for records; refusalOf is the one for targets.
func judge(a Ack, s *sending) verdict {
	switch {
	case a.Uncertain:
		// It may be in the log: sending it again could make a copy, and a dead letter
		// for a record that arrived would be a lie. Its owner decides.
		return verdict{record: inDoubt, park: a.Err != nil, stop: a.Err != nil && a.Err.Class == Fatal}
	case a.Err.Class == Fatal:
		// No target is to blame. Whoever runs us starts another producer or ends.
		return verdict{record: back(s), stop: true}
	case a.Err.Class == TooLarge, a.Err.Class == Rejected:
		// The target is well and will answer the same for ever: the record is to blame,
		// and no other record must wait for it.
		return forGood(a.Err.Class, s)
	case a.Err.Class == UnknownTopic, a.Err.Class == NotAuthorized:
		// The target may be created or opened to us; resolve gives up when it is not.
		return verdict{record: back(s), park: true}
	}
	// Transient, and whatever class is added later: the trouble passes, and the record
	// is in no log.
	return verdict{record: back(s), park: true}
}

// back is where a record goes that is in no log and nobody's fault. One whose fault
// was found out by sending it stays here as a dead letter: given back it would be
// sent to its target again, only to be refused again.
func back(s *sending) consequence {
	if s.kept {
		return keep
	}
	return goBack
}

// forGood follows from an answer that the record will always get.
func forGood(c Class, s *sending) verdict {
	switch {
	case s.refusal == nil && c == TooLarge:
		return verdict{record: condemned, reason: delay.ReasonRecordTooLarge}
	case s.refusal == nil:
		return verdict{record: condemned, reason: delay.ReasonTargetRefused}
	case !s.pointer:
		return verdict{record: shrink}
	}
	// A dead-letter topic that takes no small record either is misconfigured (compacted,
	// or with a limit of a few bytes). Only a person can help; others may have keys.
	return verdict{record: keepLong}
}

// refusalOf says whether a target that answers with this class refuses us, and what
// its records are refused with in the end.
func refusalOf(c Class) (delay.Reason, bool) {
	switch c {
	case UnknownTopic:
		return delay.ReasonUnknownTopic, true
	case NotAuthorized:
		return delay.ReasonNotAuthorized, true
	case Rejected:
		return delay.ReasonTargetRefused, true
	case Transient, TooLarge, Fatal:
	}
	return "", false
}

// noteRefusal keeps the account of a target's refusals and gives the target up when
// they have lasted too long. A success ends the account; a probe that succeeds does
// not, because a forbidden topic may well be visible. Called with mu held.
func (f *Forwarder) noteRefusal(l *lane, err *Error, at time.Duration) {
	reason, refuses := refusalOf(err.Class)
	if !refuses {
		return
	}
	r := &l.refused
	over := r.healedAt != never && at-r.healedAt > f.opts.GiveUpAfter
	if r.firstAt == never || over {
		*r = noRefusals()
		r.firstAt = at
	}
	r.healedAt = never
	lasted := at - r.firstAt
	// A name that the cluster rejects as such will not become right by waiting.
	if lasted < f.opts.GiveUpAfter && err.Class != Rejected {
		return
	}
	first := r.verdict == nil
	r.verdict = &delay.Refusal{Reason: reason, Detail: fmt.Sprintf(
		"target-topic %q: %v; refused since %s, given up after %v",
		l.target, err.Err, f.wall(r.firstAt).UTC().Format(time.RFC3339), lasted.Round(time.Millisecond))}
	if first && !l.dead {
		f.logLane(at, "target given up: its records go to the dead-letter topic", l, err)
	}
	l.line.disperse(f.call)
}

// recordRefusal is the refusal of one record by its target.
func recordRefusal(reason delay.Reason, s *sending, err *Error) *delay.Refusal {
	return &delay.Refusal{Reason: reason, Detail: fmt.Sprintf(
		"target-topic %q: %v (a record of %d bytes)", s.lane.target, err.Err, len(s.entry.Message))}
}

// shrunk is the refusal of a record of which only a pointer can be sent: it says so.
func shrunk(s *sending, err *Error) *delay.Refusal {
	r := *s.refusal
	r.Detail = fmt.Sprintf("%s; the dead-letter topic answered: %v", r.Detail, err.Err)
	return &r
}
