package kafka

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// fetchMetrics are the fetcher's. Without a registerer they count for nobody.
type fetchMetrics struct {
	requests *prometheus.CounterVec
	records  prometheus.Counter
	past     prometheus.Counter
	failures *prometheus.CounterVec
}

func newFetchMetrics(reg prometheus.Registerer) *fetchMetrics {
	f := promauto.With(reg)
	m := &fetchMetrics{
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "delay_scheduler_fetch_requests_total",
			Help: "Fetch requests, by whether they wait for records to arrive (tail), read what is there (quick), or payloads back (past).",
		}, []string{"poll"}),
		records: f.NewCounter(prometheus.CounterOpts{
			Name: "delay_scheduler_fetch_records_total",
			Help: "Records read from sources.",
		}),
		past: f.NewCounter(prometheus.CounterOpts{
			Name: "delay_scheduler_recall_read_records_total",
			Help: "Records read to get payloads back, those that were passed over included: divided by delay_scheduler_payloads_read_back_total, the read amplification.",
		}),
		failures: f.NewCounterVec(prometheus.CounterOpts{
			Name: "delay_scheduler_fetch_failures_total",
			Help: "Failed attempts to read a partition, by cause (connection, leader, missing, refused, undecodable).",
		}, []string{"cause"}),
	}
	// From zero: of a series that begins with its first failure, a rate never sees it.
	for _, poll := range []string{"tail", "quick", "past"} {
		m.requests.WithLabelValues(poll)
	}
	for _, cause := range fetchCauses {
		m.failures.WithLabelValues(cause)
	}
	return m
}
