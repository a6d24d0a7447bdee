package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

// figure is one line of the report.
type figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"`
	Text  string  `json:"text"` // the value as people read it
	Must  string  `json:"must,omitempty"`
	Held  *bool   `json:"held,omitempty"` // absent without a must
	Aim   string  `json:"aim,omitempty"`
	// Reached is absent without an aim.
	Reached *bool `json:"reached,omitempty"`
	// Absolute figures bind only where the machine is fast and quiet enough; those that
	// always bind are promises.
	Absolute bool   `json:"absolute,omitempty"`
	Always   bool   `json:"always,omitempty"`
	Unbound  string `json:"unbound,omitempty"` // why a missed must does not count
	Note     string `json:"note"`              // what it is
	// Runs are the values that it was made of; Beside what they were compared with.
	Runs   []float64 `json:"runs,omitempty"`
	Beside []float64 `json:"beside,omitempty"`
}

func (f *figure) verdict() string {
	switch {
	case f.Held == nil:
		return ""
	case !*f.Held && f.Unbound != "":
		return "missed, does not bind"
	case !*f.Held:
		return "MISSED"
	case f.Reached != nil && *f.Reached:
		return "held, aim reached"
	}
	return "held"
}

// machine is where it was measured.
type machine struct {
	Date   string `json:"date"`
	Commit string `json:"commit"`
	Cores  int    `json:"cores"`
	CPU    string `json:"cpu"`
	Memory string `json:"memory"`
	Load   string `json:"load"` // average over the minute before the run
	Go     string `json:"go"`
	Kafka  string `json:"kafka"`
	// What it does without a scheduler, in the same run.
	CopyRate float64 `json:"copy_per_second"` // 0: not measured
	Probed   bool    `json:"probed"`
	IdleP50  int64   `json:"idle_p50_ms"`
	IdleP99  int64   `json:"idle_p99_ms"`
}

// report is all that was measured.
type report struct {
	Machine machine  `json:"machine"`
	Command string   `json:"command"`
	Records int      `json:"records"`
	Quick   bool     `json:"quick"`
	Unbound string   `json:"unbound,omitempty"` // why absolute figures do not bind
	Figures []figure `json:"figures"`
}

func (r *report) add(f figure) { r.Figures = append(r.Figures, f) }

// judge adds a figure with a goal.
func (r *report) judge(g goal, f figure) { r.add(g.judged(f)) }

// exactly adds a count that must be zero.
func (r *report) exactly(name string, n int64, note string) {
	r.add(figure{Name: name, Value: float64(n), Text: fmt.Sprint(n), Must: "0", Held: new(n == 0), Always: true, Note: note})
}

// missed says whether a must was missed that binds.
func (r *report) missed() bool {
	for i := range r.Figures {
		if f := &r.Figures[i]; f.Held != nil && !*f.Held && f.Unbound == "" {
			return true
		}
	}
	return false
}

// title says what was measured on.
func (r *report) title() string {
	return fmt.Sprintf("%d records, Kafka %s, %d cores (%s), %s, load before %s, %s, commit %s",
		r.Records, r.Machine.Kafka, r.Machine.Cores, r.Machine.CPU, r.Machine.Memory, r.Machine.Load, r.Machine.Go, r.Machine.Commit)
}

// ordered are the figures as they are printed: those with a must first, then promises
// that are kept by not happening, then what else was measured.
func (r *report) ordered() (all []*figure) {
	for _, of := range []func(*figure) bool{
		func(f *figure) bool { return f.Held != nil && !f.Always },
		func(f *figure) bool { return f.Always },
		func(f *figure) bool { return f.Held == nil },
	} {
		for i := range r.Figures {
			if of(&r.Figures[i]) {
				all = append(all, &r.Figures[i])
			}
		}
	}
	return all
}

// table is the report for a terminal.
func (r *report) table(w io.Writer) error {
	fmt.Fprintf(w, "\n%s\n\n", r.title())
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "figure\tvalue\tmust\taim\t")
	for _, f := range r.ordered() {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", f.Name, f.Text, f.Must, f.Aim, f.verdict())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", r.binding())
	return err
}

// binding says which figures bind.
func (r *report) binding() string {
	m := r.Machine
	beside := fmt.Sprintf("A plain copy does %.0f/s, the idle probe p50 %d, p99 %d ms.", m.CopyRate, m.IdleP50, m.IdleP99)
	switch {
	case r.Quick:
		return beside + " The run was a quick one: only what is lost, early or twice binds."
	case r.Unbound != "":
		return beside + " Absolute figures do not bind, since " + r.Unbound + "; the ratios do."
	}
	return beside + " All figures bind."
}

func (r *report) json(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// single lists the runs behind a figure.
func (f *figure) single() string {
	if len(f.Runs) < 2 {
		return ""
	}
	s := " Runs: " + numbers(f.Runs)
	if len(f.Beside) > 0 {
		s += "; beside them: " + numbers(f.Beside)
	}
	return s + "."
}

func numbers(values []float64) string {
	var texts []string
	for _, v := range values {
		if v >= 100 {
			texts = append(texts, fmt.Sprintf("%.0f", v))
		} else {
			texts = append(texts, fmt.Sprintf("%.2f", v))
		}
	}
	return strings.Join(texts, ", ")
}

// describeMachine finds out what it can; what it cannot is "unknown".
func describeMachine(ctx context.Context) machine {
	m := machine{
		Date: time.Now().UTC().Format(time.DateTime) + " UTC", Commit: commit(ctx), Cores: runtime.NumCPU(),
		CPU: "unknown CPU", Memory: "unknown memory", Load: "unknown", Go: runtime.Version(),
	}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		if bytes, err := sizeField(string(text), "MemTotal:"); err == nil {
			m.Memory = fmt.Sprintf("%.0f GiB", float64(bytes)/(1<<30))
		}
	}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.CPU = cpuModel(string(text))
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load, _, _ = strings.Cut(string(text), " ")
	}
	return m
}

// commit is what is measured, and whether it was changed. Documents do not count: the
// report is one.
func commit(ctx context.Context) string {
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, "git", args...).Output()
		return strings.TrimSpace(string(out)), err
	}
	head, err := git("rev-parse", "--short=12", "HEAD")
	if err != nil {
		return "unknown"
	}
	if changed, err := git("status", "--porcelain", "--", ":/", ":!/docs"); err != nil || changed != "" {
		head += "-dirty"
	}
	return head
}

func cpuModel(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		if name, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(model)
		}
	}
	return "unknown CPU"
}
