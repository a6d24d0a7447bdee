package app

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Trouble degrades the process without stopping it.
type Trouble struct {
	Reason  string `json:"reason"`
	Subject string `json:"subject,omitempty"`
	Detail  string `json:"detail"`
}

// Health is the answer of /readyz and /v1/status. The process is ready unless it as
// a whole cannot work (design.md section 4, Health); what concerns a part is degraded.
type Health struct {
	Ready         bool      `json:"ready"`
	Why           string    `json:"why,omitempty"`            // it is not ready
	DegradedParts int       `json:"degraded_parts,omitempty"` // the number of troubles
	Degraded      []Trouble `json:"degraded,omitempty"`       // hidden from those without the token
}

// healthEvery is how often trouble is looked for to log its begin and end.
const healthEvery = time.Second

// health joins what the parts say. The mutex guards every field.
type health struct {
	log     *zap.Logger
	sources []func() []Trouble
	member  func() (bool, string)

	mu    sync.Mutex
	phase string // starting, running, stopping
	why   string
	known map[Trouble]bool // by reason and subject; already logged
}

func newHealth(log *zap.Logger) *health {
	return &health{log: log.Named("health"), phase: "starting", why: "starting", known: map[Trouble]bool{}}
}

func (h *health) set(phase, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.phase, h.why = phase, why
}

// attach adds the parts once they exist.
func (h *health) attach(member func() (bool, string), sources ...func() []Trouble) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.member, h.sources = member, sources
}

func (h *health) now() Health {
	h.mu.Lock()
	phase, why, member, sources := h.phase, h.why, h.member, h.sources
	h.mu.Unlock()
	out := Health{}
	for _, troubles := range sources {
		out.Degraded = append(out.Degraded, troubles()...)
	}
	out.DegradedParts = len(out.Degraded)
	slices.SortFunc(out.Degraded, func(a, b Trouble) int {
		return cmp.Or(cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Subject, b.Subject))
	})
	switch {
	case phase != "running":
		out.Why = why
	case member != nil:
		out.Ready, out.Why = member()
	}
	return out
}

// watch logs each trouble once when it begins and once when it ends.
func (h *health) look() {
	current := h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	seen := map[Trouble]bool{}
	for _, t := range current.Degraded {
		key := Trouble{Reason: t.Reason, Subject: t.Subject}
		seen[key] = true
		if !h.known[key] {
			h.log.Warn("degraded", zap.String("reason", t.Reason), zap.String("subject", t.Subject), zap.String("detail", t.Detail))
		}
	}
	for key := range h.known {
		if !seen[key] {
			h.log.Info("no longer degraded", zap.String("reason", key.Reason), zap.String("subject", key.Subject))
		}
	}
	h.known = seen
}
