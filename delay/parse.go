package delay

import (
	"math"
	"time"
)

// The headers that ask for a delay. Names are exact: Delay-Ms is a stranger.
const (
	HeaderTargetTopic   = "target-topic"
	HeaderDelayMS       = "delay-ms"
	HeaderNextRetryTime = "next-retry-time"
	HeaderDeliverAt     = "deliver-at"
	HeaderOriginTime    = "origin-time"
)

// The headers that a forwarded record gets.
const (
	HeaderDelayID      = "delay-id"
	HeaderDelayDue     = "delay-due"
	HeaderDelayHops    = "delay-hops"
	HeaderRetryAttempt = "retry-attempt"
)

// The headers that a consumer writes on a record that failed.
const (
	HeaderRetryCount        = "retry-count"
	HeaderLastErrorClass    = "last-error-class"
	HeaderLastErrorMsg      = "last-error-msg"
	HeaderErrorStack        = "error-stack"
	HeaderInitialOffset     = "initial-offset"
	HeaderOriginalTopic     = "original-topic"
	HeaderOriginalPartition = "original-partition"
	HeaderOriginalOffset    = "original-offset"
	HeaderPreviousTopic     = "previous-topic"
	HeaderFirstFailureTime  = "first-failure-time"
	HeaderTargetGroup       = "target-group"
)

// The headers of a dead letter. HeaderDLQPointer marks the small record that
// stands for one that the dead-letter topic found too large: its value is the
// topic/partition/offset where the record itself is.
const (
	HeaderDLQReason  = "dlq-reason"
	HeaderDLQDetail  = "dlq-detail"
	HeaderDLQTime    = "dlq-time"
	HeaderDLQPointer = "dlq-pointer"
)

// leastTime is the least absolute time that is believed, in epoch ms (September
// 2001). What is below it is seconds.
const leastTime = 1_000_000_000_000

// Request is what a record asks for.
type Request struct {
	// Due is in epoch ms and may be past, which means now. Without HasDue, which is
	// so on retry sources only, the retry policy has to say (see Parser.After).
	Due    int64
	HasDue bool
	// Base is the time that delays count from, in epoch ms.
	Base   int64
	Target string
	// Attempt is the number of this retry on a retry source, 0 elsewhere. The policy
	// judges it even if the record names its own due time.
	Attempt int32
	// FirstFailure is in epoch ms; 0: not known.
	FirstFailure int64
	// Hops is the value of delay-hops to write; 0: none.
	Hops int32
	// FromRules says that due time or target came from the configuration, so that
	// another configuration may give others.
	FromRules bool
}

// Parser reads the records of one partition. It is not for concurrent use.
type Parser struct {
	rules         *Rules
	maxDelay      int64 // ms
	fixedDelay    int64 // ms
	defaultTarget string
	targets       targets
}

// NewParser makes the parser of one partition of a topic.
func NewParser(topic string, r *Rules) *Parser {
	p := &Parser{
		rules:      r,
		maxDelay:   r.MaxDelay.Milliseconds(),
		fixedDelay: ceilMilliseconds(r.Delay),
		targets:    targets{rules: r},
	}
	if base, ok := r.baseName(topic); ok {
		p.defaultTarget = base
	}
	return p
}

// Parse says what a record asks for, or why it is refused. Defects that no
// configuration would overlook come first: only then is it certain that a refusal
// without FromRules is one under every configuration.
func (p *Parser) Parse(rec *Record) (Request, *Refusal) {
	var q Request
	var f fields
	f.collect(rec.Headers)
	if rec.Timestamp < 0 {
		return Request{}, malformed("the record has no timestamp")
	}
	times, ref := readTimes(&f)
	if ref != nil {
		return Request{}, ref
	}
	if p.rules.Retry {
		if ref := p.readRetry(&f, &q); ref != nil {
			return Request{}, ref
		}
	}
	if ref := p.readBase(rec, &f, &times, &q); ref != nil {
		return Request{}, ref
	}
	if ref := p.readDue(&f, &times, &q); ref != nil {
		return Request{}, ref
	}
	if ref := p.readTarget(&f, &q); ref != nil {
		return Request{}, ref
	}
	return q, nil
}

// After gives a request that has no due time the one that is an interval after
// its base time. Rounding is up: never early.
func (p *Parser) After(q *Request, interval time.Duration) *Refusal {
	ms := ceilMilliseconds(interval)
	switch {
	case ms < 0:
		ms = 0
	case ms > p.maxDelay:
		return outOfRange("the retry interval " + interval.String() + " is above max_delay " + p.rules.MaxDelay.String())
	case q.Base > math.MaxInt64-ms:
		return outOfRange("the retry interval " + interval.String() + " after " + decimal(q.Base) + " overflows")
	}
	q.Due, q.HasDue, q.FromRules = q.Base+ms, true, true
	return nil
}

// fields are the last headers of each name that a record has; nil: none.
type fields struct {
	target, delay, next, deliver, origin *Header
	hops, count, attempt, firstFailure   *Header
	group, originalTopic                 *Header
	ours                                 bool // some header of a request or of a failure
}

