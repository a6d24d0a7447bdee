package measure

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"delay-scheduler/kafka"
)

// Options say what is measured.
type Options struct {
	Cluster kafka.Options
	// Compression and Linger are the producer's, as the scheduler's own.
	Compression string
	Linger      time.Duration

	Topics      Topics
	Partitions  int32 // of each topic
	Replication int16 // of each topic; -1: the cluster's default

	Count      int           // records; 0: as many as Duration gives
	Duration   time.Duration // of writing; 0: until Count are written
	Rate       float64       // records a second; 0: as fast as they are taken
	Delays     Delays
	ValueBytes int // at least LeastValue

	// Appear is how long a scheduler may take to read the new source.
	Appear time.Duration
	// Patience is how long a record is waited for after the last one was due or came.
	Patience time.Duration

	// Start starts a scheduler once the topics are there, and gives its end. Nil: one runs.
	Start func(ctx context.Context) (stop func() error, err error)
	// Memory says what the scheduler takes, in bytes. Nil: it cannot be known.
	Memory func(ctx context.Context) (int64, error)
	// Progress hears four times a second how it stands, one call at a time. It must not
	// block for long.
	Progress func(Progress)
}

// Planned is how many records there will be; 0: nobody knows.
func (o *Options) Planned() int {
	if o.Rate == 0 || o.Duration == 0 {
		return o.Count
	}
	n := int(o.Rate * o.Duration.Seconds())
	if o.Count > 0 {
		n = min(n, o.Count)
	}
	return n
}

// Progress is how a run stands.
type Progress struct {
	Phase       string
	Done, Total int           // records of this phase; a Total of 0 is not known
	Left        time.Duration // until the phase is over; negative: not known
}

// ErrNobody says that no scheduler reads the source.
var ErrNobody = errors.New("no scheduler forwards records of the new topic")

// lookEvery is between two looks at how far targets are.
const lookEvery = 250 * time.Millisecond

// run is one run. All but the sampling of memory happens in the caller's goroutine.
type run struct {
	telling sync.Mutex // one call of Progress at a time

	Options
	admin  *kafka.Admin
	result Result
	tally  *tally

	warmUps  int
	began    time.Time
	firstDue time.Time
	lastDue  time.Time
	givenUp  bool // nothing came any more
}

// Run measures: it makes the topics, writes, waits until everything came out, judges it,
// copies the same records, and removes the topics, also after a failure or when ctx ends.
// When hurry ends it stops clearing away, and the error names what is left.
func Run(ctx, hurry context.Context, o Options) (result Result, err error) {
	admin, err := kafka.NewAdmin(o.Cluster)
	if err != nil {
		return result, err
	}
	defer admin.Close()
	r := &run{Options: o, admin: admin, began: time.Now()}
	r.result = Result{
		Delays: o.Delays.String(), Rate: o.Rate, ValueBytes: o.ValueBytes,
		Partitions: int(o.Partitions), Targets: len(o.Topics.Targets),
	}
	r.tell("making topics", 0, 0, -1)
	remove, err := o.Topics.create(ctx, hurry, admin, o.Partitions, o.Replication)
	if err == nil {
		err = r.served(ctx)
	}
	r.tell("removing topics", 0, 0, -1)
	return r.result, errors.Join(err, remove())
}

// tell may be called by several goroutines: partitions are read at the same time.
func (r *run) tell(phase string, done, total int, left time.Duration) {
	r.telling.Lock()
	defer r.telling.Unlock()
	if r.Progress != nil {
		r.Progress(Progress{Phase: phase, Done: done, Total: total, Left: left})
	}
}

// served measures with a scheduler that runs.
func (r *run) served(ctx context.Context) (err error) {
	if r.Start != nil {
		stop, err := r.Start(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	if err := r.measured(ctx); err != nil {
		return err
	}
	r.conclude()
	return nil
}

func (r *run) measured(ctx context.Context) error {
	s, err := r.sender()
	if err != nil {
		return err
	}
	defer func() { _ = s.Close(hurried()) }() // Closed already unless something failed.
	if err := r.wake(ctx, s); err != nil {
		return err
	}
	sampled := r.sample(ctx)
	err = r.write(ctx, s)
	want := r.result.Records + r.warmUps
	if err == nil {
		want, err = r.await(ctx, want)
	}
	r.result.Memory.Most = sampled()
	if err == nil {
		err = r.settle(ctx, want)
	}
	if err == nil {
		err = r.copy(ctx)
	}
	return err
}

// settle judges what came out. If some came twice, others may still be on their way
// though their number was complete: it waits for those, and judges again.
func (r *run) settle(ctx context.Context, out int) error {
	for {
		if err := r.judge(ctx); err != nil {
			return err
		}
		missing := r.result.Records - r.tally.late.Count() - r.result.DeadLetters
		if missing <= 0 || r.givenUp {
			return nil
		}
		var err error
		if out, err = r.await(ctx, out+missing); err != nil {
			return err
		}
	}
}

// hurried is a context that has ended, for what is not waited for.
func hurried() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func (r *run) sender() (*Sender, error) {
	return NewSender(kafka.ProducerOptions{Options: r.Cluster, Compression: r.Compression, Linger: r.Linger})
}

// sample looks at the scheduler's memory each second, until the function that it gives is
// called, which says what was the most.
func (r *run) sample(ctx context.Context) (most func() int64) {
	m := &r.result.Memory
	if r.Memory == nil {
		return func() int64 { return 0 }
	}
	var err error
	if m.Before, err = r.Memory(ctx); err != nil {
		m.Why = err.Error()
		return func() int64 { return 0 }
	}
	ctx, cancel := context.WithCancel(ctx)
	peak := m.Before
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if now, err := r.Memory(ctx); err == nil {
				peak = max(peak, now)
			}
		}
	})
	return func() int64 {
		cancel()
		wg.Wait()
		return peak
	}
}

// await waits until as many records came out as are wanted, and a moment longer for
// those that come twice; or until nothing has come for too long. It gives their number.
func (r *run) await(ctx context.Context, want int) (n int, err error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	moved, last := time.Now(), -1
	for {
		if n, err = r.out(ctx); err != nil {
			return n, err
		}
		now := time.Now()
		if n != last {
			moved, last = now, n
		}
		left := r.lastDue.Sub(now)
		r.tell("until the last is due", max(n-r.warmUps, 0), r.result.Records, max(left, 0))
		quiet := now.Sub(latest(moved, r.lastDue))
		r.givenUp = quiet > r.Patience
		if n >= want && quiet > quietFor || r.givenUp {
			return n, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return n, context.Cause(ctx)
		}
	}
}

// quietFor is how long copies are waited for after everything has come out.
const quietFor = time.Second

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// out is how many records have come out, of whatever kind.
func (r *run) out(ctx context.Context) (n int, err error) {
	for _, topic := range append([]string{r.Topics.DeadLetters}, r.Topics.Targets...) {
		bounds, err := r.admin.Bounds(ctx, topic)
		if err != nil {
			return 0, fmt.Errorf("look how far %s is: %w", topic, err)
		}
		for _, b := range bounds {
			n += int(b.Stable - b.Start)
		}
	}
	return n, nil
}
