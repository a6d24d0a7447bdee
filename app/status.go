package app

import (
	"time"

	"delay-scheduler/forward"
	"delay-scheduler/scheduler"
)

// Status is the answer of /v1/status.
type Status struct {
	Version    string                      `json:"version"`
	Started    time.Time                   `json:"started"`
	Group      string                      `json:"group"`
	Health     Health                      `json:"health"`
	Budget     BudgetStatus                `json:"budget"`
	Partitions []scheduler.PartitionStatus `json:"partitions"`
	Lanes      []forward.LaneStatus        `json:"lanes"`
}

// BudgetStatus is how much of memory.budget is used, and what the process may take.
type BudgetStatus struct {
	UsedBytes  int64 `json:"used_bytes"`
	IndexBytes int64 `json:"index_bytes"` // of these; the rest is payloads and what is in flight
	LimitBytes int64 `json:"limit_bytes"`
	// ProcessBytes is what the process takes in all at most: 1.2 x memory.budget +
	// memory.max_in_flight + 80 MiB.
	ProcessBytes int64 `json:"process_bytes"`
}

// Status gives a snapshot of the whole process.
func (a *App) Status() Status {
	st := Status{Version: a.version, Started: a.started, Group: a.config.Group.ID, Health: a.health.now()}
	p := a.parts.Load()
	if p == nil {
		return st
	}
	st.Partitions = p.scheduler.Partitions()
	st.Budget = BudgetStatus{UsedBytes: p.budget.Used(), LimitBytes: p.budget.Limit(), ProcessBytes: memoryNeed(a.config)}
	for i := range st.Partitions {
		st.Budget.IndexBytes += st.Partitions[i].IndexBytes
	}
	st.Lanes = p.forwarder.Lanes()
	return st
}
