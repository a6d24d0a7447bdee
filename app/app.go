package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"

	"delay-scheduler/config"
	"delay-scheduler/kafka"
)

// App is one scheduler process.
type App struct {
	config   *config.Config
	version  string
	started  time.Time
	log      *zap.Logger
	registry *prometheus.Registry
	health   *health
	server   *server
	guard    *guard
	parts    atomic.Pointer[parts] // nil until they are made
	// unjudged leaves out the preflight: an embedded broker is no cluster to be judged.
	unjudged bool
}

// leaveWithin bounds the wait for the membership to end after everything is
// committed: a group that cannot be left in that time is left to its session timeout.
const leaveWithin = 10 * time.Second

// closeWithin bounds the closing of what has nothing left to do: what was in flight has
// been awaited.
const closeWithin = 2 * time.Second

// hurriedLeave is the same after a second signal.
const hurriedLeave = 5 * time.Second

// New makes an app and binds its HTTP address. Nothing else runs before Run, which
// must follow: it also gives the address back.
func New(c *config.Config, version string, log *zap.Logger) (*App, error) {
	a := &App{
		config: c, version: version, started: time.Now(), log: log,
		registry: prometheus.NewRegistry(), health: newHealth(log),
	}
	a.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), newHealthGauges(a.health))
	var err error
	if a.guard, err = newGuard(&c.HTTP, log); err != nil {
		return nil, err
	}
	encrypt, err := serverTLS(&c.HTTP.TLS, log)
	if err != nil {
		return nil, err
	}
	if a.server, err = listen(c.HTTP.Listen, a.routes(), encrypt, log); err != nil {
		return nil, err
	}
	return a, nil
}

// Address is where HTTP is served.
func (a *App) Address() string { return a.server.address() }

// Run works until ctx ends or the membership cannot go on. Then it stops in order:
// not ready, nothing new is read or sent, what is in flight is awaited and committed,
// the group is left, all is closed, HTTP last. When hurry ends, the waits are cut short.
func (a *App) Run(ctx, hurry context.Context) error {
	a.log.Info("starting", zap.String("version", a.version), zap.Strings("brokers", a.config.Kafka.Brokers),
		zap.String("group", a.config.Group.ID), zap.String("http", a.Address()))
	kafka.SetLogger(a.log)
	limitMemory(a.config, a.log)
	end := steps{{"http", a.server.stop}}
	p, err := newParts(a.config, a.log, a.registry)
	if err == nil {
		a.parts.Store(p)
		w := newWatches(a, p)
		a.health.attach(p.member, p.schedulerTroubles, p.forwarderTroubles, w.troubles)
		a.health.set("running", "")
		watched := w.start(ctx)
		err = a.work(ctx, hurry, p)
		watched()
		end = append(p.closing(a.log), end...)
	}
	a.health.set("stopping", "stopping")
	stopCtx, cancel := context.WithTimeout(hurry, closeWithin)
	defer cancel()
	err = errors.Join(err, end.run(stopCtx, a.log))
	a.log.Info("stopped", zap.Error(err))
	return err
}

// work runs the membership until ctx ends, then drains and leaves.
func (a *App) work(ctx, hurry context.Context, p *parts) error {
	// The membership outlives ctx: the last commits need it.
	member, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	ended := make(chan error, 1)
	go func() { ended <- p.group.Run(member) }()
	ticker := time.NewTicker(healthEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			a.health.look()
		case err := <-ended:
			if err == nil {
				err = errors.New("the membership ended by itself")
			}
			return fmt.Errorf("group %s: %w", a.config.Group.ID, err)
		case <-ctx.Done():
			a.health.set("stopping", "stopping")
			a.log.Info("stopping", zap.Duration("drain_timeout", a.config.Shutdown.DrainTimeout))
			return a.drain(hurry, p, leave, ended)
		}
	}
}

func (a *App) drain(hurry context.Context, p *parts, leave context.CancelFunc, ended <-chan error) error {
	ctx, cancel := context.WithTimeout(hurry, a.config.Shutdown.DrainTimeout)
	defer cancel()
	p.scheduler.Drain(ctx)
	leave()
	wait := leaveWithin
	if hurry.Err() != nil {
		wait = hurriedLeave
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(wait):
		a.log.Warn("the group was not left in time: its session will expire")
		return nil
	}
}
