package kafka

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// produceMetrics are what the producer counts. No label names a topic: targets are
// chosen by whoever writes to a source.
type produceMetrics struct {
	requests     prometheus.Counter
	requestTime  prometheus.Histogram
	batchBytes   prometheus.Histogram
	records      prometheus.Counter
	retries      prometheus.Counter
	splits       prometheus.Counter
	givenBack    prometheus.Counter
	resequenced  prometheus.Counter
	duplicates   prometheus.Counter
	isolated     prometheus.Counter
	inFlight     prometheus.Gauge
	connections  prometheus.Gauge
	disconnected prometheus.Counter
}

func newProduceMetrics(reg prometheus.Registerer) *produceMetrics {
	f := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: "delay_scheduler_produce_" + name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return f.NewGauge(prometheus.GaugeOpts{Name: "delay_scheduler_produce_" + name, Help: help})
	}
	return &produceMetrics{
		requests: counter("requests_total", "Produce requests sent."),
		requestTime: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "delay_scheduler_produce_request_seconds",
			Help:    "Time from handing a produce request to its connection until its answer.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15), // 1 ms to 16 s
		}),
		batchBytes: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "delay_scheduler_produce_batch_bytes",
			Help:    "Size of a batch before compression.",
			Buckets: prometheus.ExponentialBuckets(256, 4, 8), // 256 B to 4 MiB
		}),
		records:      counter("records_total", "Records acknowledged by all in-sync replicas."),
		retries:      counter("retries_total", "Batches sent again."),
		splits:       counter("splits_total", "Batches divided because something in them was refused."),
		givenBack:    counter("given_back_total", "Records that came back unsent because their target was in trouble."),
		resequenced:  counter("sequence_resets_total", "Batches sent again under a new producer identity, because the broker did not know the old one."),
		duplicates:   counter("possible_duplicates_total", "Records sent again under a new producer identity although an earlier attempt may have been written."),
		isolated:     counter("isolations_total", "Times that requests were moved to other connections because one was slow."),
		inFlight:     gauge("in_flight_bytes", "Bytes of the records that were taken and are not acknowledged."),
		connections:  gauge("connections", "Connections for produce requests."),
		disconnected: counter("disconnects_total", "Connections for produce requests that broke."),
	}
}
