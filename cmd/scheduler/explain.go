package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"delay-scheduler/app"
	"delay-scheduler/delay"
)

// explainTimeout is how long a record may take to be read.
const explainTimeout = 15 * time.Second

// explainFlags describe a record that is not written.
type explainFlags struct {
	topic, timestamp, output string
	appendTime               bool
	headers                  headerFlags
}

func newExplain() *cobra.Command {
	var f explainFlags
	c := &cobra.Command{
		Use:   "explain [TOPIC/PARTITION/OFFSET | TOPIC PARTITION OFFSET]",
		Short: "Says when and where a record goes, or why it is refused",
		Long: `Says what the scheduler makes of a record: its base time, when it is due, its target and its
dead-letter topic, or why it is refused. The record is read from Kafka, or described by flags,
and judged by the configuration (-c, else the environment and the defaults) as the service
judges it. The exit code is 1 if the record is refused or its topic is no source.`,
		Example: `  scheduler explain orders-delay/0/42
  scheduler explain -c scheduler.yaml --brokers kafka-1:9092 orders-delay 0 42
  scheduler explain --topic orders-delay --header target-topic=orders --header delay-ms=30000
  scheduler explain --topic orders-retry --header retry-count=3 --timestamp 2026-01-02T15:04:05Z -o json`,
		Args: usageArgs(cobra.MaximumNArgs(3)),
	}
	s := clusterFlags(c)
	c.Flags().StringVar(&f.topic, "topic", "", "topic of a record that is described by flags")
	c.Flags().StringVar(&f.timestamp, "timestamp", "", "its timestamp, RFC 3339 or epoch ms (default: now)")
	c.Flags().BoolVar(&f.appendTime, "append-time", false, "its topic is one with LogAppendTime")
	f.headers.add(c)
	outputFlag(c, &f.output)
	c.RunE = func(c *cobra.Command, args []string) error {
		loaded, err := s.load()
		if err != nil {
			return err
		}
		var rec *delay.Record
		if len(args) > 0 {
			rec, err = f.read(c, args, func(ctx context.Context, place string) (*delay.Record, error) {
				return app.ReadRecord(ctx, loaded, place)
			})
		} else {
			rec, err = f.describe(time.Now())
		}
		if err != nil {
			return err
		}
		e, err := app.Explain(loaded, rec)
		if err != nil {
			return err
		}
		if err := printExplanation(c.OutOrStdout(), e, f.output, time.Now()); err != nil {
			return err
		}
		if e.Refused != nil {
			return silentError{exitFailure}
		}
		return nil
	}
	return c
}

// read gets the record that the arguments name.
func (f *explainFlags) read(c *cobra.Command, args []string, get func(context.Context, string) (*delay.Record, error)) (*delay.Record, error) {
	for _, name := range []string{"topic", "timestamp", "append-time", "header", "header-binary"} {
		if c.Flags().Changed(name) {
			return nil, usageError{fmt.Errorf("--%s describes a record and %s names one: give one of the two", name, strings.Join(args, " "))}
		}
	}
	ctx, _, release := signals(c.Context())
	defer release()
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	rec, err := get(ctx, strings.Join(args, "/"))
	if errors.Is(err, app.ErrPlace) {
		return nil, usageError{err}
	}
	return rec, err
}

// describe makes the record that the flags describe.
func (f *explainFlags) describe(now time.Time) (*delay.Record, error) {
	if f.topic == "" {
		return nil, usageError{errors.New("name a record, as in explain orders-delay/0/42, or describe one with --topic and --header")}
	}
	headers, err := f.headers.parse()
	if err != nil {
		return nil, usageError{err}
	}
	at := now
	if f.timestamp != "" {
		if at, err = parseTime(f.timestamp, now); err != nil {
			return nil, usageError{fmt.Errorf("--timestamp %w", err)}
		}
	}
	return &delay.Record{Topic: f.topic, Partition: 0, Offset: -1, Timestamp: at.UnixMilli(), AppendTime: f.appendTime, Headers: headers}, nil
}

func printExplanation(w io.Writer, e app.Explanation, output string, now time.Time) error {
	if output == "json" {
		return printJSON(w, e)
	}
	var rows [][2]string
	row := func(name, value string) { rows = append(rows, [2]string{name, value}) }
	if e.Refused != nil {
		row("refused", e.Refused.Reason)
		row("because", e.Refused.Detail)
		row("goes to", e.DeadLetter+" at once")
	} else {
		row("due", fmt.Sprintf("%s, %s", stamp(*e.Due), relative(e.Due.Sub(now))))
		row("base", fmt.Sprintf("%s, %s", stamp(*e.Base), e.BaseFrom))
		row("target", e.Target)
		if e.Attempt > 0 {
			row("attempt", strconv.Itoa(int(e.Attempt)))
		}
		if e.Hops > 0 {
			row("hops", strconv.Itoa(int(e.Hops)))
		}
		row("dead letters", e.DeadLetter)
	}
	row("delay-id", e.DelayID)
	row("decided by", e.Source)
	for _, n := range e.Notes {
		row("note", n)
	}
	for _, r := range rows {
		if _, err := fmt.Fprintf(w, "%-13s %s\n", r[0], shown(r[1])); err != nil {
			return err
		}
	}
	return nil
}
