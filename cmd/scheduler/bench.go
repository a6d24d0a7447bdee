package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"delay-scheduler/app"
	"delay-scheduler/config"
	"delay-scheduler/measure"
)

// benchFlags describe a measurement.
type benchFlags struct {
	settings                *settings
	rate                    float64
	count, value, targets   int
	duration                time.Duration
	delay, prefix           string
	partitions, replication int
	self, noCopy, yes       bool
	metrics                 []string
	appear, patience        time.Duration
	chart, output           string
}

func newBench() *cobra.Command {
	var f benchFlags
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measures a scheduler on your own cluster: throughput, lateness, early, lost, twice",
		Long: `Measures the scheduler that runs on your cluster, as its users see it: records are written to a new
source topic, and how late they are is judged by the append time of the new topics that they come out
in, which the brokers stamp. Beside it the same records are copied plainly, by the same producer and
without a delay: what the cluster and this machine can do at best.

The scheduler has to be running, and its configuration (-c) has to read PREFIX-...-delay and to allow
PREFIX-...-target-1 as a target; it finds the new topic within kafka.metadata_refresh. Where none runs,
or a busy one must not be disturbed, --self runs one in this process, which reads nothing but the
source of the run, in a group of its own.

Which topics are made is shown and asked first (--yes does not ask). They are removed at the end, also
after Ctrl-C or a failure; a second Ctrl-C skips that.

Delays (--delay):
  30s, or fixed:30s       the same for every record
  uniform:1s..1m          any between the two
  exponential:10s         many short ones and few long ones; the mean, and ten times that at most
  bimodal:1s,1m,0.9       one of the two; nine of ten records have the first
  instant:30s             all records due at one moment, that long after the start: a burst

The exit code is 0 if nothing was early, lost, twice or refused.`,
		Example: `  scheduler bench -c scheduler.yaml
  scheduler bench -c scheduler.yaml --rate 5000 --duration 2m --delay uniform:1s..1m --chart late.svg
  scheduler bench --brokers kafka-1:9092 --self --rate 0 --count 1000000 --delay instant:30s --partitions 12 --yes
  scheduler bench -c scheduler.yaml --prefix orders-bench --metrics http://10.0.0.7:8080 --metrics http://10.0.0.8:8080 -o json --yes`,
		Args: usageArgs(cobra.NoArgs),
	}
	f.settings = clusterFlags(c)
	f.add(c)
	c.RunE = func(c *cobra.Command, _ []string) error { return f.run(c) }
	return c
}

func (f *benchFlags) add(c *cobra.Command) {
	fs := c.Flags()
	fs.Float64Var(&f.rate, "rate", 1000, "records a second; 0 is as fast as they are taken")
	fs.IntVar(&f.count, "count", 0, "how many records to write (default: what --rate gives in --duration)")
	fs.DurationVar(&f.duration, "duration", 0, "how long to write (default: 30s, unless there is a --count)")
	fs.StringVar(&f.delay, "delay", "uniform:1s..10s", "how far ahead records are due; see above")
	fs.IntVar(&f.value, "value-size", 200, fmt.Sprintf("bytes of each value, %d or more", measure.LeastValue))
	fs.IntVar(&f.partitions, "partitions", 4, "partitions of each topic that is made")
	fs.IntVar(&f.replication, "replication", -1, "replicas of each topic that is made; -1 is the cluster's default")
	fs.IntVar(&f.targets, "targets", 1, "among how many target topics the records are divided")
	fs.StringVar(&f.prefix, "prefix", "bench", "how the names of the topics begin")
	fs.BoolVar(&f.self, "self", false, "run a scheduler in this process instead of measuring one that runs")
	fs.StringArrayVar(&f.metrics, "metrics", nil, "where a running scheduler serves HTTP, to ask for its memory; may be repeated (default: http.listen of the configuration)")
	fs.DurationVar(&f.appear, "appear", 2*time.Minute, "how long the scheduler may take to find the new topic")
	fs.DurationVar(&f.patience, "patience", 30*time.Second, "how long after the last one was due, or came, a record counts as lost")
	fs.BoolVar(&f.noCopy, "no-copy", false, "leave out the plain copy")
	fs.StringVar(&f.chart, "chart", "", "file that gets a chart of lateness over time (SVG)")
	fs.BoolVar(&f.yes, "yes", false, "do not ask")
	outputFlag(c, &f.output)
}

