package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"delay-scheduler/app"
	"delay-scheduler/config"
	"delay-scheduler/delay"
	"delay-scheduler/kafka"
)

// sendFlags describe what is sent.
type sendFlags struct {
	topic, target, delay, at string
	key, file, output        string
	nullValue, wait          bool
	headers                  headerFlags
	count                    int
	rate                     float64
	timeout                  time.Duration
}

func newSend() *cobra.Command {
	var f sendFlags
	c := &cobra.Command{
		Use:   "send --topic TOPIC --target TOPIC (--delay 30s | --at TIME) [VALUE]",
		Short: "Writes a record that is due later, and can wait for it",
		Long: `Writes a record that asks for a delay: to a *-delay topic with the headers target-topic and
delay-ms (--delay) or deliver-at (--at). On a *-retry topic neither is needed: the source's
policy decides. The value is the argument, a file (--file), or standard input, byte for byte.

--wait reads the target, and the dead-letter topic, from their ends, and says when each record
came out and how late that was: by the target's append time if it is a LogAppendTime topic, and
else by this machine's clock when the record was read. Records are recognised by their delay-id;
nothing is added to them. The exit code is 1 if a record was not written, came out in the
dead-letter topic, or did not come out within --timeout after its due time.`,
		Example: `  scheduler send --topic orders-delay --target orders --delay 30s --key order-1 hello
  scheduler send --topic orders-delay --target orders --at 18:00:00 --file order.json
  scheduler send --topic orders-delay --target orders --delay 5s --count 1000 --rate 200 --wait hello
  scheduler send --topic orders-delay --target orders --header-binary delay-ms=00000000000007d0 --wait hello
  echo -n hello | scheduler send -c scheduler.yaml --topic orders-retry --header retry-count=2`,
		Args: usageArgs(cobra.MaximumNArgs(1)),
	}
	s := clusterFlags(c)
	f.add(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		loaded, err := s.load()
		if err != nil {
			return err
		}
		o, err := f.options(c, loaded, args, time.Now())
		if err != nil {
			return usageError{err}
		}
		return runSend(c, loaded, o, f.output)
	}
	return c
}

func (f *sendFlags) add(c *cobra.Command) {
	fs := c.Flags()
	fs.StringVar(&f.topic, "topic", "", "source topic to write to")
	fs.StringVar(&f.target, "target", "", "topic where the record goes when it is due (header target-topic)")
	fs.StringVar(&f.delay, "delay", "", "how long after now, such as 500ms, 30s, 1h, 90d (header delay-ms)")
	fs.StringVar(&f.at, "at", "", "when: RFC 3339, epoch ms, or a time of day, 15:04:05 (header deliver-at)")
	fs.StringVar(&f.key, "key", "", "key; without it the key is null")
	fs.BoolVar(&f.nullValue, "null-value", false, "the value is null (a tombstone)")
	f.headers.add(c)
	fs.IntVar(&f.count, "count", 1, "how many times to write it")
	fs.Float64Var(&f.rate, "rate", 0, "records a second; 0 is as fast as they are taken")
	fs.BoolVar(&f.wait, "wait", false, "wait until all have come out, and say how late")
	fs.DurationVar(&f.timeout, "timeout", 30*time.Second, "with --wait: how long after its due time a record is waited for")
	fs.StringVar(&f.file, "file", "", "file with the value")
	outputFlag(c, &f.output)
}

// options makes of the flags what is to be sent. Every error is one of usage.
func (f *sendFlags) options(c *cobra.Command, loaded *config.Config, args []string, now time.Time) (app.SendOptions, error) {
	o := app.SendOptions{Topic: f.topic, Count: f.count, Rate: f.rate, Wait: f.wait, Timeout: f.timeout}
	switch {
	case f.topic == "":
		return o, errors.New("--topic is missing: the source topic to write to, such as orders-delay")
	case !delay.ValidTopic(f.topic):
		return o, fmt.Errorf("--topic %q is no legal topic name", f.topic)
	case f.count < 1:
		return o, fmt.Errorf("--count is %d, must be at least 1", f.count)
	case f.rate < 0:
		return o, fmt.Errorf("--rate is %v, must not be negative", f.rate)
	case f.timeout < 0:
		return o, fmt.Errorf("--timeout is %v, must not be negative", f.timeout)
	}
	headers, err := f.allHeaders(now)
	if err != nil {
		return o, err
	}
	if err := f.complete(loaded, headers); err != nil {
		return o, err
	}
	o.Record.Headers = headers
	if c.Flags().Changed("key") {
		o.Record.Key = []byte(f.key)
	}
	o.Record.Value, err = f.value(c, args)
	return o, err
}

