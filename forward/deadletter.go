package forward

import (
	"slices"
	"time"

	"delay-scheduler/delay"
)

// waitlist are records whose target refused them for good, or whose dead-letter topic
// has not taken them yet. They stay here, in flight for their owner, until the topic
// acknowledges them or the owner takes them back: sent to their targets again they
// would only be refused again. They take no room until they are handed over, so a
// dead-letter topic in trouble holds up nobody; what may come to wait here is bounded by
// what was in flight.
type waitlist struct {
	records []kept
}

type kept struct {
	*sending
	notBefore time.Duration
}

// keepDead turns a record that was answered into a dead letter that waits. Called with
// mu held.
func (f *Forwarder) keepDead(s *sending, refusal *delay.Refusal, notBefore time.Duration) {
	p := s.port
	if p.withdrawn {
		p.end(s, delay.Returned)
		return
	}
	// A new sending: its own answer is still to come.
	next := &sending{port: p, kept: true, pointer: s.pointer, refusal: refusal}
	p.mu.Lock()
	ended := s.ended
	if !ended {
		next.entry = s.entry
		p.unlinkLocked(s)
		p.linkLocked(next)
	}
	p.mu.Unlock()
	if ended {
		return
	}
	w := f.waiting[p.dead]
	if w == nil {
		w = &waitlist{}
		f.waiting[p.dead] = w
	}
	w.records = append(w.records, kept{sending: next, notBefore: notBefore})
	p.held.Add(1)
	f.kickKeeper()
}

// takeKept removes a port's records from the waitlists. Called with mu held.
func (f *Forwarder) takeKept(p *Port) []*sending {
	var taken []*sending
	w := f.waiting[p.dead]
	if w == nil {
		return nil
	}
	w.records = slices.DeleteFunc(w.records, func(k kept) bool {
		if k.port == p {
			taken = append(taken, k.sending)
		}
		return k.port == p
	})
	p.held.Add(-int64(len(taken)))
	if len(w.records) == 0 {
		delete(f.waiting, p.dead)
	}
	return taken
}

// pump hands over the dead letters that wait and may go. It is the keeper's.
func (f *Forwarder) pump() {
	f.pumping.Lock()
	defer f.pumping.Unlock()
	for _, topic := range f.waitingTopics() {
		for f.pumpOne(topic) {
		}
	}
}

func (f *Forwarder) waitingTopics() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	topics := make([]string, 0, len(f.waiting))
	for t := range f.waiting {
		topics = append(topics, t)
	}
	return topics
}

// pumpOne hands over some of a topic's dead letters and says whether there may be more.
func (f *Forwarder) pumpOne(topic string) bool {
	records, r := f.takeWaiting(topic, f.boot())
	if len(records) == 0 {
		return false
	}
	defer r.lane.handing.Add(-1)
	b := builder{now: f.now().UnixMilli()}
	for _, s := range records {
		b.add(s)
	}
	r.producer.Produce(topic, b.out)
	return true
}

// takeWaiting reserves room for a topic's dead letters and takes those that got some
// out of the list. Called by pump, so a port that withdraws afterwards waits for them
// to be produced.
func (f *Forwarder) takeWaiting(topic string, at time.Duration) ([]*sending, reservation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.waiting[topic]
	if w == nil {
		return nil, reservation{}
	}
	var records []*sending
	var sizes []int64
	for i := range w.records {
		k := &w.records[i]
		if len(records) == chunk || at < k.notBefore || !k.port.leased(at) {
			continue
		}
		records = append(records, k.sending)
		sizes = append(sizes, k.size())
	}
	if len(records) == 0 {
		return nil, reservation{}
	}
	l := f.lane(topic, nil, at)
	if l == nil {
		return nil, reservation{} // the keeper tries again
	}
	l.dead = true
	r := f.reserveIn(l, nil, sizes, at)
	records = records[:r.n]
	for i, s := range records {
		s.lane, s.epoch, s.bytes = l, r.epoch, sizes[i]
		s.port.held.Add(-1)
	}
	w.records = slices.DeleteFunc(w.records, func(k kept) bool { return k.lane != nil })
	if len(w.records) == 0 {
		delete(f.waiting, topic)
	}
	return records, r
}

func (s *sending) size() int64 {
	if s.pointer {
		return recordOverhead
	}
	return sizeOf(&s.entry)
}
