package scheduler

import (
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"delay-scheduler/bucket"
	"delay-scheduler/delay"
)

// fakeTopic is a source log: records may be appended at any time.
type fakeTopic struct {
	mu      sync.Mutex
	records []delay.Record
	end     int64
	changed chan struct{}
	opened  []int64 // the positions that streams were opened at
}

func newFakeTopic() *fakeTopic { return &fakeTopic{changed: make(chan struct{})} }

// add appends a record that asks for a delay; its timestamp is now.
func (f *fakeTopic) add(target string, wait time.Duration) int64 {
	return f.put(header("target-topic", target), header("delay-ms", strconv.FormatInt(wait.Milliseconds(), 10)))
}

func (f *fakeTopic) put(headers ...delay.Header) int64 {
	return f.putAt(time.Now().UnixMilli(), headers...)
}

func (f *fakeTopic) putAt(timestamp int64, headers ...delay.Header) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.end
	f.records = append(f.records, delay.Record{
		Topic: "a-delay", Offset: o, Timestamp: timestamp, AppendTime: true,
		Key: []byte("k"), Value: []byte("v" + strconv.FormatInt(o, 10)), Headers: headers,
	})
	f.end++
	close(f.changed)
	f.changed = make(chan struct{})
	return o
}

// skip leaves a gap, as a transaction marker or compaction does.
func (f *fakeTopic) skip(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end += n
	close(f.changed)
	f.changed = make(chan struct{})
}

// truncate cuts the log, as an unclean election of a leader does.
func (f *fakeTopic) truncate(end int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.records = slices.DeleteFunc(f.records, func(r delay.Record) bool { return r.Offset >= end })
	f.end = end
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fakeTopic) from(o int64) (recs []delay.Record, end int64, changed chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, _ := slices.BinarySearchFunc(f.records, o, func(r delay.Record, o int64) int { return int(r.Offset - o) })
	return slices.Clone(f.records[i:min(i+500, len(f.records))]), f.end, f.changed
}

func header(k, v string) delay.Header { return delay.Header{Key: []byte(k), Value: []byte(v)} }

// Open implements Log.
func (f *fakeTopic) Open(_ string, _ int32, from int64) Stream {
	f.mu.Lock()
	f.opened = append(f.opened, from)
	f.mu.Unlock()
	s := &fakeStream{batches: make(chan Batch, 1), quit: make(chan struct{})}
	go s.feed(f, max(from, 0))
	return s
}

type fakeStream struct {
	batches chan Batch
	quit    chan struct{}
	once    sync.Once
}

func (s *fakeStream) feed(f *fakeTopic, next int64) {
	for {
		recs, end, changed := f.from(next)
		if next > end {
			next = end
			select {
			case s.batches <- Batch{Next: end, LogEnd: end, Truncated: true}:
			case <-s.quit:
				return
			}
			continue
		}
		if next < end {
			b := Batch{Records: recs, Next: end, LogEnd: end}
			if len(recs) == 500 {
				b.Next = recs[len(recs)-1].Offset + 1
			}
			next = b.Next
			select {
			case s.batches <- b:
			case <-s.quit:
				return
			}
			continue
		}
		select {
		case <-changed:
		case <-s.quit:
			return
		}
	}
}

func (s *fakeStream) Batches() <-chan Batch { return s.batches }
func (s *fakeStream) Close()                { s.once.Do(func() { close(s.quit) }) }

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
	ports  []*fakePort
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

// fakeClock is the bubble's clock with a step added to wall time, and time that
// passed while the machine was suspended.
type fakeClock struct {
	mu        sync.Mutex
	step      time.Duration
	suspended time.Duration
	began     time.Time
}

func newFakeClock() *fakeClock { return &fakeClock{began: time.Now()} }

func (c *fakeClock) wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.step + c.suspended)
}

func (c *fakeClock) boot() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.began) + c.suspended
}

func (c *fakeClock) stepBy(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.step += d
}

func (c *fakeClock) suspend(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.suspended += d
}

// fakeGroup is the coordinator: it stores commits of the current generation.
type fakeGroup struct {
	mu         sync.Mutex
	generation int
	offset     int64
	metadata   string
	count      int
	fail       func(Commit) error
	log        []int64
}

func newFakeGroup() *fakeGroup { return &fakeGroup{offset: -1} }

func (g *fakeGroup) next() *fakeSession {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.generation++
	return &fakeSession{g: g, generation: g.generation}
}

func (g *fakeGroup) committed() (int64, string, int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.offset, g.metadata, g.count
}

func (g *fakeGroup) claim() Claim {
	o, m, _ := g.committed()
	return Claim{Topic: "a-delay", TopicID: [16]byte{1}, Committed: o, Metadata: m}
}

type fakeSession struct {
	g          *fakeGroup
	generation int
}

func (s *fakeSession) ID() string { return strconv.Itoa(s.generation) }

func (s *fakeSession) Commit(commits []Commit) {
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	for _, c := range commits {
		var err error
		if s.g.fail != nil {
			err = s.g.fail(c)
		}
		switch {
		case err != nil:
		case s.generation != s.g.generation:
			err = ErrFenced
		default:
			s.g.offset, s.g.metadata = c.Offset, c.Metadata
			s.g.count++
			s.g.log = append(s.g.log, c.Offset)
		}
		c.Done(err)
	}
}

// bench is a scheduler with one partition and everything around it faked.
type workbench struct {
	t     *testing.T
	topic *fakeTopic
	out   *fakeOut
	group *fakeGroup
	clock *fakeClock
	rules *delay.Rules
	limit int64
	jump  Jump
	s     *Scheduler
}

// inBubble runs a test under fake time.
func inBubble(t *testing.T, f func(t *testing.T, w *workbench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newFakeClock()
		w := &workbench{
			t: t, topic: newFakeTopic(), out: newFakeOut(c), group: newFakeGroup(), clock: c, limit: 64 << 20,
			rules: &delay.Rules{MaxDelay: 90 * 24 * time.Hour, Allow: []string{"*"}, MaxHops: 10},
		}
		defer func() {
			if w.s != nil {
				w.s.Stop()
			}
		}()
		f(t, w)
	})
}

func (w *workbench) start() {
	w.t.Helper()
	var err error
	w.s, err = New(Options{
		CommitInterval: time.Second, MetadataLimit: 4096, SessionTimeout: 10 * time.Second,
		RebalanceTimeout: time.Minute, MaxSkew: time.Minute, OnJump: w.jump,
		Source: func(string) Source { return Source{Rules: w.rules} },
	}, Parts{
		Log: w.topic, Outlet: w.out, Budget: bucket.NewBudget(w.limit),
		Clock: Clock{Wall: w.clock.wall, Boot: w.clock.boot},
	}, zap.NewNop(), nil)
	require.NoError(w.t, err)
	w.s.Quiesce(w.t.Context())
	w.s.Assign(w.group.next(), []Claim{w.group.claim()})
	synctest.Wait()
}

// crash ends the process without a word: nothing more is committed.
func (w *workbench) crash() {
	w.group.next()
	w.s.Stop()
	w.s = nil
}

// after lets time pass and everything settle.
func (w *workbench) after(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the time of a bubble passes at once
	synctest.Wait()
}

// noneEarly checks the first invariant.
func (w *workbench) noneEarly() {
	w.t.Helper()
	for _, s := range w.out.all() {
		require.GreaterOrEqual(w.t, s.at.UnixMilli(), s.due, "offset %d left early", s.offset)
	}
}
