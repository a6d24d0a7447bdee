package scheduler

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"delay-scheduler/bucket"
	"delay-scheduler/offset"
)

// Options are plain settings. All durations are above 0.
type Options struct {
	CommitInterval   time.Duration
	MetadataLimit    int // longest commit metadata, in characters
	SessionTimeout   time.Duration
	RebalanceTimeout time.Duration
	MaxSkew          time.Duration
	OnJump           Jump
	// Source gives the rules of a topic. It is asked once a claim.
	Source func(topic string) Source
}

func (o Options) validate() error {
	var errs []error
	for name, d := range map[string]time.Duration{
		"CommitInterval": o.CommitInterval, "SessionTimeout": o.SessionTimeout,
		"RebalanceTimeout": o.RebalanceTimeout, "MaxSkew": o.MaxSkew,
	} {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("scheduler option %s is %v, must be above 0", name, d))
		}
	}
	if o.MetadataLimit <= 0 {
		errs = append(errs, fmt.Errorf("scheduler option MetadataLimit is %d, must be above 0", o.MetadataLimit))
	}
	if o.Source == nil {
		errs = append(errs, errors.New("scheduler option Source is missing"))
	}
	return errors.Join(errs...)
}

// Parts are what a Scheduler works with.
type Parts struct {
	Log      Log
	Recaller Recaller
	Outlet   Outlet
	Budget   *bucket.Budget
	Clock    Clock
}

// place names a partition.
type place struct {
	topic     string
	partition int32
}

// remembered is what a lost partition had completed and could not commit.
type remembered struct {
	id    offset.TopicID
	set   *offset.Set
	turns int // assignments it has outlived
}

// rememberFor is the number of assignments over which uncommitted completions are
// kept: a partition may be away for a few before it comes back.
const rememberFor = 8

// Scheduler owns the loops. It implements Handler.
type Scheduler struct {
	opts    Options
	parts   Parts
	log     *zap.Logger
	metrics *metrics
	nonce   uint64
	watch   *clockWatch
	wg      sync.WaitGroup

	structures atomic.Int64 // what the indexes of all partitions take
	rebuilding atomic.Int64 // what the payloads would take that are read for rebuilds

	mu       sync.Mutex // guards what follows; never held while a loop is waited for
	loops    map[place]*partition
	memory   map[place][]remembered
	stopping bool
	drained  bool // all that a stop awaits was awaited
}

// New makes a scheduler without partitions. A nil registerer gives no metrics.
func New(o Options, parts Parts, log *zap.Logger, reg prometheus.Registerer) (*Scheduler, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	var seed [8]byte
	if _, err := rand.Read(seed[:]); err != nil {
		return nil, fmt.Errorf("make a nonce for commits: %w", err)
	}
	s := &Scheduler{
		opts: o, parts: parts, log: log.Named("scheduler"),
		nonce:  binary.BigEndian.Uint64(seed[:]),
		watch:  &clockWatch{maxSkew: o.MaxSkew, onJump: o.OnJump},
		loops:  map[place]*partition{},
		memory: map[place][]remembered{},
	}
	s.metrics = newMetrics(s, reg)
	return s, nil
}

// Quiesce implements Handler.
func (s *Scheduler) Quiesce(ctx context.Context) {
	s.each(ctx, func(p *partition, done chan struct{}) {
		p.quiesce()
		close(done)
	})
}

// Release implements Handler. After a Drain it waits for no more than the commits.
func (s *Scheduler) Release(ctx context.Context) {
	s.mu.Lock()
	drained := s.drained
	s.mu.Unlock()
	if drained {
		over, cancel := context.WithCancel(ctx)
		cancel()
		ctx = over
	}
	s.drainAll(ctx, true)
}

// Drain is the first half of a stop: nothing new is read or sent, what is in flight
// is awaited until ctx ends, everything is committed, and nothing is assigned any more.
func (s *Scheduler) Drain(ctx context.Context) {
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	s.drainAll(ctx, false)
	s.mu.Lock()
	s.drained = true
	s.mu.Unlock()
}

func (s *Scheduler) drainAll(ctx context.Context, hold bool) {
	s.mu.Lock()
	hold = hold && !s.stopping
	s.mu.Unlock()
	waits := s.order(func(p *partition, done chan struct{}) { p.drain(&order{hold: hold, done: done}) })
	if await(ctx, waits) {
		return
	}
	// No more time for what is in flight; the commits get a little.
	_ = s.order(func(p *partition, done chan struct{}) {
		p.hasten()
		close(done)
	})
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience+time.Second)
	defer cancel()
	await(last, waits)
}

