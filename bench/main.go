// Command bench measures what the scheduler costs, as ratios to what the same machine
// and broker do without it in the same run: a burst and a restart against a plain copy
// and a plain re-read of the same log, lateness beside that of a bare timer, resident
// memory beside the bytes of the records.
//
// It runs the product as a process, knows it by its configuration, its status page and
// the message protocol, and judges by the brokers' append times, so the brokers' clock
// has to be this machine's. It is a report, not a test: what it finds depends on what
// else the machine does.
//
// Concurrency: measurements run one after the other; goroutines live within one of them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// measurements are all there are, in the order in which they are made.
var measurements = []struct {
	name string
	run  func(*bench, context.Context) error
}{
	{"burst", (*bench).burst},
	{"producer", (*bench).producers},
	{"steady", (*bench).steady},
	{"fast", (*bench).fast},
	{"memory", (*bench).memory},
	{"restart", (*bench).restart},
	{"budget", (*bench).overBudget},
	{"tls", (*bench).encrypted},
	{"scattered", (*bench).scattered},
}

func measurementNames() []string {
	var names []string
	for _, m := range measurements {
		names = append(names, m.name)
	}
	return names
}

// Exit codes.
const (
	exitMissed = 1 // a must was missed that binds
	exitFailed = 2 // something could not be measured
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return exitFailed
	}
	r, err := all(ctx, o, stderr)
	if r != nil && len(r.Figures) > 0 {
		err = errors.Join(err, output(r, o, stdout, err == nil))
	}
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "bench:", err)
		return exitFailed
	case r.missed():
		return exitMissed
	}
	return 0
}

// output prints the report, and writes it when all was measured.
func output(r *report, o options, stdout io.Writer, whole bool) error {
	printed := r.table
	if o.jsonOut {
		printed = r.json
	}
	if err := printed(stdout); err != nil || o.write == "" || !whole || o.partial() {
		return err
	}
	if err := os.WriteFile(o.write, []byte(r.markdown()), 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// bench is what all measurements need.
type bench struct {
	o       options
	cluster *cluster
	dir     string // of configuration files and logs
	report  *report
	stderr  io.Writer
}

// say reports progress.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.stderr, "%s "+format+"\n", append([]any{time.Now().Format("15:04:05")}, args...)...)
}

// all sets everything up, makes the measurements and clears away. The report has
// what could be measured, also when there is an error.
func all(ctx context.Context, o options, stderr io.Writer) (r *report, err error) {
	b := &bench{o: o, stderr: stderr}
	// The load average is to show what else went on, so it is read before our own work.
	machine := describeMachine(ctx)
	if b.dir, err = os.MkdirTemp("", "bench-"); err != nil {
		return nil, fmt.Errorf("make a directory for the run: %w", err)
	}
	defer func() { err = errors.Join(err, b.clear(err != nil && ctx.Err() == nil)) }()
	if o.bin == "" {
		b.o.bin = b.built()
		if err := build(ctx, b.o.bin); err != nil {
			return nil, err
		}
	}
	if b.cluster, err = openCluster(o.brokers); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.cluster.close()) }()
	machine.Kafka = b.cluster.version
	b.say("Kafka %s on %s", b.cluster.version, strings.Join(b.cluster.brokers, ","))
	b.report = &report{Machine: machine, Command: strings.Join(append([]string{"go run ./bench"}, o.args...), " "), Records: o.records, Quick: o.quick}
	if err := b.warmUp(ctx); err != nil {
		return nil, err
	}
	if err := b.probeIdle(ctx); err != nil {
		return nil, err
	}
	var errs []error
	for _, m := range measurements {
		if ctx.Err() != nil || (len(o.only) > 0 && !slices.Contains(o.only, m.name)) {
			continue
		}
		if err := m.run(b, ctx); err != nil {
			err = fmt.Errorf("%s: %w", m.name, err)
			b.say("%v", err)
			errs = append(errs, err)
		}
	}
	b.report.bind()
	return b.report, errors.Join(append(errs, context.Cause(ctx))...)
}

// built is where the product goes that is built for this run.
func (b *bench) built() string { return filepath.Join(b.dir, "scheduler") }

// clear removes the run's files. The scheduler's logs are kept if there are any and
// they are wanted.
func (b *bench) clear(wanted bool) error {
	logs, err := filepath.Glob(filepath.Join(b.dir, "*.log"))
	if err != nil || !wanted || len(logs) == 0 {
		return errors.Join(err, os.RemoveAll(b.dir))
	}
	b.say("the scheduler's logs are in %s", b.dir)
	if err := os.Remove(b.built()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the scheduler that was built: %w", err)
	}
	return nil
}

// pause waits, and gives the reason when ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
