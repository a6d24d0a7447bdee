package scheduler

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

const namespace = "delay_scheduler"

// metrics are the loops' counters. The gauges are read from the snapshots when they
// are scraped. Labels are source topics and partitions, never anything that a
// producer chooses.
type metrics struct {
	inDoubt, skipped, lost, truncated, future, stalls  prometheus.Counter
	dropped, commitErrors, metadataRefused, rebalances prometheus.Counter
	spilled, recalled, gone, passes                    prometheus.Counter
	rebuild                                            prometheus.Histogram
}

func newMetrics(s *Scheduler, reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
	}
	m := &metrics{
		inDoubt:         counter("in_doubt_records_total", "Sends that were unanswered when their partition was given up; they may be sent again."),
		skipped:         counter("skipped_as_done_records_total", "Records found done when a partition was rebuilt."),
		lost:            counter("lost_offsets_total", "Offsets deleted from a source before they were read."),
		truncated:       counter("truncated_logs_total", "Positions found beyond the end of a log."),
		future:          counter("future_timestamp_records_total", "Records whose producer timestamp is ahead of our clock by more than clock.max_skew."),
		stalls:          counter("budget_stalls_total", "How often a partition stopped reading because memory.budget was used up."),
		dropped:         counter("completed_set_dropped_records_total", "Completions that did not fit into the commit metadata; they are sent again after a crash."),
		commitErrors:    counter("commit_errors_total", "Commits that were refused."),
		metadataRefused: counter("commit_metadata_refused_total", "Commit metadata that was damaged or foreign when a partition was claimed."),
		rebalances:      counter("rebalances_total", "Assignments received from the group."),
		spilled:         counter("payloads_given_up_total", "Payloads of pending records given up for memory; they are read back before they are due."),
		recalled:        counter("payloads_read_back_total", "Payloads read back from the source."),
		gone:            counter("gone_records_total", "Pending records that the source did not hold any more when they were due."),
		passes:          counter("recall_passes_total", "Passes over a source to read payloads back."),
		rebuild: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "rebuild_seconds", Help: "Time from a claim until its buckets were rebuilt.",
			Buckets: []float64{.01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 1800},
		}),
	}
	if reg != nil {
		reg.MustRegister(m.inDoubt, m.skipped, m.lost, m.truncated, m.future, m.stalls, m.dropped,
			m.commitErrors, m.metadataRefused, m.rebalances, m.spilled, m.recalled, m.gone, m.passes, m.rebuild, newGauges(s))
	}
	return m
}

// gauges collects the snapshots.
type gauges struct {
	s                                                       *Scheduler
	pending, bytes, nextDue, overdue, watermark, above, pos *prometheus.Desc
	oldest, logEnd, setBytes, used, limit                   *prometheus.Desc
	far, late, horizon, rebuilt, structures                 *prometheus.Desc
}

func newGauges(s *Scheduler) *gauges {
	per := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_"+name, help, []string{"topic", "partition"}, nil)
	}
	one := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_"+name, help, nil, nil)
	}
	return &gauges{
		s:          s,
		pending:    per("pending_records", "Records read and not yet done."),
		bytes:      per("pending_bytes", "What the pending records are charged against memory.budget."),
		nextDue:    per("next_due_timestamp_seconds", "Due time of the next record; 0 when nothing is pending."),
		overdue:    per("overdue_not_in_flight_records", "Records that are due and neither sent nor in flight."),
		oldest:     per("oldest_overdue_seconds", "How long ago the oldest of those was due; 0 when there is none."),
		watermark:  per("watermark_offset", "Everything below this offset is done."),
		above:      per("completed_above_watermark", "Offsets above the watermark that are done: lag that is no work."),
		pos:        per("position_offset", "Next offset to be read."),
		logEnd:     per("log_end_offset", "Last stable offset of the source."),
		setBytes:   per("completed_set_bytes", "Length of the commit metadata."),
		far:        per("far_records", "Pending records of which no more than due time and offset is in memory."),
		late:       per("awaiting_payload_records", "Records that are due and whose payload is not back from the source yet."),
		horizon:    per("payload_horizon_timestamp_seconds", "Records due before this have their payload in memory or under way; 0 when all have."),
		rebuilt:    per("rebuild_share", "How much of what the log held at the claim has been read, 0 to 1; 1 when it is over."),
		structures: one("budget_index_bytes", "What indexes and completed sets take of the budget."),
		used:       one("budget_used_bytes", "What all pending records are charged."),
		limit:      one("budget_limit_bytes", "memory.budget."),
	}
}

// Describe implements prometheus.Collector.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.pending, g.bytes, g.nextDue, g.overdue, g.oldest, g.watermark, g.above, g.pos, g.logEnd, g.setBytes, g.far, g.late, g.horizon, g.rebuilt, g.structures, g.used, g.limit} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	now := g.s.parts.Clock.Wall()
	for _, st := range g.s.Partitions() {
		l := []string{st.Topic, strconv.Itoa(int(st.Partition))}
		gauge(g.pending, float64(st.Pending), l...)
		gauge(g.bytes, float64(st.Bytes), l...)
		gauge(g.nextDue, float64(st.NextDue)/1000, l...)
		gauge(g.overdue, float64(st.Overdue), l...)
		gauge(g.oldest, st.overdueFor(now).Seconds(), l...)
		gauge(g.watermark, float64(st.Watermark), l...)
		gauge(g.above, float64(st.CompletedAbove), l...)
		gauge(g.pos, float64(st.Position), l...)
		gauge(g.logEnd, float64(st.LogEnd), l...)
		gauge(g.setBytes, float64(st.CommitBytes), l...)
		gauge(g.far, float64(st.Far), l...)
		gauge(g.late, float64(st.AwaitingPayload), l...)
		gauge(g.horizon, float64(st.PayloadHorizon)/1000, l...)
		gauge(g.rebuilt, st.RebuildShare, l...)
	}
	gauge(g.structures, float64(g.s.structures.Load()))
	gauge(g.used, float64(g.s.parts.Budget.Used()))
	gauge(g.limit, float64(g.s.parts.Budget.Limit()))
}
