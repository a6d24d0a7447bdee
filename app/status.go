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

// BudgetStatus is how much of memory.budget is used.
type BudgetStatus struct {
	UsedBytes  int64 `json:"used_bytes"`
	LimitBytes int64 `json:"limit_bytes"`
}

// Status gives a snapshot of the whole process.
func (a *App) Status() Status {
	st := Status{Version: a.version, Started: a.started, Group: a.config.Group.ID, Health: a.health.now()}
	p := a.parts.Load()
	if p == nil {
		return st
	}
	st.Budget = BudgetStatus{UsedBytes: p.budget.Used(), LimitBytes: p.budget.Limit()}
	st.Partitions = p.scheduler.Partitions()
	st.Lanes = p.forwarder.Lanes()
	return st
}
