package app

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"delay-scheduler/forward"
	"delay-scheduler/scheduler"
)

// healthGauges shows readiness and each known reason for being degraded, also those
// that are absent, so that an alert does not need to know which exist.
type healthGauges struct {
	health          *health
	ready, degraded *prometheus.Desc
}

func newHealthGauges(h *health) *healthGauges {
	return &healthGauges{
		health:   h,
		ready:    prometheus.NewDesc("delay_scheduler_ready", "1 when the process as a whole can work.", nil, nil),
		degraded: prometheus.NewDesc("delay_scheduler_degraded", "Parts in trouble, by reason.", []string{"reason"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (g *healthGauges) Describe(ch chan<- *prometheus.Desc) {
	ch <- g.ready
	ch <- g.degraded
}

// Collect implements prometheus.Collector.
func (g *healthGauges) Collect(ch chan<- prometheus.Metric) {
	now := g.health.now()
	ready := 0.0
	if now.Ready {
		ready = 1
	}
	ch <- prometheus.MustNewConstMetric(g.ready, prometheus.GaugeValue, ready)
	counts := map[string]float64{}
	for _, reason := range slices.Concat(scheduler.TroubleReasons(), forward.TroubleReasons(), []string{troublePreflight, troubleRetention}) {
		counts[reason] = 0
	}
	for _, t := range now.Degraded {
		counts[t.Reason]++
	}
	for reason, n := range counts {
		ch <- prometheus.MustNewConstMetric(g.degraded, prometheus.GaugeValue, n, reason)
	}
}
