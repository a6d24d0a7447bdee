package forward

import (
	"delay-scheduler/delay"

	"github.com/prometheus/client_golang/prometheus"
)

const namespace = "delay_scheduler"

// metrics are the forwarder's. No label takes a value that a producer chooses.
type metrics struct {
	forwarded   prometheus.Counter
	deadLetters *prometheus.CounterVec
	byReason    map[delay.Reason]prometheus.Counter
	lateness    prometheus.Histogram
	returned    prometheus.Counter
	inDoubt     prometheus.Counter
	parks       *prometheus.CounterVec
}

func newMetrics(f *Forwarder, reg prometheus.Registerer) *metrics {
	m := &metrics{
		forwarded: counter("forwarded_records_total", "Records that every in-sync replica of their target has acknowledged."),
		deadLetters: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "dead_letters_total",
			Help: "Records that their dead-letter topic has acknowledged, by reason.",
		}, []string{"reason"}),
		byReason: map[delay.Reason]prometheus.Counter{},
		lateness: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "lateness_seconds",
			Help: "Time from a record's due time to its acknowledgement by the target.",
			Buckets: []float64{
				.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 300, 900, 3600,
			},
		}),
		returned: counter("returned_total", "Sends that certainly reached no log and are tried again."),
		inDoubt:  counter("in_doubt_total", "Sends that were not answered: the record may be in its target."),
		parks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "parks_total",
			Help: "How often a target fell into trouble, by the class of its error.",
		}, []string{"class"}),
	}
	for _, r := range delay.Reasons() {
		m.byReason[r] = m.deadLetters.WithLabelValues(string(r))
	}
	for c := Transient; c <= Fatal; c++ {
		m.parks.WithLabelValues(className(c))
	}
	if reg != nil {
		reg.MustRegister(m.forwarded, m.deadLetters, m.lateness, m.returned, m.inDoubt, m.parks)
		reg.MustRegister(gauges(f)...)
	}
	return m
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
}

// gauges are read when they are asked for.
func gauges(f *Forwarder) []prometheus.Collector {
	gauge := func(name, help string, labels prometheus.Labels, read func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: namespace, Name: name, Help: help, ConstLabels: labels,
		}, read)
	}
	all := []prometheus.Collector{
		gauge("in_flight_bytes", "Bytes handed to the producer and not answered.", nil, func() float64 {
			f.mu.Lock()
			defer f.mu.Unlock()
			return float64(f.room.used)
		}),
		gauge("in_flight_limit_bytes", "The most bytes that are handed to the producer at a time.", nil, func() float64 {
			return float64(f.opts.MaxInFlight)
		}),
	}
	for s := range laneStates {
		all = append(all, gauge("lanes", "Targets, by state.", prometheus.Labels{"state": s.String()}, func() float64 {
			return float64(f.countLanes(s))
		}))
	}
	return all
}

// deadLetter counts one. Message.Refusal gives only our own reasons, so the label has
// no other values.
func (m *metrics) deadLetter(r delay.Reason) {
	if c, ok := m.byReason[r]; ok {
		c.Inc()
	}
}

// late observes how long after its due time a record was acknowledged.
func (m *metrics) late(ms int64) { m.lateness.Observe(float64(ms) / 1000) }

var classNames = map[Class]string{
	Transient: "transient", UnknownTopic: "unknown-topic", NotAuthorized: "not-authorized",
	TooLarge: "too-large", Rejected: "rejected", Fatal: "fatal",
}

// className is a class as it is written in logs and labels.
func className(c Class) string {
	if name, ok := classNames[c]; ok {
		return name
	}
	return "unknown"
}
