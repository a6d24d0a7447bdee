package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"delay-scheduler/delay"
	"delay-scheduler/measure"
)

const (
	// mostValue is a little below what brokers take of one record by default.
	mostValue = 1_000_000
	// mostTopics and mostPartitions bound what a slip of a finger makes a cluster do.
	mostTopics     = 100
	mostRate       = 1e7
	mostRecords    = 1_000_000_000
	mostPartitions = 1000
)

// problems are what is wrong with the flags, each for itself.
func (f *benchFlags) problems() (all []error) {
	wrong := func(is bool, format string, args ...any) {
		if is {
			all = append(all, fmt.Errorf(format, args...))
		}
	}
	wrong(!(f.rate >= 0 && f.rate <= mostRate), "--rate is %v, must be 0 to %.0f records a second", f.rate, mostRate)
	wrong(f.count < 0 || f.count > mostRecords, "--count is %d, must be 0 to %d", f.count, mostRecords)
	wrong(f.duration < 0, "--duration is %v, must not be negative", f.duration)
	wrong(f.rate == 0 && f.count == 0 && f.duration == 0, "--rate 0 is as fast as it goes: say how many with --count, or how long with --duration")
	wrong(f.value < measure.LeastValue || f.value > mostValue, "--value-size is %d, must be %d to %d", f.value, measure.LeastValue, mostValue)
	wrong(f.partitions < 1 || f.partitions > mostPartitions, "--partitions is %d, must be 1 to %d", f.partitions, mostPartitions)
	wrong(f.targets < 1 || f.targets > mostTopics, "--targets is %d, must be 1 to %d", f.targets, mostTopics)
	wrong(f.replication != -1 && (f.replication < 1 || f.replication > math.MaxInt16), "--replication is %d, must be at least 1, or -1 for the cluster's default", f.replication)
	name := measure.NewTopics(f.prefix, "-delay", 1, time.Now()).Targets[0]
	wrong(f.prefix == "" || !delay.ValidTopic(name), "--prefix is %q, and %q is no legal topic name", f.prefix, name)
	wrong(f.appear <= 0, "--appear is %v, must be above 0", f.appear)
	wrong(f.patience <= 0, "--patience is %v, must be above 0", f.patience)
	wrong(f.self && len(f.metrics) > 0, "--metrics is of a scheduler that runs elsewhere, --self runs one here: choose one")
	return append(all, f.chartProblem())
}

// chartProblem is what would be a pity to find out after the run.
func (f *benchFlags) chartProblem() error {
	if f.chart == "" {
		return nil
	}
	dir := filepath.Dir(f.chart)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("--chart is %q, and %s is no directory", f.chart, dir)
	}
	return nil
}

// mistakenFlags shows all that is wrong with flags, one a line.
type mistakenFlags struct{ err error }

func (m mistakenFlags) Error() string {
	lines := mistakes{err: m.err}.lines()
	if len(lines) == 1 {
		return lines[0]
	}
	return fmt.Sprintf("%d mistakes in the flags:\n  %s", len(lines), strings.Join(lines, "\n  "))
}

var errDelays = errors.New("must be 30s, fixed:30s, uniform:1s..1m, exponential:10s, bimodal:1s,1m,0.9 or instant:30s")

// parseDelays reads what --delay says.
func parseDelays(s string) (measure.Delays, error) {
	kind, rest, named := strings.Cut(s, ":")
	if !named {
		kind, rest = "fixed", s
	}
	bad := func() (measure.Delays, error) { return nil, fmt.Errorf("is %q, %w", s, errDelays) }
	switch kind {
	case "fixed", "exponential", "instant":
		d, err := benchDelay(rest)
		switch {
		case err != nil || kind == "exponential" && d == 0:
			return bad()
		case kind == "fixed":
			return measure.Fixed(d), nil
		case kind == "exponential":
			return measure.Exponential(d), nil
		}
		return measure.Instant(d), nil
	case "uniform":
		low, high, _ := strings.Cut(rest, "..")
		least, err1 := benchDelay(low)
		most, err2 := benchDelay(high)
		if err1 != nil || err2 != nil || least > most {
			return bad()
		}
		return measure.Uniform{Least: least, Most: most}, nil
	case "bimodal":
		return parseBimodal(rest, bad)
	}
	return bad()
}

func parseBimodal(s string, bad func() (measure.Delays, error)) (measure.Delays, error) {
	parts := strings.Split(s, ",")
	d := measure.Bimodal{Share: 0.5}
	if len(parts) < 2 || len(parts) > 3 {
		return bad()
	}
	var err1, err2, err3 error
	d.Near, err1 = benchDelay(parts[0])
	d.Far, err2 = benchDelay(parts[1])
	if len(parts) == 3 {
		d.Share, err3 = strconv.ParseFloat(parts[2], 64)
	}
	if errors.Join(err1, err2, err3) != nil || !(d.Share >= 0 && d.Share <= 1) {
		return bad()
	}
	return d, nil
}

// mostDelay bounds a measurement: nobody watches a bar for longer.
const mostDelay = 24 * time.Hour

func benchDelay(s string) (time.Duration, error) {
	ms, err := parseDelay(strings.TrimSpace(s))
	if err == nil && ms > mostDelay.Milliseconds() {
		err = fmt.Errorf("is %q, must be at most %v", s, mostDelay)
	}
	return time.Duration(ms) * time.Millisecond, err
}
