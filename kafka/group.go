package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"delay-scheduler/scheduler"
)

// ErrFencedInstance ends Run: another process has our group.instance_id.
var ErrFencedInstance = errors.New("another process uses the same group.instance_id")

// What ends a session, besides the broker and the caller.
var (
	errTopicsChanged = errors.New("the topics have changed")
	errStopping      = errors.New("we are leaving the group")
)

// rejoinPause and rejoinPauseMost bound the pause after a failed attempt to join.
const (
	rejoinPause     = 100 * time.Millisecond
	rejoinPauseMost = 2 * time.Second
	// settledAfter is how long a session must have lasted for the pause to start again.
	settledAfter = 5 * time.Second
)

// Group is our membership in the consumer group. It finds the topics, lets the
// group share out their partitions, and drives a handler with what comes of it:
// Quiesce and Assign when a generation begins, Release when it ends. It reads no
// records. One goroutine, Run's, holds the membership; the handler's methods are
// called one at a time.
type Group struct {
	opts      GroupOptions
	handler   scheduler.Handler
	log       *zap.Logger
	metrics   *groupMetrics
	client    *groupClient
	committer *committer
	status    statusBoard

	// turn is held while the handler is driven, and guards what follows.
	turn     sync.Mutex
	current  *session // whose claims the handler has; nil: none
	active   bool     // between Assign and Release
	quiet    bool     // quiesced, and not assigned anything since
	stopping bool

	// What follows is Run's own, or of the library's calls that it waits for.
	group      sarama.ConsumerGroup // nil: none yet, or after leaving
	errorsDone chan struct{}
	view       topicView // what the present attempt subscribed to
	consumeEnd context.CancelCauseFunc
	watchDone  chan struct{}
	idling     bool        // no topic matches, and that was said
	covered    bool        // checkCover has had its answer
	hurry      *time.Timer // cuts the end of the last session short; nil: none
	cause      error       // why the last session ended
	began      time.Time
}

// NewGroup makes a membership that has no connection yet. Run does the rest, once.
func NewGroup(o GroupOptions, h scheduler.Handler, log *zap.Logger, reg prometheus.Registerer) (*Group, error) {
	if err := o.validateGroup(); err != nil {
		return nil, err
	}
	g := &Group{opts: o, handler: h, log: log.Named("group").With(zap.String("group", o.ID)), metrics: newGroupMetrics(reg)}
	g.status.session = o.SessionTimeout
	client, err := newGroupClient(o.Options, o.groupConfig(), o.ID, g.trouble, g.moved)
	if err != nil {
		return nil, fmt.Errorf("configure the group's client: %w", err)
	}
	g.client = client
	g.status.heard = client.coordinator.heard
	conf := o.config("commit")
	g.committer = &committer{
		coordinator: &groupCoordinator{config: conf, group: o.ID, lookup: newLookup(conf, o.Brokers)},
		group:       o.ID, instance: o.instance(), budget: o.SessionTimeout / 3,
		log: g.log, metrics: g.metrics,
	}
	return g, nil
}

// Run takes part in the group until ctx ends or taking part has become impossible.
// Whatever the brokers do, it returns within the time that Release may take and about
// a second after ctx has ended.
func (g *Group) Run(ctx context.Context) error {
	g.committer.start()
	ctx, cancel := context.WithCancel(ctx)
	interrupted := make(chan struct{})
	go func() {
		defer close(interrupted)
		<-ctx.Done()
		g.interrupt()
	}()
	err := g.loop(ctx)
	cancel()
	<-interrupted
	g.leave()
	g.committer.close()
	g.committer.coordinator.lookup.close()
	_ = g.client.Close() // nothing is kept that closing could lose
	g.status.left(err)
	return err
}

// loop joins, and joins again whenever a generation is over.
func (g *Group) loop(ctx context.Context) error {
	pauseFor := rejoinPause
	for ctx.Err() == nil {
		view, err := g.awaitTopics(ctx)
		if err != nil {
			return nil //nolint:nilerr // ctx has ended, which is a planned stop
		}
		err = g.member(ctx, view)
		if fatal := g.fatal(err); fatal != nil {
			return fatal
		}
		if !g.began.IsZero() && time.Since(g.began) > settledAfter {
			pauseFor = rejoinPause
		}
		if err == nil || ctx.Err() != nil || errors.Is(err, errTopicsChanged) {
			continue
		}
		g.failed(g.explain(err))
		pause(ctx, pauseFor/2+rand.N(pauseFor/2))
		pauseFor = min(2*pauseFor, rejoinPauseMost)
	}
	return nil
}

