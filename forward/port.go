package forward

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"delay-scheduler/bucket"
	"delay-scheduler/delay"
)

// sending is one record on its way. It is the Tag that comes back with the answer and
// is never used twice: an answer that comes twice, or after its port has given up on
// it, finds a record that has ended and changes nothing but the room.
type sending struct {
	entry bucket.Entry
	port  *Port
	lane  *lane
	bytes int64 // what it takes of the room
	epoch uint32

	kept    bool           // a dead letter that stays here until it is acknowledged
	pointer bool           // only a pointer to the record is sent
	refusal *delay.Refusal // what it is dead-lettered with; nil: it goes to its target

	// Protected by Port.mu.
	answered   bool // the producer has answered
	ended      bool // its owner has been told, or is about to be
	outcome    delay.Outcome
	prev, next *sending // among the port's that have not ended
}

// Port is one partition's way out. Its methods are for the goroutine of that partition
// alone.
type Port struct {
	f         *Forwarder
	topic     string
	partition int32
	rules     *delay.Rules
	dead      string // the source's dead-letter topic
	ready     chan struct{}
	lease     atomic.Int64 // on the boot clock; nothing goes to the producer at or after it
	held      atomic.Int64 // dead letters that wait in this package

	// The owner's.
	inFlight int
	closed   bool
	spare    []*sending
	sizes    []int64
	out      []delay.Outgoing
	places   int // headers that a record has, as far as seen

	// withdrawn is written by the owner alone. It and asks are protected by Forwarder.mu.
	withdrawn bool
	asks      allowance // questions about names that nobody has asked for yet

	// mu protects all below.
	mu       sync.Mutex
	first    *sending   // those that have not ended
	results  []*sending // those that have, for Drain
	returned int        // of results: those that came back to be sent again
}

// chunk is how many records are handed over at a time. A record's memory is kept as
// long as that of its chunk, so it is not larger than batches are.
const chunk = 512

// recordOverhead is what a record in flight takes beside its payload, about: a sending,
// its headers' places and its part of the producer's batch.
const recordOverhead = 256

// Send takes entries for one target, in order, and says how many it took. Ready is
// signalled when more may be taken.
func (p *Port) Send(target string, entries []bucket.Entry) int {
	return p.send(entries, func(f *Forwarder, sizes []int64, at time.Duration) reservation {
		return f.reserve(p, target, sizes, at)
	})
}

// Expect says that records for a target will be due soon. What has to be asked of the
// cluster for them is then asked before the instant and not at it, when the processors may
// have all hands full with a burst. It never waits, promises nothing, and may be called
// any number of times.
func (p *Port) Expect(target string) {
	if p.closed || p.withdrawn {
		return
	}
	at := p.f.boot()
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	p.f.lane(target, p, at)
}

// SendDeadLetters does the same with entries whose messages carry a refusal.
func (p *Port) SendDeadLetters(entries []bucket.Entry) int {
	return p.send(entries, func(f *Forwarder, sizes []int64, at time.Duration) reservation {
		return f.reserveDead(p, sizes, at)
	})
}

// reserver finds a lane and reserves room in it.
type reserver func(f *Forwarder, sizes []int64, at time.Duration) reservation

func (p *Port) send(entries []bucket.Entry, reserve reserver) int {
	taken := 0
	for taken < len(entries) {
		part := entries[taken:min(taken+chunk, len(entries))]
		n := p.sendChunk(part, reserve)
		taken += n
		if n < len(part) {
			break
		}
	}
	return taken
}

func (p *Port) sendChunk(entries []bucket.Entry, reserve reserver) int {
	at := p.f.boot()
	if p.closed || p.withdrawn || !p.leased(at) || p.owesReturned() {
		return 0
	}
	p.sizes = p.sizes[:0]
	for i := range entries {
		if entries[i].Message == nil {
			break // its payload was given up; it cannot be sent before it is read back
		}
		p.sizes = append(p.sizes, sizeOf(&entries[i]))
	}
	if len(p.sizes) == 0 {
		return 0
	}
	r := reserve(p.f, p.sizes, at)
	if r.n == 0 {
		return 0
	}
	if !p.handOver(r, entries[:r.n]) {
		return 0
	}
	p.inFlight += r.n
	return r.n
}

func sizeOf(e *bucket.Entry) int64 { return int64(len(e.Message)) + recordOverhead }

