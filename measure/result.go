package measure

import (
	"fmt"
	"time"
)

// Result is what one run has found. Times are in ms by the brokers' clock unless the
// name says otherwise.
type Result struct {
	Delays     string  `json:"delays"`
	Rate       float64 `json:"rate"` // records a second that were asked for; 0: as fast as they are taken
	ValueBytes int     `json:"value_bytes"`
	Partitions int     `json:"partitions"`
	Targets    int     `json:"targets"`

	Records   int   `json:"records"` // written and acknowledged
	Forwarded int   `json:"forwarded"`
	Accepted  Speed `json:"accepted"`
	Forwards  Speed `json:"forwards"` // from the first due time to the last append
	Copy      Speed `json:"copy"`     // the same records read and written without a delay

	Late  Lateness `json:"late"`
	Write Lateness `json:"write"` // from our sending to the append in the source, by two clocks

	Early         int    `json:"early"`
	EarlyMost     int64  `json:"early_most_ms,omitempty"`
	Lost          int    `json:"lost"`
	Duplicates    int    `json:"duplicates"`
	DeadLetters   int    `json:"dead_letters"`
	RefusedReason string `json:"refused_reason,omitempty"` // of the first dead letter

	// BrokerStamped says that the brokers stamped the targets. The embedded one does not:
	// then lateness is to when the scheduler sent.
	BrokerStamped bool `json:"broker_stamped"`
	// ClockBehind is how far the brokers' clock is behind this machine's at least.
	ClockBehind int64  `json:"clock_behind_ms"`
	Memory      Memory `json:"memory"`

	Seconds []Second `json:"seconds,omitempty"`
}

// Speed is records over time.
type Speed struct {
	Records   int           `json:"records"`
	Took      time.Duration `json:"took_ns"`
	PerSecond float64       `json:"per_second"`
}

func speedOf(records int, took time.Duration) Speed {
	s := Speed{Records: records, Took: took}
	if took > 0 {
		s.PerSecond = float64(records) / took.Seconds()
	}
	return s
}

// Lateness is how a number of times is distributed, in ms.
type Lateness struct {
	P50  int64 `json:"p50_ms"`
	P99  int64 `json:"p99_ms"`
	P999 int64 `json:"p999_ms"`
	Max  int64 `json:"max_ms"`
}

func latenessOf(h *Histogram) Lateness {
	return Lateness{P50: h.Percentile(50), P99: h.Percentile(99), P999: h.Percentile(99.9), Max: h.Max()}
}

// Memory is the scheduler's resident memory, in bytes; zero: not known.
type Memory struct {
	Before int64  `json:"resident_before_bytes,omitempty"`
	Most   int64  `json:"resident_most_bytes,omitempty"`
	Of     string `json:"of,omitempty"`  // which process
	Why    string `json:"why,omitempty"` // it is not known
}

// Broken names what the scheduler promises and did not keep; none: all was kept.
func (r *Result) Broken() (out []string) {
	add := func(n int, what string) {
		if n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(r.Early, "early")
	add(r.Lost, "lost")
	add(r.Duplicates, "twice")
	add(r.DeadLetters, "refused")
	return out
}

// CopyShare is forwarded records a second over those of the copy; 0: not known.
func (r *Result) CopyShare() float64 {
	if r.Copy.PerSecond == 0 {
		return 0
	}
	return r.Forwards.PerSecond / r.Copy.PerSecond
}
