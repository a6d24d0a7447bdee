package forward

import (
	"context"
	"sync"
	"time"

	"delay-scheduler/delay"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Options say how much may be under way and how long a target in trouble is waited for.
type Options struct {
	// MaxInFlight is how many bytes may be with the producer, for all targets together.
	// One target may have half of it when it is alone, a quarter beside others. More costs
	// memory, less throughput. Default 32 MiB.
	MaxInFlight int64
	// MaxLanes is how many targets may be known at the same time. Default 1000.
	MaxLanes int
	// GiveUpAfter is how long a target may be missing or forbidden, counted from its
	// first refusal, before its records go to the dead-letter topic. Default 10 min.
	GiveUpAfter time.Duration
	// IdleAfter is how long a target without records is remembered. Default 10 min.
	IdleAfter time.Duration
	// ProbeMin and ProbeMax bound the wait between two probes of a target in trouble.
	// Defaults 100 ms and 10 s.
	ProbeMin, ProbeMax time.Duration
}

func (o Options) withDefaults() Options {
	setDefault(&o.MaxInFlight, 32<<20)
	setDefault(&o.MaxLanes, 1000)
	setDefault(&o.GiveUpAfter, 10*time.Minute)
	setDefault(&o.IdleAfter, 10*time.Minute)
	setDefault(&o.ProbeMin, 100*time.Millisecond)
	setDefault(&o.ProbeMax, 10*time.Second)
	o.ProbeMax = max(o.ProbeMax, o.ProbeMin)
	return o
}

func setDefault[T int | int64 | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// Forwarder owns the lanes. New starts it; Close ends it.
type Forwarder struct {
	opts    Options
	now     func() time.Time     // wall time, for what people read
	boot    func() time.Duration // elapsed time, suspension included: every interval is measured on it
	log     *zap.Logger
	metrics *metrics

	cancel  context.CancelFunc
	running sync.WaitGroup
	spawn   func(work func(context.Context)) // tracked by running, ended by cancel
	kick    chan struct{}                    // wakes the keeper; capacity 1

	// pumping is held while dead letters that waited are built and produced. Whoever
	// has taken it after withdrawing a port knows that nothing of the port is on its
	// way to the producer any more.
	pumping sync.Mutex

	// mu protects all below, what belongs to a lane, and Port.withdrawn.
	mu       sync.Mutex
	producer Producer
	broken   *Error // the producer cannot go on
	closed   bool
	ports    map[*Port]struct{}
	lanes    map[string]*lane
	names    nameCache
	room     room
	hungry   map[*lane]struct{}   // the lanes with a line
	fast     bool                 // the keeper looks after grants
	tickAt   time.Duration        // the keeper's next look at everything else
	homeless map[*Port]struct{}   // ports that wanted a lane and got none
	waiting  map[string]*waitlist // by dead-letter topic
	asks     allowance            // questions about names that were refused before
	lines    allowance            // log lines about targets: a producer chooses how many there are
	unlogged int
}

// New starts a forwarder. The producer may be nil and set later by Use, because a
// producer wants its sink, which is Acks, first. boot must count the time that the
// machine was suspended. reg may be nil.
func New(o Options, p Producer, now func() time.Time, boot func() time.Duration, log *zap.Logger, reg prometheus.Registerer) *Forwarder {
	o = o.withDefaults()
	ctx, cancel := context.WithCancel(context.Background())
	f := &Forwarder{
		opts: o, now: now, boot: boot, log: log.Named("forward"),
		cancel: cancel, kick: make(chan struct{}, 1), producer: p,
		ports: map[*Port]struct{}{}, lanes: map[string]*lane{},
		names: newNameCache(namesPerLane * o.MaxLanes), room: newRoom(o.MaxInFlight, o.MaxLanes),
		hungry: map[*lane]struct{}{}, homeless: map[*Port]struct{}{}, waiting: map[string]*waitlist{},
		// As many as a full table needs, so that each of its names is asked for once per
		// askEvery.
		asks:  newAllowance(o.MaxLanes, float64(o.MaxLanes)/askEvery.Seconds()),
		lines: newAllowance(20, 1),
	}
	f.metrics = newMetrics(f, reg)
	f.spawn = func(work func(context.Context)) { f.running.Go(func() { work(ctx) }) }
	f.spawn(f.keep)
	return f
}

// Use sets the producer, or replaces one that cannot go on. What the old one still
// has must come back through Acks as ever.
func (f *Forwarder) Use(p Producer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.producer, f.broken = p, nil
	at := f.boot()
	for _, l := range f.lanes {
		if l.state == open || l.state == halfOpen {
			// The new producer has asked for no metadata yet.
			f.park(l, &Error{Class: Transient, Err: errReplaced}, at)
			l.nextAt = at
		}
	}
	f.callHomeless()
}

// Open gives a partition its way out. It takes nothing before SetLease.
func (f *Forwarder) Open(topic string, partition int32, rules *delay.Rules) *Port {
	p := &Port{
		f: f, topic: topic, partition: partition, rules: rules,
		dead: rules.DeadLetter(topic), ready: make(chan struct{}, 1), places: usualHeaders,
		asks: newAllowance(f.opts.MaxLanes, max(float64(f.opts.MaxLanes)/50, 1)),
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ports[p] = struct{}{}
	return p
}

// Close ends the forwarder's goroutines and waits for them. Ports take nothing any
// more; acknowledgements are still taken. It may be called more than once.
func (f *Forwarder) Close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.cancel()
	f.running.Wait()
}

// breakDown notes that the producer cannot go on. Called with mu held.
func (f *Forwarder) breakDown(err *Error) {
	if f.broken == nil {
		f.log.Error("the producer cannot go on", zap.Error(err.Err))
	}
	f.broken = err
}

// usable says whether anything can be sent at all. Called with mu held.
func (f *Forwarder) usable() bool {
	return f.producer != nil && f.broken == nil && !f.closed
}

// want remembers a port that found no lane. Called with mu held.
func (f *Forwarder) want(p *Port) {
	if p != nil {
		f.homeless[p] = struct{}{}
	}
}

// callHomeless lets the ports without a lane try again. Called with mu held.
func (f *Forwarder) callHomeless() {
	for p := range f.homeless {
		p.signal()
	}
	clear(f.homeless)
}

func (f *Forwarder) kickKeeper() {
	select {
	case f.kick <- struct{}{}:
	default:
	}
}

// wall turns a point of the boot clock into one that people read.
func (f *Forwarder) wall(at time.Duration) time.Time {
	return f.now().Add(at - f.boot())
}

const (
	tick     = time.Second           // how often lanes are looked after
	fastTick = 50 * time.Millisecond // the same while grants are outstanding
)

// keep looks after the lanes until the forwarder is closed.
func (f *Forwarder) keep(ctx context.Context) {
	timer := time.NewTimer(tick)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.kick:
		case <-timer.C:
		}
		wait := f.lookAfter(f.boot())
		f.pump()
		timer.Reset(wait)
	}
}

// lookAfter drops what is idle, takes back grants that nobody used and lets those
// without a lane try again. It says when to look again.
func (f *Forwarder) lookAfter(at time.Duration) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fast = false
	for l := range f.hungry {
		f.serve(l, at)
		f.fast = f.fast || len(l.line.grants) > 0
	}
	if at >= f.tickAt {
		f.tickAt = at + tick
		for _, l := range f.lanes {
			if f.idle(l) && at-l.usedAt >= f.opts.IdleAfter {
				f.drop(l, at)
			}
		}
		f.names.sweep(at, f.opts.GiveUpAfter)
		f.callHomeless()
	}
	if f.fast {
		return fastTick
	}
	return tick
}
