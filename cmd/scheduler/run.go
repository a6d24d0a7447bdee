package main

import (
	"github.com/spf13/cobra"

	"delay-scheduler/app"
	"delay-scheduler/config"
)

func newRun() *cobra.Command {
	c := &cobra.Command{
		Use:   "run",
		Short: "Runs the service",
		Long: `Runs the service until SIGTERM or SIGINT. Then it sends nothing new, waits for what is
in flight (shutdown.drain_timeout), commits and leaves; a second signal skips the wait.

Flags win over the environment (SCHEDULER_KAFKA_BROKERS=a:9092), that over the file, and
that over the defaults ("scheduler config default" shows them all). While no broker can
be reached it keeps trying, and /readyz says why it is not ready.`,
		Example: `  scheduler run -c scheduler.yaml
  scheduler run --brokers kafka-1:9092,kafka-2:9092 --group-id orders-scheduler
  scheduler run -c scheduler.yaml --log-level debug --set forward.linger=20ms`,
		Args: usageArgs(cobra.NoArgs),
	}
	s := configFlags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		loaded, err := s.load()
		if err != nil {
			return err
		}
		return serve(c, loaded)
	}
	return c
}

func serve(c *cobra.Command, loaded *config.Config) error {
	log, err := newLogger(loaded, c.ErrOrStderr())
	if err != nil {
		return usageError{err}
	}
	defer func() { _ = log.Sync() }() // standard error may be a terminal, which cannot be synced
	for _, w := range loaded.Warnings() {
		log.Warn("configuration: " + w)
	}
	ctx, hurry, release := signals(c.Context())
	defer release()
	a, err := app.New(loaded, versionString(), log)
	if err != nil {
		return err
	}
	return a.Run(ctx, hurry)
}
