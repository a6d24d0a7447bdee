package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"delay-scheduler/internal/testkafka"
)

// options are one run's.
type options struct {
	brokers               []string
	bin                   string
	records, far, large   int
	runs                  int
	rate, fastRate        int
	length, lead          time.Duration
	leastDelay, mostDelay time.Duration
	span, farLead         time.Duration
	probe, settle, idle   time.Duration
	only                  []string
	write                 string
	profile               string
	jsonOut, quick        bool
	args                  []string // as given, for the report
}

// cheap is how often a measurement is made that takes a minute or so.
func (o *options) cheap() int {
	switch {
	case o.runs > 0:
		return o.runs
	case o.quick:
		return 1
	}
	return 3
}

// long is how often one is made that takes longer.
func (o *options) long() int { return max(o.runs, 1) }

// partial says that the report has not all that docs/benchmarks.md is to have.
func (o *options) partial() bool { return o.quick || len(o.only) > 0 }

func parse(args []string, stderr io.Writer) (options, error) {
	o := options{args: args}
	var brokers, only string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&brokers, "brokers", os.Getenv(testkafka.EnvBrokers), "bootstrap brokers, comma separated; none: an Apache Kafka is started for the run")
	f.StringVar(&o.bin, "bin", "", "scheduler binary; none: it is built")
	f.IntVar(&o.records, "n", 1_000_000, "records of burst, producer, memory and restart")
	f.IntVar(&o.far, "far", 10_000_000, "records of scattered")
	f.IntVar(&o.large, "large", 5_000_000, "records of budget")
	f.IntVar(&o.runs, "runs", 0, "how often each measurement is made; 0: three times, the long ones once")
	f.IntVar(&o.rate, "rate", 10_000, "records a second of steady")
	f.IntVar(&o.fastRate, "fast-rate", 50_000, "records a second of fast")
	f.DurationVar(&o.length, "for", time.Minute, "how long steady and fast send")
	f.DurationVar(&o.leastDelay, "least-delay", time.Second, "the least of their random delays")
	f.DurationVar(&o.mostDelay, "most-delay", time.Minute, "the most of their random delays")
	f.DurationVar(&o.lead, "lead", 0, "how long before its instant a burst begins to be written; 0: by -n")
	f.DurationVar(&o.span, "scattered-span", aimSpan, "over how long the records of scattered fall due; the must is for 1500s, the aim for 500s")
	f.DurationVar(&o.farLead, "scattered-lead", 0, "how long before the first of them is due they begin to be written; 0: by -far")
	f.StringVar(&only, "only", "", "comma separated: "+strings.Join(measurementNames(), ", ")+"; none: all")
	f.BoolVar(&o.quick, "quick", false, "small numbers, to see that it works: nothing but early, lost and twice binds")
	f.StringVar(&o.write, "write", "", "file that gets the report (docs/benchmarks.md), unless the run is a quick or a partial one")
	f.StringVar(&o.profile, "profile", "", "directory that gets CPU and heap profiles of the scheduler")
	f.BoolVar(&o.jsonOut, "json", false, "print the report as JSON instead of a table")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.brokers, o.only = list(brokers), list(only)
	given := map[string]bool{}
	f.Visit(func(f *flag.Flag) { given[f.Name] = true })
	o.fill(given)
	return o, o.validate(f.Args())
}

// fill sets what a quick run has instead of the defaults, and what follows from others.
func (o *options) fill(given map[string]bool) {
	// How long the idle probe lasts, a process is left alone before its memory is read so
	// that what is measured is the state and not the reading, and its idling is watched.
	o.probe, o.settle, o.idle = 10*time.Second, 10*time.Second, 30*time.Second
	if o.quick {
		o.probe, o.settle, o.idle = 2*time.Second, time.Second, 2*time.Second
		for name, small := range map[string]func(){
			"n":              func() { o.records = 20_000 },
			"far":            func() { o.far = 50_000 },
			"large":          func() { o.large = 10_000 },
			"rate":           func() { o.rate = 1000 },
			"fast-rate":      func() { o.fastRate = 5000 },
			"for":            func() { o.length = 3 * time.Second },
			"most-delay":     func() { o.mostDelay = 3 * time.Second },
			"scattered-span": func() { o.span = 10 * time.Second },
		} {
			if !given[name] {
				small()
			}
		}
	}
	if o.lead == 0 {
		// A busy machine writes and reads some 40,000 a second.
		o.lead = 10*time.Second + time.Duration(o.records)*time.Second/40_000
	}
	if o.farLead == 0 {
		// Written, read, read again after a kill, and once more plainly beside it.
		o.farLead = 30*time.Second + 2*o.settle + o.idle + time.Duration(o.far)*time.Second/40_000
	}
}

// list splits what commas separate.
func list(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}

func (o *options) validate(rest []string) error {
	var errs []error
	if len(rest) > 0 {
		errs = append(errs, fmt.Errorf("%q is no flag", rest[0]))
	}
	for _, name := range o.only {
		if !slices.Contains(measurementNames(), name) {
			errs = append(errs, fmt.Errorf("-only: there is no measurement %q, only %s", name, strings.Join(measurementNames(), ", ")))
		}
	}
	if min(o.records, o.rate, o.fastRate, o.large) < 1 || o.length < time.Second {
		errs = append(errs, errors.New("-n, -large, -rate and -fast-rate have to be at least 1, -for at least 1s"))
	}
	if o.far < 10 || o.span < time.Second {
		errs = append(errs, errors.New("-far has to be at least 10, -scattered-span at least 1s"))
	}
	if o.runs < 0 {
		errs = append(errs, fmt.Errorf("-runs is %d, must not be negative", o.runs))
	}
	if o.leastDelay < 0 || o.mostDelay < o.leastDelay {
		errs = append(errs, fmt.Errorf("-least-delay is %v and -most-delay %v: the first must not be above the second", o.leastDelay, o.mostDelay))
	}
	return errors.Join(errs...)
}
