package main

import "fmt"

// When absolute figures bind: what a machine has to do without a scheduler before it is
// told that one is too slow on it.
const (
	leastCopy   = 400_000 // records a second of the plain copy in the same run
	mostIdle    = 5       // ms, the 99th percentile of the idle probe
	unboundOnly = "the run has no plain copy and no idle probe to go by"
)

// goal is what a figure must be, and what it aims to be.
type goal struct {
	must, aim float64
	atLeast   bool // else at most
	absolute  bool // it binds only where the machine is fast and quiet enough
	unit      string
}

// judged adds the goal to a figure.
func (g goal) judged(f figure) figure {
	f.Must, f.Held = g.text(g.must), new(g.met(f.Value, g.must))
	if g.aim != 0 {
		f.Aim, f.Reached = g.text(g.aim), new(g.met(f.Value, g.aim))
	}
	f.Absolute = g.absolute
	return f
}

func (g goal) met(value, limit float64) bool {
	if g.atLeast {
		return value >= limit
	}
	return value <= limit
}

func (g goal) text(limit float64) string {
	sign := "<="
	if g.atLeast {
		sign = ">="
	}
	return fmt.Sprintf("%s %s%s", sign, number3(limit), g.unit)
}

// number3 writes a number without an exponent.
func number3(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// The goals, one for each line of docs/benchmarks.md that has one.
var (
	goalBurst      = goal{must: 0.8, aim: 0.95, atLeast: true}
	goalForwarded  = goal{must: 190_000, aim: 400_000, atLeast: true, absolute: true, unit: "/s"}
	goalFirst      = goal{must: 50, aim: 10, absolute: true, unit: " ms"}
	goalBurstLate  = goal{must: 1.3, aim: 1.1}
	goalProducer   = goal{must: 1.0 / 3}
	goalSteadyP50  = goal{must: 10, aim: 3, absolute: true, unit: " ms"}
	goalSteadyP99  = goal{must: 50, aim: 20, absolute: true, unit: " ms"}
	goalFastP99    = goal{must: 250, aim: 50, absolute: true, unit: " ms"}
	goalScattered  = goal{must: 1000, aim: 100, absolute: true, unit: " ms"}
	goalFarRecord  = goal{must: 16, aim: 8, unit: " B"}
	goalOverBudget = goal{must: 1}
	goalRestart    = goal{must: 1.3, aim: 1.05}
	goalIdleCPU    = goal{must: 2, aim: 0.5, unit: " %"}
	goalTLS        = goal{must: 0.7, atLeast: true}
)

// unbound says why absolute figures do not bind; empty: they do.
func (m *machine) unbound() string {
	switch {
	case m.CopyRate == 0 || !m.Probed:
		return unboundOnly
	case m.CopyRate < leastCopy:
		return fmt.Sprintf("the plain copy does %.0f/s, not %d", m.CopyRate, leastCopy)
	case m.IdleP99 >= mostIdle:
		return fmt.Sprintf("the idle probe has a p99 of %d ms, not under %d", m.IdleP99, mostIdle)
	}
	return ""
}

// bind decides which missed musts count. What is lost, early or twice always does.
func (r *report) bind() {
	r.Unbound = r.Machine.unbound()
	for i := range r.Figures {
		f := &r.Figures[i]
		switch {
		case f.Held == nil || *f.Held || f.Always:
		case r.Quick:
			f.Unbound = "the run was a quick one"
		case f.Absolute:
			f.Unbound = r.Unbound
		}
	}
}