// allHeaders are those of the flags that stand for one, and those that are given.
func (f *sendFlags) allHeaders(now time.Time) ([]delay.Header, error) {
	var headers []delay.Header
	add := func(name, value string) {
		headers = append(headers, delay.Header{Key: []byte(name), Value: []byte(value)})
	}
	if f.target != "" {
		add(delay.HeaderTargetTopic, f.target)
	}
	switch {
	case f.delay != "" && f.at != "":
		return nil, errors.New("--delay and --at are both given: a record has one due time")
	case f.delay != "":
		ms, err := parseDelay(f.delay)
		if err != nil {
			return nil, fmt.Errorf("--delay %w", err)
		}
		add(delay.HeaderDelayMS, strconv.FormatInt(ms, 10))
	case f.at != "":
		at, err := parseTime(f.at, now)
		if err != nil {
			return nil, fmt.Errorf("--at %w", err)
		}
		add(delay.HeaderDeliverAt, strconv.FormatInt(at.UnixMilli(), 10))
	}
	given, err := f.headers.parse()
	return append(headers, given...), err
}

// complete sees that nothing is missing that only a mistake leaves out. What is there
// and wrong is let through: to see it refused may be the purpose.
func (f *sendFlags) complete(loaded *config.Config, headers []delay.Header) error {
	source, known := loaded.SourceFor(f.topic)
	retries := known && source.Retry != nil
	if !retries && !hasHeader(headers, delay.HeaderTargetTopic) {
		return errors.New("--target is missing: the topic where the record goes when it is due")
	}
	if retries || known && source.Delay > 0 {
		return nil
	}
	if !hasHeader(headers, delay.HeaderDelayMS, delay.HeaderDeliverAt, delay.HeaderNextRetryTime) {
		return errors.New("--delay or --at is missing: when the record is due")
	}
	return nil
}

// value is the argument, the file, or standard input.
func (f *sendFlags) value(c *cobra.Command, args []string) ([]byte, error) {
	given := len(args)
	for _, is := range []bool{f.nullValue, f.file != ""} {
		if is {
			given++
		}
	}
	switch {
	case given > 1:
		return nil, errors.New("the value is given more than once: an argument, --file and --null-value exclude each other")
	case f.nullValue:
		return nil, nil
	case len(args) == 1:
		return []byte(args[0]), nil
	case f.file != "":
		b, err := os.ReadFile(f.file)
		if err != nil {
			return nil, fmt.Errorf("--file: %w", err)
		}
		return nonNil(b), nil
	}
	if isTerminal(c.InOrStdin()) {
		fmt.Fprintln(c.ErrOrStderr(), "reading the value from standard input; Ctrl-D ends it")
	}
	b, err := io.ReadAll(c.InOrStdin())
	if err != nil {
		return nil, fmt.Errorf("read the value from standard input: %w", err)
	}
	return nonNil(b), nil
}

// nonNil keeps an empty value from becoming null.
func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func runSend(c *cobra.Command, loaded *config.Config, o app.SendOptions, output string) error {
	forewarn(c.ErrOrStderr(), loaded, o)
	p := newProgress(c.ErrOrStderr())
	o.Progress = func(at app.SendProgress) { showSend(p, at, o.Wait, time.Now()) }
	ctx, _, release := signals(c.Context())
	defer release()
	result, err := app.Send(ctx, loaded, o)
	p.clear()
	if errors.Is(err, kafka.ErrUnknownTopic) {
		return fmt.Errorf("%w: create it first, for instance\n  kafka-topics.sh --bootstrap-server %s --create --topic %s --partitions 4 --config message.timestamp.type=LogAppendTime",
			err, loaded.Kafka.Brokers[0], o.Topic)
	}
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	if err != nil && result.Written == 0 {
		return err
	}
	if perr := printSend(c.OutOrStdout(), result, o, output); perr != nil {
		return errors.Join(err, perr)
	}
	if err != nil && result.Failed > 0 {
		return fmt.Errorf("%d of %d records were not written, the first because: %w", result.Failed, o.Count, err)
	}
	if err == nil && !result.Done() {
		return silentError{exitFailure}
	}
	return err
}

// forewarn says what the configuration at hand makes of the record, if that is
// probably not what is meant. The service may have another configuration.
func forewarn(w io.Writer, loaded *config.Config, o app.SendOptions) {
	e, err := app.Explain(loaded, &delay.Record{
		Topic: o.Topic, Offset: -1, Timestamp: time.Now().UnixMilli(), Key: o.Record.Key, Value: o.Record.Value, Headers: o.Record.Headers,
	})
	switch {
	case err != nil:
		fmt.Fprintln(w, "warning:", err)
	case e.Refused != nil:
		fmt.Fprintf(w, "warning: this will be refused: %s: %s\n", e.Refused.Reason, e.Refused.Detail)
	}
}

func showSend(p *progress, at app.SendProgress, wait bool, now time.Time) {
	switch {
	case at.Written < at.Total:
		p.show(now, "%d of %d written", at.Written, at.Total)
	case wait && at.Due.After(now):
		p.show(now, "%d of %d came out, the last is due %s", at.Arrived, at.Total, relative(at.Due.Sub(now)))
	case wait:
		p.show(now, "%d of %d came out, the last was due %s", at.Arrived, at.Total, relative(at.Due.Sub(now)))
	}
}
