package app

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"delay-scheduler/preflight"
)

// Reasons for being degraded that are found by looking at the cluster from outside.
const (
	troublePreflight = "preflight"
	troubleRetention = "retention"
)

// How often a running process looks, and for how long at most.
const (
	judgeEvery    = 10 * time.Minute
	judgeWithin   = 30 * time.Second
	joinPatience  = 30 * time.Second       // then the cluster is judged without a membership
	joinLookEvery = 100 * time.Millisecond // whether there is one
)

// watches are what looks at the cluster beside the work: the preflight, the retention
// margin, and what was decided about held records. None of them is waited for by anything, and a look that hangs is cut off.
type watches struct {
	preflight *preflightWatch
	retention *retentionWatch
	run       []func(context.Context)
}

func newWatches(a *App, p *parts) *watches {
	w := &watches{
		preflight: &preflightWatch{
			log: a.log.Named("preflight"), again: max(a.config.Kafka.MetadataRefresh, time.Second),
			joined: func() bool { return p.group.Status().Joined },
			check: func(ctx context.Context, joined bool) ([]preflight.Finding, error) {
				return check(ctx, a.config, joined)
			},
		},
		retention: newRetentionWatch(a.config, p.scheduler.Partitions, a.log),
	}
	a.registry.MustRegister(w.preflight, w.retention)
	w.run = append(w.run, w.retention.run, func(ctx context.Context) { p.watchDecisions(ctx, a.config, a.log) })
	if !a.unjudged {
		w.run = append(w.run, w.preflight.run)
	}
	return w
}

// start runs them until ctx ends; the function that it gives waits for that.
func (w *watches) start(ctx context.Context) (wait func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, run := range w.run {
		running.Go(func() { run(ctx) })
	}
	return func() {
		cancel()
		running.Wait()
	}
}

func (w *watches) troubles() []Trouble {
	return append(w.preflight.troubles(), w.retention.troubles(time.Now())...)
}

// preflightWatch judges the cluster after the start and now and then after it.
type preflightWatch struct {
	log    *zap.Logger
	again  time.Duration // after a failure was found: when it may be mended
	joined func() bool
	check  func(ctx context.Context, joined bool) ([]preflight.Finding, error)

	mu       sync.Mutex // guards findings
	findings []preflight.Finding
}

// run judges until ctx ends, first when the process is a member of its group, so that
// nothing is later for it.
func (w *preflightWatch) run(ctx context.Context) {
	w.awaitJoin(ctx)
	said := map[preflight.Finding]bool{}
	for ctx.Err() == nil {
		w.judge(ctx, said)
		every := judgeEvery
		if preflight.Count(w.current())[preflight.Fail] > 0 {
			every = w.again
		}
		sleep(ctx, every)
	}
}

func (w *preflightWatch) awaitJoin(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, joinPatience)
	defer cancel()
	for !w.joined() && ctx.Err() == nil {
		sleep(ctx, joinLookEvery)
	}
}

func (w *preflightWatch) judge(ctx context.Context, said map[preflight.Finding]bool) {
	limited, cancel := context.WithTimeout(ctx, judgeWithin)
	defer cancel()
	findings, err := w.check(limited, w.joined())
	if err != nil {
		if ctx.Err() == nil {
			w.log.Warn("the cluster could not be checked", zap.Error(err))
		}
		return
	}
	w.mu.Lock()
	w.findings = findings
	w.mu.Unlock()
	for _, f := range findings {
		// What was found changes with every look where it is a time or an amount.
		key := preflight.Finding{ID: f.ID, Severity: f.Severity, Subject: f.Subject}
		if (f.Severity == preflight.Fail || f.Severity == preflight.Warn) && !said[key] {
			said[key] = true
			w.log.Warn("check: "+f.Found, zap.String("severity", string(f.Severity)), zap.String("check", f.ID), zap.String("subject", f.Subject), zap.String("do", f.Do))
		}
	}
}

func (w *preflightWatch) current() []preflight.Finding {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.findings
}

// troubles are the failures, but for those that the retention margin shows by partition.
func (w *preflightWatch) troubles() (out []Trouble) {
	for _, f := range w.current() {
		if f.Severity != preflight.Fail || f.ID == preflight.IDPending {
			continue
		}
		detail := f.ID + ": " + f.Found
		if f.Do != "" {
			detail += ": " + f.Do
		}
		out = append(out, Trouble{Reason: troublePreflight, Subject: f.Subject, Detail: detail})
	}
	return out
}

var findingsDesc = prometheus.NewDesc("delay_scheduler_preflight_findings", "Findings of the latest check of the cluster, by severity (fail, warn, unknown, pass).", []string{"severity"}, nil)

// Describe implements prometheus.Collector.
func (w *preflightWatch) Describe(ch chan<- *prometheus.Desc) { ch <- findingsDesc }

// Collect implements prometheus.Collector. There is nothing before the first check.
func (w *preflightWatch) Collect(ch chan<- prometheus.Metric) {
	findings := w.current()
	if len(findings) == 0 {
		return
	}
	for severity, n := range preflight.Count(findings) {
		ch <- prometheus.MustNewConstMetric(findingsDesc, prometheus.GaugeValue, float64(n), string(severity))
	}
}

// sleep waits, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
