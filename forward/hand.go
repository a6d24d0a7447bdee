package forward

import (
	"cmp"
	"time"

	"delay-scheduler/bucket"
	"delay-scheduler/delay"
)

// reservation is room for some records in a lane. The lane's handing counts it until
// it is used or given back.
type reservation struct {
	lane     *lane
	producer Producer
	epoch    uint32
	n        int
	bytes    int64
	// dead: the records go to a dead-letter topic, with refusal or, if that is nil,
	// with the one each carries.
	dead    bool
	refusal *delay.Refusal
}

// reserve finds room for records in their target's lane or, once the target is given
// up, in that of the dead-letter topic.
func (f *Forwarder) reserve(p *Port, target string, sizes []int64, at time.Duration) reservation {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.lane(target, p, at)
	if l == nil {
		f.want(p)
		return reservation{}
	}
	if !l.givenUp() {
		return f.reserveIn(l, p, sizes, at)
	}
	r := f.reserveDeadLocked(p, sizes, at)
	r.refusal = l.refused.verdict
	if r.n < len(sizes) {
		// The target may be well again before the dead-letter topic is.
		f.queue(l, wish(p, sizes))
	} else {
		l.line.leave(p)
	}
	return r
}

// reserveDead finds room in the lane of the port's dead-letter topic.
func (f *Forwarder) reserveDead(p *Port, sizes []int64, at time.Duration) reservation {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reserveDeadLocked(p, sizes, at)
}

func (f *Forwarder) reserveDeadLocked(p *Port, sizes []int64, at time.Duration) reservation {
	l := f.lane(p.dead, p, at)
	if l == nil {
		f.want(p)
		return reservation{}
	}
	l.dead = true
	r := f.reserveIn(l, p, sizes, at)
	r.dead = true
	return r
}

func (f *Forwarder) reserveIn(l *lane, p *Port, sizes []int64, at time.Duration) reservation {
	n := f.admit(l, p, sizes, at)
	if n == 0 {
		return reservation{}
	}
	l.handing.Add(1)
	r := reservation{lane: l, producer: f.producer, epoch: l.epoch.Load(), n: n}
	for _, b := range sizes[:n] {
		r.bytes += b
	}
	return r
}

// handOver builds the records and gives them to the producer, unless the lease ended
// or the lane was parked meanwhile.
func (p *Port) handOver(r reservation, entries []bucket.Entry) bool {
	defer r.lane.handing.Add(-1)
	n := len(entries)
	records := make([]sending, n)
	b := builder{now: p.f.now().UnixMilli(), out: p.out[:0], space: delay.Space{
		Headers: make([]delay.Header, 0, n*p.places),
		Values:  make([]byte, 0, n*(len(p.topic)+usualValues)),
	}}
	for i := range entries {
		s := &records[i]
		*s = sending{entry: entries[i], port: p, lane: r.lane, bytes: p.sizes[i], epoch: r.epoch}
		if r.dead {
			s.refusal = cmp.Or(r.refusal, entries[i].Message.Refusal(), unexplained)
		}
		b.add(s)
	}
	handed := p.leased(p.f.boot()) && r.lane.epoch.Load() == r.epoch
	if handed {
		p.link(records)
		r.producer.Produce(r.lane.target, b.out)
	} else {
		p.f.giveBack(r, p)
	}
	clear(b.out)
	p.out = b.out[:0]
	p.places = min((b.placed+n-1)/n, mostHeaders)
	return handed
}

// giveBack undoes a reservation.
func (f *Forwarder) giveBack(r reservation, p *Port) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := r.lane
	f.release(l, r.n, r.bytes)
	if l.state == halfOpen && l.epoch.Load() == r.epoch {
		l.trial -= r.n
	}
	f.queue(l, turn{port: p})
	f.serveAll(f.boot())
}

// unexplained is for a record handed to SendDeadLetters that says nothing of a refusal:
// whatever it is, it must not be taken for one that was sent.
var unexplained = &delay.Refusal{Reason: delay.ReasonMalformedHeader, Detail: "refused"}

const (
	// usualHeaders is how many headers a forwarded record is first thought to have: id,
	// due and a few of its own.
	usualHeaders = 5
	// usualValues is what the values of our headers take beside the name of the source:
	// partition, offset, timestamp and due time, in decimal.
	usualValues = 42
	// mostHeaders bounds the places that are set aside for a record.
	mostHeaders = 32
)

// builder makes the producer's records. Their headers share a space, as large as the
// records before these needed.
type builder struct {
	now    int64
	out    []delay.Outgoing
	space  delay.Space
	placed int // headers of all records
}

func (b *builder) add(s *sending) {
	o := delay.Origin{Topic: s.port.topic, Partition: s.port.partition, Offset: s.entry.Offset, Due: s.entry.Due}
	m, target := s.entry.Message, s.lane.target
	var out delay.Outgoing
	switch {
	case s.refusal == nil:
		out = m.Forward(s.port.rules, o, target, &b.space)
	case s.pointer:
		out = m.Pointer(o, target, *s.refusal, b.now)
	default:
		out = m.DeadLetter(o, target, *s.refusal, b.now, &b.space)
	}
	b.placed += len(out.Headers)
	out.Tag = s
	b.out = append(b.out, out)
}