// options are what the flags ask for; the error has everything that is wrong with them.
func (f *benchFlags) options(now time.Time) (app.MeasureOptions, error) {
	o := app.MeasureOptions{Self: f.self, Version: versionString(), Metrics: f.metrics}
	delays, err := parseDelays(f.delay)
	if err := errors.Join(append(f.problems(), prefixed("--delay ", err))...); err != nil {
		return o, err
	}
	o.Options = measure.Options{
		Topics:     f.topics(now),
		Partitions: int32(f.partitions), Replication: int16(f.replication),
		Count: f.count, Duration: f.duration, Rate: f.rate, Delays: delays, ValueBytes: f.value,
		Appear: f.appear, Patience: f.patience,
	}
	if o.Count == 0 && o.Duration == 0 {
		o.Duration = 30 * time.Second
	}
	return o, nil
}

// topics are those of a run. With --self the source has a name that no pattern of another
// scheduler is meant for: two would forward every record twice.
func (f *benchFlags) topics(now time.Time) measure.Topics {
	suffix := "-delay"
	if f.self {
		suffix = "-source"
	}
	t := measure.NewTopics(f.prefix, suffix, f.targets, now)
	if f.noCopy {
		t.Copy = ""
	}
	return t
}

func prefixed(prefix string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s%w", prefix, err)
}

func (f *benchFlags) run(c *cobra.Command) error {
	o, err := f.options(time.Now())
	if err != nil {
		return usageError{mistakenFlags{err}}
	}
	loaded, err := f.settings.load()
	if err != nil {
		return err
	}
	if !f.self {
		if err := app.CheckMeasure(loaded, o.Topics, o.Delays); err != nil {
			return benchMisfit(err)
		}
	}
	view := c.OutOrStdout()
	if f.output == "json" {
		view = c.ErrOrStderr() // standard output is for the result alone
	}
	if err := f.agree(c.InOrStdin(), view, o.Options); err != nil {
		return err
	}
	ctx, hurry, release := signals(c.Context())
	defer release()
	result, err := f.measured(ctx, hurry, c.ErrOrStderr(), loaded, o)
	if err != nil {
		return benchFailure(ctx, err, f.appear)
	}
	if err := f.printed(c.OutOrStdout(), result); err != nil {
		return err
	}
	if len(result.Broken()) > 0 {
		return silentError{exitFailure}
	}
	return nil
}

func (f *benchFlags) measured(ctx, hurry context.Context, stderr io.Writer, loaded *config.Config, o app.MeasureOptions) (measure.Result, error) {
	log := zap.NewNop()
	if f.self {
		quiet := *loaded
		quiet.Log = config.Log{Level: "warn", Format: "console"}
		var err error
		if log, err = newLogger(&quiet, stderr); err != nil {
			return measure.Result{}, err
		}
	}
	bar := newBenchBar(stderr)
	o.Progress = bar.show
	result, err := app.Measure(ctx, hurry, loaded, o, log)
	bar.clear()
	return result, err
}

// agree says what will be made, and asks.
func (f *benchFlags) agree(in io.Reader, view io.Writer, o measure.Options) error {
	if err := printBenchPlan(view, o); err != nil {
		return err
	}
	if f.yes {
		return nil
	}
	agreed, err := ask(in, view, fmt.Sprintf("Create these %d topics, measure, and remove them again?", len(o.Topics.All())))
	if err != nil {
		return err
	}
	if !agreed {
		fmt.Fprintln(view, "nothing was done")
		return silentError{exitFailure}
	}
	return nil
}

// printed shows the result, and draws the chart if there is to be one.
func (f *benchFlags) printed(w io.Writer, r measure.Result) error {
	if f.chart != "" {
		title := fmt.Sprintf("Lateness by second: %d records, %s, %s", r.Records, r.Delays, rateText(r.Rate))
		if err := os.WriteFile(f.chart, []byte(measure.Chart(title, r.Seconds)), 0o644); err != nil {
			return fmt.Errorf("--chart: %w", err)
		}
	}
	if f.output == "json" {
		return printJSON(w, r)
	}
	return printBench(w, r)
}

// benchMisfit is what to do about a configuration that does not fit.
func benchMisfit(err error) error {
	if errors.Is(err, app.ErrMeasure) {
		return usageError{fmt.Errorf("%w: choose --prefix so that the sources and targets of the configuration cover it, give the scheduler's own configuration with -c, or use --self", err)}
	}
	return err
}

// benchFailure is how a run ended that came to no result.
func benchFailure(ctx context.Context, err error, appear time.Duration) error {
	switch {
	case errors.Is(err, measure.ErrNobody):
		return fmt.Errorf(`%w: is one running that reads it ("scheduler health"), and is kafka.metadata_refresh below --appear %v? --self runs one here`, err, appear)
	case errors.Is(err, app.ErrAddress):
		return usageError{fmt.Errorf("--metrics: %w", err)}
	case ctx.Err() != nil && errors.Is(err, measure.ErrLeft):
		return fmt.Errorf("interrupted: %w", err)
	case ctx.Err() != nil:
		return errors.New("interrupted; the topics are removed")
	}
	return err
}
