package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"delay-scheduler/devbroker"
)

// Options are a demonstration's.
type Options struct {
	Binary   string        // the scheduler
	Records  int           // how many are sent
	MaxDelay time.Duration // delays are between 0 and this
	KillAt   time.Duration // after the start of sending
	Out      io.Writer
	Live     bool // Out is a terminal: redraw one line instead of adding lines
}

// Times of the demonstration.
const (
	downFor   = time.Second // between the kill and the restart
	drawEvery = 250 * time.Millisecond
	lineEvery = 2 * time.Second  // when the output is no terminal
	patience  = 20 * time.Second // after the last due time, until a missing record is called lost
	readyWait = 20 * time.Second // for the first record of all to come through
	quietFor  = time.Second      // after the last arrival, for duplicates to show
)

// errInterrupted says that somebody did not want to see the end.
var errInterrupted = errors.New("interrupted")

// Run carries the demonstration out. The result is valid when err is nil.
func Run(ctx context.Context, o Options) (Result, error) {
	dir, err := os.MkdirTemp("", "delay-scheduler-demo-")
	if err != nil {
		return Result{}, fmt.Errorf("make a directory for the demonstration: %w", err)
	}
	topics := []devbroker.Topic{{Name: source, Partitions: 4}, {Name: deadLetters, Partitions: 1}}
	for _, t := range targets {
		topics = append(topics, devbroker.Topic{Name: t, Partitions: partitions})
	}
	broker, err := devbroker.Start(devbroker.Options{Listen: "127.0.0.1:0", DataDir: filepath.Join(dir, "broker"), Topics: topics})
	if err != nil {
		return Result{}, err
	}
	s := &show{o: o, tally: newTally(), child: &child{binary: o.Binary, dir: dir}, asked: make(chan asked), arrivals: make(chan arrival), ready: make(chan struct{}), produced: make(chan struct{})}
	res, err := s.run(ctx, broker.Addr())
	err = errors.Join(err, s.child.stop(), broker.Close())
	if err == nil && res.Kept() {
		err = os.RemoveAll(dir)
	} else if ctx.Err() != nil {
		err = errors.Join(errInterrupted, os.RemoveAll(dir))
	} else {
		fmt.Fprintf(o.Out, "the scheduler's log is %s\n", s.child.logFile())
	}
	return res, err
}

// show is a demonstration under way. Its fields belong to the goroutine of watch.
type show struct {
	o        Options
	tally    *tally
	child    *child
	asked    chan asked
	arrivals chan arrival
	ready    chan struct{} // closed when the first record of all has come through
	produced chan struct{}

	state    string
	down     []span
	last     time.Time // due time of the last record
	heard    time.Time // last arrival
	began    time.Time
	drawn    time.Time
	sendDone bool
}

func (s *show) run(ctx context.Context, brokers string) (Result, error) {
	if err := s.child.configure(brokers); err != nil {
		return Result{}, err
	}
	fmt.Fprintf(s.o.Out, "an embedded broker on %s and a scheduler process;\n%d records with delays of 0 to %v go to %d targets, and the scheduler is killed after %v\n\n",
		brokers, s.o.Records, s.o.MaxDelay, len(targets), s.o.KillAt)
	if err := s.start(); err != nil {
		return Result{}, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(s.produced)
		return produce(ctx, brokers, s.o.Records, s.o.MaxDelay, s.ready, s.asked)
	})
	g.Go(func() error { return read(ctx, brokers, s.arrivals) })
	err := s.awaitReady(ctx)
	if err == nil {
		err = s.watch(ctx)
	}
	stop()
	if werr := g.Wait(); !errors.Is(werr, context.Canceled) {
		err = errors.Join(err, werr)
	}
	return s.tally.result(s.down), err
}

// start starts the child.
func (s *show) start() error {
	if err := s.child.start(); err != nil {
		return err
	}
	s.state = fmt.Sprintf("pid %d", s.child.cmd.Process.Pid)
	return nil
}

// awaitReady waits for the first record, so that what is counted is not how long a
// process takes to start.
func (s *show) awaitReady(ctx context.Context) error {
	late := time.NewTimer(readyWait)
	defer late.Stop()
	select {
	case <-s.arrivals:
		close(s.ready)
		return nil
	case <-s.child.done:
		return errors.Join(errors.New("the scheduler has ended before it did anything"), s.child.ended())
	case <-late.C:
		return fmt.Errorf("the scheduler has delivered nothing within %v, see %s", readyWait, s.child.logFile())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// watch owns the tally and disturbs the child.
func (s *show) watch(ctx context.Context) error {
	s.began = time.Now()
	kill, restart := time.After(s.o.KillAt), (<-chan time.Time)(nil)
	tick := time.NewTicker(drawEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case a := <-s.asked:
			s.tally.sent(a.id, a.due)
			if a.due.After(s.last) {
				s.last = a.due
			}
		case <-s.produced:
			s.produced, s.sendDone = nil, true
		case a := <-s.arrivals:
			if a.id != first {
				s.heard = a.arrived
				s.tally.arrived(a, s.down)
			}
		case <-kill:
			s.down = append(s.down, span{from: time.Now().Add(-drawEvery)})
			s.child.kill()
			s.say("SIGKILL: the scheduler is dead, %d records are pending", s.pending())
			s.state = "dead"
			restart = time.After(downFor)
		case <-restart:
			if err := s.start(); err != nil {
				return err
			}
			s.say("started again: what is pending is read back from Kafka")
			restart = nil
		case <-tick.C:
			s.recovered()
			s.draw()
			if s.over() {
				s.finish()
				return nil
			}
		}
	}
}

func (s *show) pending() int { return len(s.tally.due) - len(s.tally.first) }

// recovered ends the outage with the first arrival after the restart.
func (s *show) recovered() {
	if n := len(s.down); n > 0 && s.down[n-1].to.IsZero() && s.heard.After(s.down[n-1].from.Add(drawEvery+downFor)) {
		s.down[n-1].to = time.Now()
	}
}

func (s *show) over() bool {
	now := time.Now()
	if !s.sendDone || now.Before(s.last) {
		return false
	}
	return now.After(s.last.Add(patience)) || (s.pending() == 0 && now.After(s.heard.Add(quietFor)))
}