// each runs a command on every loop and waits until all have closed their done, or
// ctx ends.
func (s *Scheduler) each(ctx context.Context, c func(p *partition, done chan struct{})) {
	await(ctx, s.order(c))
}

// order hands a command to every loop, and gives what each closes when it has carried
// it out.
func (s *Scheduler) order(c func(p *partition, done chan struct{})) []chan struct{} {
	var waits []chan struct{}
	for _, p := range s.all() {
		done := make(chan struct{})
		if p.do(func(p *partition) { c(p, done) }) {
			waits = append(waits, done)
		}
	}
	return waits
}

// await is false when ctx ends first.
func await(ctx context.Context, waits []chan struct{}) bool {
	for _, w := range waits {
		select {
		case <-w:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func (s *Scheduler) all() []*partition {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*partition, 0, len(s.loops))
	for _, p := range s.loops {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *partition) int {
		return cmp.Or(cmp.Compare(a.claim.Topic, b.claim.Topic), cmp.Compare(a.claim.Partition, b.claim.Partition))
	})
	return all
}

// Assign implements Handler. State that the group confirms goes on; all else ends.
func (s *Scheduler) Assign(session Session, claims []Claim) {
	s.metrics.rebalances.Inc()
	s.mu.Lock()
	stopping := s.stopping
	s.mu.Unlock()
	if stopping {
		return
	}
	kept := map[place]bool{}
	for _, c := range claims {
		at := place{c.Topic, c.Partition}
		if p := s.loop(at); p != nil && s.ask(p, func(p *partition) bool { return p.adopt(session, c) }) {
			kept[at] = true
		}
	}
	for _, p := range s.all() {
		if at := (place{p.claim.Topic, p.claim.Partition}); !kept[at] {
			s.discard(at, p)
		}
	}
	for _, c := range claims {
		if at := (place{c.Topic, c.Partition}); !kept[at] {
			s.start(at, session, c)
		}
	}
	s.forget()
	s.log.Info("partitions assigned", zap.String("session", session.ID()), zap.Int("claims", len(claims)), zap.Int("kept", len(kept)))
}

func (s *Scheduler) loop(at place) *partition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loops[at]
}

// ask puts a question to a loop; false when it has ended.
func (s *Scheduler) ask(p *partition, q func(p *partition) bool) bool {
	answer := make(chan bool, 1)
	if !p.do(func(p *partition) { answer <- q(p) }) {
		return false
	}
	select {
	case yes := <-answer:
		return yes
	case <-p.quit:
		return false
	}
}

func (s *Scheduler) start(at place, session Session, c Claim) {
	p := newPartition(s, c.unmarked(), s.opts.Source(c.Topic))
	s.mu.Lock()
	var also []*offset.Set
	for _, r := range s.memory[at] {
		if r.id == c.TopicID {
			also = append(also, r.set)
		}
	}
	s.loops[at] = p
	s.mu.Unlock()
	p.restore(also)
	p.begun(session)
	p.turned.Store(int64(s.parts.Clock.Boot()))
	s.wg.Go(p.run)
}

// discard ends a loop. What it completed and could not commit is remembered, in
// case the partition comes back before anybody else has recorded it.
func (s *Scheduler) discard(at place, p *partition) {
	var left *remembered
	s.ask(p, func(p *partition) bool {
		p.port.Abandon()
		p.port.Drain(p.over)
		if p.commits.unsettled() && p.phase != gone {
			left = p.remember()
		}
		return true
	})
	p.do(nil)
	<-p.quit
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.loops, at)
	if left != nil {
		s.memory[at] = append(s.memory[at], *left)
	}
}

func (p *partition) remember() *remembered {
	return &remembered{id: p.claim.TopicID, set: p.tracker.Snapshot()}
}

func (s *Scheduler) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, list := range s.memory {
		list = slices.DeleteFunc(list, func(r remembered) bool { return r.turns >= rememberFor })
		for i := range list {
			list[i].turns++
		}
		if s.memory[at] = list; len(list) == 0 {
			delete(s.memory, at)
		}
	}
}

// Stop ends all loops; sends still unanswered are in doubt. It waits for the loops
// and may be called twice, and without a Drain before it.
func (s *Scheduler) Stop() {
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	for _, p := range s.all() {
		p.do(nil)
	}
	s.wg.Wait()
}
