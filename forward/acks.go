package forward

import (
	"time"

	"delay-scheduler/delay"
)

// Acks takes the producer's answers. It is the producer's Sink.
func (f *Forwarder) Acks(acks []Ack) {
	at, now := f.boot(), f.now().UnixMilli()
	done := make([]success, 0, 8)
	var bad []Ack
	for len(acks) > 0 {
		if acks[0].Err != nil || acks[0].Uncertain {
			bad = append(bad, acks[0])
			acks = acks[1:]
			continue
		}
		n := sameWay(acks)
		done = append(done, f.acknowledged(acks[:n], now))
		acks = acks[n:]
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range done {
		if d.n == 0 {
			continue
		}
		f.release(d.lane, d.n, d.bytes)
		f.thrived(d.lane, d.epoch, at)
	}
	for _, a := range bad {
		f.refused(a, at)
	}
	f.serveAll(at)
}

// success is what acknowledged records of one port and lane leave to be accounted.
type success struct {
	lane  *lane
	n     int
	bytes int64
	epoch uint32 // of the newest
}

// sameWay counts the acknowledgements in front that are of one port and one lane.
func sameWay(acks []Ack) int {
	s := acks[0].Tag.(*sending)
	n := 1
	for n < len(acks) && acks[n].Err == nil && !acks[n].Uncertain {
		t := acks[n].Tag.(*sending)
		if t.port != s.port || t.lane != s.lane {
			break
		}
		n++
	}
	return n
}

// acknowledged reports records that their topic has, all of one port and lane.
func (f *Forwarder) acknowledged(acks []Ack, now int64) success {
	head := acks[0].Tag.(*sending)
	p := head.port
	got := success{lane: head.lane}
	forwarded := 0
	p.mu.Lock()
	for i := range acks {
		s := acks[i].Tag.(*sending)
		if s.answered {
			continue
		}
		s.answered = true
		got.n++
		got.bytes += s.bytes
		got.epoch = max(got.epoch, s.epoch)
		o := delay.Sent
		if s.refusal != nil {
			o = delay.DeadLettered
			f.metrics.deadLetter(s.refusal.Reason)
		} else {
			forwarded++
			f.metrics.late(now - s.entry.Due)
		}
		if !s.ended {
			p.endLocked(s, o)
		}
	}
	p.mu.Unlock()
	p.signal()
	f.metrics.forwarded.Add(float64(forwarded))
	return got
}

// refused takes any other answer. Called with mu held.
func (f *Forwarder) refused(a Ack, at time.Duration) {
	s := a.Tag.(*sending)
	p, l := s.port, s.lane
	p.mu.Lock()
	again := s.answered
	s.answered = true
	p.mu.Unlock()
	if again {
		return
	}
	f.release(l, 1, s.bytes)
	current := s.epoch == l.epoch.Load()
	if current && l.state == halfOpen {
		l.trial--
	}
	v := judge(a, s)
	if v.stop {
		f.breakDown(a.Err)
	}
	// Parked before the record is given back: its owner may send it again at once, and
	// would find the lane open.
	if v.park && current {
		f.park(l, a.Err, at)
	}
	switch v.record {
	case goBack:
		p.end(s, delay.Returned)
	case inDoubt:
		p.end(s, delay.InDoubt)
	case condemned:
		f.keepDead(s, recordRefusal(v.reason, s, a.Err), 0)
	case keep:
		f.keepDead(s, s.refusal, 0)
	case shrink:
		s.pointer = true
		f.keepDead(s, shrunk(s, a.Err), 0)
	case keepLong:
		l.stuckAt, l.stuckErr = at, a.Err
		f.keepDead(s, s.refusal, at+f.opts.ProbeMax)
	}
	// A refusal of the record alone says that its target is well.
	if current && !v.park && !v.stop && v.record != inDoubt {
		f.thrived(l, s.epoch, at)
	}
}
