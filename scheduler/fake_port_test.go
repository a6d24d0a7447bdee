package scheduler

import (
	"slices"
	"sync"
	"time"

	"delay-scheduler/bucket"
	"delay-scheduler/delay"
)

// sent is one record that left.
type sent struct {
	offset, due int64
	target      string
	at          time.Time
}

// fakeOut is every target: it acknowledges after a time of its own.
type fakeOut struct {
	clock  *fakeClock
	mu     sync.Mutex
	ack    time.Duration
	slow   map[string]time.Duration
	refuse map[string]bool // takes nothing, as a parked lane
	bounce map[string]int  // gives back that many records
	silent bool            // never acknowledges
	sent   []sent
	// expected are the announcements of targets.
	expected []sent
	ports    []*fakePort
}

func newFakeOut(c *fakeClock) *fakeOut {
	return &fakeOut{clock: c, slow: map[string]time.Duration{}, refuse: map[string]bool{}, bounce: map[string]int{}}
}

// Open implements Outlet.
func (o *fakeOut) Open(string, int32, *delay.Rules) Port {
	p := &fakePort{out: o, ready: make(chan struct{}, 1), flying: map[int64]bucket.Entry{}}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ports = append(o.ports, p)
	return p
}

func (o *fakeOut) all() []sent {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.sent)
}

func (o *fakeOut) offsets() []int64 {
	var out []int64
	for _, s := range o.all() {
		out = append(out, s.offset)
	}
	return out
}

func (o *fakeOut) set(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
}

type fakePort struct {
	out    *fakeOut
	ready  chan struct{}
	mu     sync.Mutex
	flying map[int64]bucket.Entry
	ended  []result
	lease  time.Duration
	shut   bool // withdrawn
}

type result struct {
	e bucket.Entry
	o delay.Outcome
}

func (p *fakePort) Send(target string, entries []bucket.Entry) int {
	return p.take(target, entries, delay.Sent)
}

func (p *fakePort) SendDeadLetters(entries []bucket.Entry) int {
	return p.take("dlq", entries, delay.DeadLettered)
}

func (p *fakePort) take(target string, entries []bucket.Entry, o delay.Outcome) int {
	p.out.mu.Lock()
	defer p.out.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut || p.out.refuse[target] || p.out.clock.boot() >= p.lease {
		return 0
	}
	wait := p.out.ack
	if d, ok := p.out.slow[target]; ok {
		wait = d
	}
	entries = slices.Clone(entries)
	outcome := o
	if p.out.bounce[target] > 0 {
		p.out.bounce[target]--
		outcome = delay.Returned
	} else {
		for _, e := range entries {
			p.out.sent = append(p.out.sent, sent{e.Offset, e.Due, target, p.out.clock.wall()})
		}
	}
	for _, e := range entries {
		p.flying[e.Offset] = e
	}
	if !p.out.silent {
		time.AfterFunc(wait, func() { p.end(entries, outcome) })
	}
	return len(entries)
}

func (p *fakePort) end(entries []bucket.Entry, o delay.Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range entries {
		if _, ok := p.flying[e.Offset]; ok {
			delete(p.flying, e.Offset)
			p.ended = append(p.ended, result{e, o})
		}
	}
	p.signal()
}

// Expect implements Port.
func (p *fakePort) Expect(target string) {
	p.out.set(func() { p.out.expected = append(p.out.expected, sent{target: target, at: p.out.clock.wall()}) })
}

func (p *fakePort) signal() {
	select {
	case p.ready <- struct{}{}:
	default:
	}
}

func (p *fakePort) Drain(f func(bucket.Entry, delay.Outcome)) {
	p.mu.Lock()
	ended := p.ended
	p.ended = nil
	p.mu.Unlock()
	for _, r := range ended {
		f(r.e, r.o)
	}
}

func (p *fakePort) Ready() <-chan struct{} { return p.ready }

func (p *fakePort) InFlight() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.flying) + len(p.ended)
}

func (p *fakePort) Held() int { return 0 }

func (p *fakePort) SetLease(until time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lease = until
}

func (p *fakePort) Withdraw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = true
}

func (p *fakePort) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = false
}

func (p *fakePort) Abandon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for o, e := range p.flying {
		delete(p.flying, o)
		p.ended = append(p.ended, result{e, delay.InDoubt})
	}
}

func (p *fakePort) Close() {}
