package forward

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// LaneStatus is what is known of one target.
type LaneStatus struct {
	Target        string     `json:"target"`
	State         string     `json:"state"` // resolving, open, half-open, parked
	Since         time.Time  `json:"since"`
	InFlight      int        `json:"in_flight"`
	InFlightBytes int64      `json:"in_flight_bytes"`
	Waiting       int        `json:"waiting"`              // dead letters that this topic has not taken yet
	GivenUp       bool       `json:"given_up"`             // its records go to the dead-letter topic meanwhile
	Error         string     `json:"error,omitempty"`      // the trouble that has not ended
	NextProbe     *time.Time `json:"next_probe,omitempty"` // when the cluster is asked again
}

// Lanes lists the targets, by name.
func (f *Forwarder) Lanes() []LaneStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]LaneStatus, 0, len(f.lanes))
	for _, l := range f.lanes {
		s := LaneStatus{
			Target: l.target, State: l.state.String(), Since: f.wall(l.since),
			InFlight: l.inFlight, InFlightBytes: l.used, GivenUp: l.givenUp(),
		}
		if w := f.waiting[l.target]; w != nil {
			s.Waiting = len(w.records)
		}
		if l.err != nil {
			s.Error = l.err.Error()
		}
		if l.state == parked {
			next := f.wall(l.nextAt)
			s.NextProbe = &next
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b LaneStatus) int { return strings.Compare(a.Target, b.Target) })
	return all
}

// Reasons for which the forwarder reports itself degraded.
const (
	// TroubleProducer: the producer cannot go on; nothing is sent.
	TroubleProducer = "producer"
	// TroubleLane: a target is in trouble; its records wait, or are dead letters.
	TroubleLane = "lane"
	// TroubleDeadLetterTopic: a dead-letter topic takes nothing, or not all; what
	// belongs there stays pending.
	TroubleDeadLetterTopic = "dead_letter_topic"
)

// TroubleReasons lists all reasons, so that a metric can show those that are absent.
func TroubleReasons() []string {
	return []string{TroubleProducer, TroubleLane, TroubleDeadLetterTopic}
}

// Trouble is something that degrades the process without stopping it.
type Trouble struct {
	Reason  string `json:"reason"`  // one of a fixed list; a metric label
	Subject string `json:"subject"` // the part concerned
	Detail  string `json:"detail"`
}

// Degraded lists what is in trouble, by reason and name; nothing when all is well.
func (f *Forwarder) Degraded() []Trouble {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.boot()
	var all []Trouble
	if f.broken != nil {
		all = append(all, Trouble{TroubleProducer, "producer", f.broken.Error()})
	}
	for _, l := range f.lanes {
		switch {
		case l.state == parked && l.dead:
			all = append(all, Trouble{TroubleDeadLetterTopic, l.target, l.err.Error()})
		case l.state == parked:
			all = append(all, Trouble{TroubleLane, l.target, l.err.Error()})
		case l.stuckAt != never && at-l.stuckAt < 2*f.opts.ProbeMax:
			// Each is tried again every ProbeMax, so the trouble is over when this is old.
			all = append(all, Trouble{TroubleDeadLetterTopic, l.target, fmt.Sprintf(
				"refuses records and the pointers to them: %v", l.stuckErr.Err)})
		}
	}
	slices.SortFunc(all, func(a, b Trouble) int {
		return cmp.Or(strings.Compare(a.Reason, b.Reason), strings.Compare(a.Subject, b.Subject))
	})
	return all
}

func (f *Forwarder) countLanes(s laneState) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, l := range f.lanes {
		if l.state == s {
			n++
		}
	}
	return n
}