func (f *fields) collect(headers []Header) {
	for i := range headers {
		h := &headers[i]
		switch string(h.Key) {
		case HeaderTargetTopic:
			f.target = h
		case HeaderDelayMS:
			f.delay = h
		case HeaderNextRetryTime:
			f.next = h
		case HeaderDeliverAt:
			f.deliver = h
		case HeaderOriginTime:
			f.origin = h
		case HeaderRetryCount:
			f.count = h
		case HeaderRetryAttempt:
			f.attempt = h
		case HeaderFirstFailureTime:
			f.firstFailure = h
		case HeaderTargetGroup:
			f.group = h
		case HeaderOriginalTopic:
			f.originalTopic = h
		case HeaderDelayHops:
			f.hops = h
			continue // ours, but neither a request nor a failure
		case HeaderLastErrorClass, HeaderLastErrorMsg, HeaderErrorStack, HeaderInitialOffset,
			HeaderOriginalPartition, HeaderOriginalOffset, HeaderPreviousTopic:
		default:
			continue
		}
		f.ours = true
	}
}

// times are the values of the three headers that name a due time.
type times struct {
	next, deliver, delay         int64
	nextKind, deliverKind, dKind integerKind
}

// readTimes reads all three: one that is malformed condemns the record even if
// another would win over it.
func readTimes(f *fields) (t times, ref *Refusal) {
	if f.next != nil {
		if t.next, t.nextKind, ref = readTime(HeaderNextRetryTime, f.next.Value); ref != nil {
			return t, ref
		}
	}
	if f.deliver != nil {
		if t.deliver, t.deliverKind, ref = readTime(HeaderDeliverAt, f.deliver.Value); ref != nil {
			return t, ref
		}
	}
	if f.delay != nil {
		if t.delay, t.dKind, ref = readCount(HeaderDelayMS, f.delay.Value); ref != nil {
			return t, ref
		}
	}
	return t, nil
}

func (t *times) absolute() bool { return t.nextKind != absent || t.deliverKind != absent }

// readBase finds the time that delays count from.
func (p *Parser) readBase(rec *Record, f *fields, t *times, q *Request) *Refusal {
	q.Base = rec.Timestamp
	if !p.rules.OriginTime {
		return nil
	}
	if f.origin == nil {
		if t.absolute() {
			return nil // nothing is counted from it, only max_delay is judged by it
		}
		return malformedHere("the source counts delays from " + HeaderOriginTime + ", which the record does not have")
	}
	at, kind, ref := readTime(HeaderOriginTime, f.origin.Value)
	if ref != nil {
		ref.FromRules = true
		return ref
	}
	if kind == overflow {
		return outOfRange(HeaderOriginTime + " " + show(f.origin.Value) + " is beyond 2^63-1")
	}
	q.Base = at
	return nil
}

// readDue picks the due time: next-retry-time, deliver-at, delay-ms, the source's
// fixed delay, the retry policy.
func (p *Parser) readDue(f *fields, t *times, q *Request) *Refusal {
	q.HasDue = true
	switch {
	case t.nextKind != absent:
		return p.at(HeaderNextRetryTime, f.next.Value, t.next, t.nextKind, q)
	case t.deliverKind != absent:
		return p.at(HeaderDeliverAt, f.deliver.Value, t.deliver, t.deliverKind, q)
	case t.dKind != absent:
		q.FromRules = p.rules.OriginTime || f.origin != nil
		return p.after(HeaderDelayMS, f.delay.Value, t.delay, t.dKind, q)
	case p.rules.HasDelay:
		q.FromRules = true
		return p.after("the source's delay", nil, p.fixedDelay, whole, q)
	case p.rules.Retry:
		q.HasDue, q.FromRules = false, true
		return nil
	}
	return malformedHere("none of " + HeaderNextRetryTime + ", " + HeaderDeliverAt + ", " + HeaderDelayMS +
		", and the source has no delay of its own")
}

// at takes an absolute due time. Both times are at least 0, so their difference
// does not overflow.
func (p *Parser) at(name string, v []byte, due int64, kind integerKind, q *Request) *Refusal {
	if kind == overflow {
		return outOfRange(name + " " + show(v) + " is beyond 2^63-1")
	}
	if due-q.Base > p.maxDelay {
		return outOfRange(name + " " + decimal(due) + " is " + decimal(due-q.Base) + " ms after the base time " +
			decimal(q.Base) + ", above max_delay " + p.rules.MaxDelay.String())
	}
	q.Due = due
	return nil
}

// after takes a delay in ms.
func (p *Parser) after(name string, v []byte, ms int64, kind integerKind, q *Request) *Refusal {
	switch {
	case kind == overflow:
		return outOfRange(name + " " + show(v) + " is beyond 2^63-1")
	case ms > p.maxDelay:
		return outOfRange(name + " " + decimal(ms) + " is above max_delay " + p.rules.MaxDelay.String())
	case q.Base > math.MaxInt64-ms:
		return outOfRange(name + " " + decimal(ms) + " after the base time " + decimal(q.Base) + " overflows")
	}
	q.Due = q.Base + ms
	return nil
}

// ceilMilliseconds rounds up without overflow.
func ceilMilliseconds(d time.Duration) int64 {
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}

// CarriesOurs says whether some header is one of a request or of a failure, as a record
// that is meant for us has.
func CarriesOurs(headers []Header) bool {
	var f fields
	f.collect(headers)
	return f.ours
}