func (p *Port) leased(at time.Duration) bool { return int64(at) < p.lease.Load() }

// owesReturned says whether results wait that came back to be sent again. Until the
// owner has taken them nothing newer may leave, or it would overtake them.
func (p *Port) owesReturned() bool {
	p.mu.Lock()
	owes := p.returned > 0
	p.mu.Unlock()
	if owes {
		p.signal()
	}
	return owes
}

// Drain reports what has ended since the last call.
func (p *Port) Drain(report func(e bucket.Entry, o delay.Outcome)) {
	p.mu.Lock()
	done := p.results
	p.results, p.returned = p.spare, 0
	p.mu.Unlock()
	p.inFlight -= len(done)
	for i, s := range done {
		e := s.entry
		s.entry.Message = nil // its chunk may outlive it
		done[i] = nil
		report(e, s.outcome)
	}
	p.spare = done[:0]
}

// Ready has capacity 1 and is signalled on results and on room.
func (p *Port) Ready() <-chan struct{} { return p.ready }

// InFlight counts the entries taken and not yet reported.
func (p *Port) InFlight() int { return p.inFlight }

// Held counts those of InFlight that wait here for their dead-letter topic. They are
// not under way, so they must not keep others from being sent.
func (p *Port) Held() int { return int(p.held.Load()) }

// SetLease says until when, on the boot clock, records may be handed to the producer.
func (p *Port) SetLease(until time.Duration) {
	was := p.leased(p.f.boot())
	p.lease.Store(int64(until))
	if !was {
		p.signal()
	}
}

// Withdraw gives back what no producer has got yet. When it returns nothing of this
// port is on its way to the producer, and nothing will be until Resume.
func (p *Port) Withdraw() {
	f := p.f
	f.mu.Lock()
	p.withdrawn = true
	for _, l := range f.lanes {
		l.line.leave(p)
	}
	delete(f.homeless, p)
	for _, s := range f.takeKept(p) {
		p.end(s, delay.Returned)
	}
	f.serveAll(f.boot())
	f.mu.Unlock()
	// The keeper may have taken dead letters of this port a moment ago and be building
	// their records.
	f.pumping.Lock()
	f.pumping.Unlock() //nolint:staticcheck // SA2001: a barrier, nothing to protect
}

// Resume undoes Withdraw.
func (p *Port) Resume() {
	p.f.mu.Lock()
	p.withdrawn = p.closed
	p.f.mu.Unlock()
	p.signal()
}

// Abandon withdraws the port and reports all that is still unanswered as in doubt.
func (p *Port) Abandon() {
	p.Withdraw()
	p.mu.Lock()
	for p.first != nil {
		p.endLocked(p.first, delay.InDoubt)
	}
	p.mu.Unlock()
	p.signal()
}

// Close abandons the port and forgets what was not drained. It may be called more than
// once.
func (p *Port) Close() {
	if p.closed {
		return
	}
	p.closed = true
	p.lease.Store(math.MinInt64)
	p.Abandon()
	p.f.mu.Lock()
	delete(p.f.ports, p)
	p.f.mu.Unlock()
	p.mu.Lock()
	p.results, p.spare, p.returned = nil, nil, 0
	p.mu.Unlock()
	p.inFlight = 0
}

func (p *Port) signal() {
	select {
	case p.ready <- struct{}{}:
	default:
	}
}

// link makes records the port's, before the producer gets them.
func (p *Port) link(records []sending) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range records {
		p.linkLocked(&records[i])
	}
}

func (p *Port) linkLocked(s *sending) {
	s.next = p.first
	if p.first != nil {
		p.first.prev = s
	}
	p.first = s
}

// end reports a record to its owner, unless that has been done.
func (p *Port) end(s *sending, o delay.Outcome) {
	p.mu.Lock()
	if !s.ended {
		p.endLocked(s, o)
	}
	p.mu.Unlock()
	p.signal()
}

func (p *Port) endLocked(s *sending, o delay.Outcome) {
	p.unlinkLocked(s)
	s.outcome = o
	p.results = append(p.results, s)
	switch o {
	case delay.Returned:
		p.returned++
		p.f.metrics.returned.Inc()
	case delay.InDoubt:
		p.f.metrics.inDoubt.Inc()
	case delay.Sent, delay.DeadLettered:
	}
}

func (p *Port) unlinkLocked(s *sending) {
	s.ended = true
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		p.first = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	}
	s.prev, s.next = nil, nil
}
