package app

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"delay-scheduler/config"
	"delay-scheduler/delay"
	"delay-scheduler/measure"
)

// MeasureOptions say what is measured, and of which scheduler.
type MeasureOptions struct {
	measure.Options
	// Self runs a scheduler in this process, on the topics of the run alone and in a group
	// of its own. Else one has to be running.
	Self    bool
	Version string
	// Metrics are the addresses of the running schedulers, to ask for their memory. None:
	// the one that the configuration names, if it answers.
	Metrics []string
}

// ErrMeasure says that a run does not fit the configuration.
var ErrMeasure = errors.New("the run does not fit the configuration")

// Measure measures a scheduler on the configured cluster.
func Measure(ctx, hurry context.Context, c *config.Config, o MeasureOptions, log *zap.Logger) (measure.Result, error) {
	o.Cluster = clusterOptions(c)
	o.Cluster.ClientID += "-bench"
	o.Compression, o.Linger = c.Forward.Compression, c.Forward.Linger
	of := ""
	if o.Self {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		s := &selfRun{config: selfConfig(c, o.Topics), version: o.Version, log: log, broken: cancel}
		o.Start, o.Memory, of = s.start, s.memory, "this process, the scheduler and the measuring"
	} else {
		m, err := newMemoryQuery(c, o.Metrics)
		if err != nil {
			return measure.Result{}, err
		}
		o.Memory, of = m.total, m.of()
	}
	r, err := measure.Run(ctx, hurry, o.Options)
	if r.Memory.Most > 0 {
		r.Memory.Of = of
	}
	if cause := context.Cause(ctx); errors.Is(cause, errSelfEnded) && !errors.Is(err, errSelfEnded) {
		err = errors.Join(cause, err)
	}
	return r, err
}

// CheckMeasure says whether a scheduler with this configuration would forward the records
// of a run. The error is ErrMeasure if not.
func CheckMeasure(c *config.Config, topics measure.Topics, delays measure.Delays) error {
	for _, target := range topics.Targets {
		now := time.Now()
		e, err := Explain(c, &delay.Record{
			Topic: topics.Source, Offset: -1, Timestamp: now.UnixMilli(), Value: []byte{},
			Headers: []delay.Header{
				{Key: []byte(delay.HeaderTargetTopic), Value: []byte(target)},
				{Key: []byte(delay.HeaderDeliverAt), Value: strconv.AppendInt(nil, now.Add(delays.Longest()).UnixMilli(), 10)},
			},
		})
		switch {
		case errors.Is(err, ErrNoSource):
			return fmt.Errorf("%w: %s: no source reads it", ErrMeasure, topics.Source)
		case err != nil:
			return err
		case e.Refused != nil:
			return fmt.Errorf("%w: %s to %s would be refused: %s: %s", ErrMeasure, topics.Source, target, e.Refused.Reason, e.Refused.Detail)
		}
	}
	return nil
}

// selfConfig is a configuration for the topics of a run alone: nothing else of the cluster
// is read, and nobody else's address or group is used.
func selfConfig(c *config.Config, topics measure.Topics) *config.Config {
	own := *c
	source := config.Default().Sources[0]
	source.Topics, source.DeadLetterTopic = []string{topics.Source}, topics.DeadLetters
	own.Sources = []config.Source{source}
	own.Targets.Allow, own.Targets.Deny = topics.Targets, nil
	own.Group.ID, own.Group.InstanceID = topics.Source, ""
	own.HTTP = config.HTTP{Listen: "127.0.0.1:0"}
	return &own
}

// selfRun is a scheduler in this process.
type selfRun struct {
	config  *config.Config
	version string
	log     *zap.Logger
	broken  context.CancelCauseFunc
	app     *App
}

// errSelfEnded says that the scheduler in this process ended before its time.
var errSelfEnded = errors.New("the scheduler in this process has ended")

func (s *selfRun) start(ctx context.Context) (stop func() error, err error) {
	if s.app, err = New(s.config, s.version, s.log); err != nil {
		return nil, err
	}
	s.app.unjudged = true
	// It outlives ctx: it is stopped in order also when the run is interrupted.
	work, end := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() {
		err := s.app.Run(work, work)
		if work.Err() == nil {
			s.broken(fmt.Errorf("%w: %w", errSelfEnded, err))
		}
		ended <- err
	}()
	return func() error {
		end()
		return <-ended
	}, nil
}

func (s *selfRun) memory(context.Context) (int64, error) { return residentOf(s.app.registry) }

// residentMetric is what a process takes, as Prometheus' own collector names it.
const residentMetric = "process_resident_memory_bytes"

func residentOf(g prometheus.Gatherer) (int64, error) {
	families, err := g.Gather()
	if err != nil {
		return 0, fmt.Errorf("read the own metrics: %w", err)
	}
	for _, f := range families {
		if f.GetName() == residentMetric {
			return int64(f.GetMetric()[0].GetGauge().GetValue()), nil
		}
	}
	return 0, errors.New("this system does not say what a process takes")
}
