package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"delay-scheduler/app"
	"delay-scheduler/config"
	"delay-scheduler/devbroker"
)

func newDev() *cobra.Command {
	var (
		o        app.DevOptions
		logLevel string
	)
	c := &cobra.Command{
		Use:   "dev",
		Short: "Runs an embedded broker and a scheduler on this machine",
		Long: `Runs an embedded Kafka broker and a scheduler in one process, for trying things out and for
developing producers and consumers without a cluster. The broker's data is in a directory and
survives restarts and kill -9; a topic that does not exist is made when it is first named.

There are a delay topic (orders-delay), a retry topic (orders-retry), their dead-letter topic
(orders-dlq) and a target (orders). Stop it with Ctrl-C; remove the data directory to begin anew.`,
		Example: `  scheduler dev
  scheduler dev --topic payments-delay --topic payments
  scheduler dev --data ./kafka-data --listen 127.0.0.1:19092 --http 127.0.0.1:18080`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			o.Version = versionString()
			return runDev(c, o, logLevel)
		},
	}
	c.Flags().StringVar(&o.Data, "data", "", "directory of the broker's data (default: one in your home directory)")
	c.Flags().StringVar(&o.Listen, "listen", "127.0.0.1:9092", "address of the broker; port 0 is any free one")
	c.Flags().StringVar(&o.HTTP, "http", "127.0.0.1:8080", "address of health, metrics and status; port 0 is any free one")
	c.Flags().StringArrayVar(&o.Topics, "topic", nil, "make this topic, too; may be repeated")
	c.Flags().StringVar(&logLevel, "log-level", "warn", "debug, info, warn or error")
	return c
}

func runDev(c *cobra.Command, o app.DevOptions, logLevel string) error {
	logging := config.Default()
	logging.Log = config.Log{Level: logLevel, Format: "console"}
	log, err := newLogger(logging, c.ErrOrStderr())
	if err != nil {
		return usageError{fmt.Errorf("--log-level is %q, must be debug, info, warn or error", logLevel)}
	}
	if o.Data == "" {
		if o.Data, err = app.DevData(); err != nil {
			return err
		}
	}
	ctx, hurry, release := signals(c.Context())
	defer release()
	d, err := app.NewDev(o, log)
	if err != nil {
		return err
	}
	out := c.OutOrStdout()
	err = d.Run(ctx, hurry, func() { printDev(out, d, o) })
	if err == nil {
		fmt.Fprintf(out, "\nstopped; what is pending waits in %s for the next start\n", o.Data)
	}
	return err
}

// printDev says what there is and what can be pasted into another terminal.
func printDev(w io.Writer, d *app.Dev, o app.DevOptions) {
	topics := append([]string{app.DevDelayTopic, app.DevRetryTopic, app.DevDeadLetters, app.DevTarget}, o.Topics...)
	brokers, flag := d.Brokers(), ""
	if brokers != "127.0.0.1:9092" {
		flag = " --brokers " + brokers
	}
	url := ""
	if d.HTTP() != "127.0.0.1:8080" {
		url = " --url http://" + d.HTTP()
	}
	// As it was called, so that what is pasted works where the binary is not on the path.
	self := os.Args[0]
	fmt.Fprintf(w, `ready
  broker  %s
  status  http://%s/v1/status
  data    %s
  topics  %s; others are made when they are first named
  note    %s

Paste into another terminal. A record that arrives in 5 seconds:

  %s send%s --topic orders-delay --target orders --delay 5s --wait hello

The same with kcat, and a reader of the target:

  kcat -C -q -u -b %s -t orders -o end -f '%%T %%t %%h %%s\n' &
  echo hello | kcat -P -b %s -t orders-delay -k order-1 -H target-topic=orders -H delay-ms=5000

A failed record, which comes back to orders by the retry policy (after 1 to 2 s the first time):

  %s send%s --topic orders-retry --target orders --header retry-count=1 'try again'

What becomes of a record, and how the scheduler stands:

  %s explain --topic orders-delay --header target-topic=orders --header delay-ms=5000
  %s offsets show%s
  %s health%s
  curl -s http://%s/v1/status

Ctrl-C stops it.
`, brokers, d.HTTP(), o.Data, strings.Join(topics, ", "), devbroker.Notice,
		self, flag, brokers, brokers, self, flag, self, self, flag, self, url, d.HTTP())
}
