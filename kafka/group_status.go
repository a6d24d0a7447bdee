package kafka

import (
	"cmp"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Status says how the membership stands.
type Status struct {
	// Joined is true while we hold a generation and its coordinator answers.
	Joined     bool
	Member     string
	Generation int32
	// Since is when Joined, or the generation, changed.
	Since time.Time
	// LastError is what is wrong at the moment, "" if nothing is.
	LastError string
	// Claims counts the partitions that are ours.
	Claims int
}

// statusBoard keeps the status for whoever asks.
type statusBoard struct {
	session time.Duration
	heard   func() time.Time // when the coordinator last answered

	mu     sync.Mutex // guards what follows
	now    Status     // without LastError
	broker error      // why no broker can be talked to
	group  error      // why we are not in the group
}

func (b *statusBoard) get() Status {
	heard := b.heard()
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.now
	if err := cmp.Or(b.group, b.broker); err != nil {
		s.LastError = err.Error()
	}
	if s.Joined && time.Since(heard) > b.session {
		s.Joined, s.Since = false, heard.Add(b.session)
		if s.LastError == "" {
			s.LastError = "the group coordinator does not answer"
		}
	}
	return s
}

// trouble keeps what is wrong with the brokers, nil when it is over, and gives what
// was.
func (b *statusBoard) trouble(err error) (was error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was, b.broker = b.broker, err
	return was
}

// failed keeps why we are not in the group, until we are, and says whether that is new.
func (b *statusBoard) failed(err error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	news := b.group == nil || b.group.Error() != err.Error()
	b.group = err
	return news
}

func (b *statusBoard) joined(s *session, claims int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = Status{Joined: true, Member: s.member, Generation: s.generation, Since: time.Now(), Claims: claims}
	b.group, b.broker = nil, nil
}

func (b *statusBoard) released(cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now.Joined, b.now.Since, b.now.Claims = false, time.Now(), 0
	b.group = cause
}

func (b *statusBoard) left(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = Status{Since: time.Now()}
	if err != nil {
		b.group = err
	}
}

// groupMetrics are the membership's and the committer's.
type groupMetrics struct {
	generations    prometheus.Counter
	claims         prometheus.Gauge
	commitRequests prometheus.Counter
	commitSeconds  prometheus.Histogram
}

// newGroupMetrics registers with reg, if there is one.
func newGroupMetrics(reg prometheus.Registerer) *groupMetrics {
	const namespace = "delay_scheduler"
	m := &groupMetrics{
		generations: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "group_generations_total", Help: "Generations of the consumer group that were joined.",
		}),
		claims: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "group_claims", Help: "Partitions that the consumer group has given to this process.",
		}),
		commitRequests: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "commit_requests_total", Help: "Requests that were sent to store offsets.",
		}),
		commitSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "commit_seconds", Help: "Time until the offsets of a request were stored.",
			Buckets: []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5},
		}),
	}
	if reg != nil {
		reg.MustRegister(m.generations, m.claims, m.commitRequests, m.commitSeconds)
	}
	return m
}

func (m *groupMetrics) joined(claims int) {
	m.generations.Inc()
	m.claims.Set(float64(claims))
}