// member is one attempt to join and, if it succeeds, one generation. A generation that
// ends because the group re-forms is no error.
func (g *Group) member(ctx context.Context, view topicView) error {
	if err := g.open(); err != nil {
		return err
	}
	ctx, g.consumeEnd = context.WithCancelCause(ctx)
	defer g.consumeEnd(nil)
	g.view, g.cause, g.began = view, nil, time.Time{}
	g.client.begin()
	if g.isStopping() {
		// The interrupt may have come before the attempt that it was to end.
		return errStopping
	}
	attend, stop := context.WithCancel(ctx)
	attended := make(chan struct{})
	go func() {
		defer close(attended)
		g.client.attend(attend, g.joining)
	}()
	err := g.group.Consume(ctx, slices.Sorted(maps.Keys(view)), (*groupHandler)(g))
	stop()
	<-attended
	if g.hurry != nil {
		g.hurry.Stop()
		g.hurry = nil
	}
	if g.cause != nil {
		// The library returns nil, or the next error, when a session was ended by one.
		return g.cause
	}
	if errors.Is(err, sarama.ErrRebalanceInProgress) {
		return nil // while we were setting up
	}
	return err
}

// fatal says what cannot be mended by joining again.
func (g *Group) fatal(err error) error {
	if errors.Is(err, sarama.ErrFencedInstancedId) {
		return fmt.Errorf("%w %q: give every process of group %q its own: %w", ErrFencedInstance, g.opts.InstanceID, g.opts.ID, err)
	}
	return nil
}

// explain adds what can be done about an error.
func (g *Group) explain(err error) error {
	switch {
	case errors.Is(err, sarama.ErrInvalidSessionTimeout):
		return fmt.Errorf("the broker does not take a session timeout of %v (group.min.session.timeout.ms to group.max.session.timeout.ms there): change group.session_timeout: %w", g.opts.SessionTimeout, err)
	case errors.Is(err, sarama.ErrInconsistentGroupProtocol):
		return fmt.Errorf("group %q is in use by consumers of another kind: choose another group.id: %w", g.opts.ID, err)
	case errors.Is(err, sarama.ErrGroupAuthorizationFailed):
		return fmt.Errorf("we may not read as group %q: allow it, or choose another group.id: %w", g.opts.ID, err)
	}
	return plain(err)
}

// failed notes why we are not in the group, and says so once.
func (g *Group) failed(err error) {
	if g.status.failed(err) {
		g.log.Warn("not in the group, trying again", zap.Error(err))
	}
}

// trouble notes what is wrong with the brokers, nil when it is over, and says so when
// it begins and ends.
func (g *Group) trouble(err error) {
	switch was := g.status.trouble(err); {
	case was == nil && err != nil:
		g.log.Warn("the group's brokers give trouble, trying again", zap.Error(err))
	case was != nil && err == nil:
		g.log.Info("the group's brokers answer again")
	}
}

// open makes the library's consumer group if there is none. It keeps our member id.
func (g *Group) open() error {
	if g.group != nil {
		return nil
	}
	group, err := sarama.NewConsumerGroupFromClient(g.opts.ID, g.client)
	if err != nil {
		return fmt.Errorf("make the consumer group: %w", err)
	}
	g.group, g.errorsDone = group, make(chan struct{})
	go func(done chan struct{}) {
		defer close(done)
		for err := range group.Errors() {
			g.log.Debug("from the client library", zap.Error(err))
		}
	}(g.errorsDone)
	return nil
}

// joining is true while a join may be waited for.
func (g *Group) joining() bool {
	g.turn.Lock()
	defer g.turn.Unlock()
	return !g.active
}

func (g *Group) isStopping() bool {
	g.turn.Lock()
	defer g.turn.Unlock()
	return g.stopping
}

// Status says how the membership stands.
func (g *Group) Status() Status { return g.status.get() }
