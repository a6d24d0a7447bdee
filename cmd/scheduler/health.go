package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"delay-scheduler/app"
)

func newHealth() *cobra.Command {
	var (
		address, output string
		strict          bool
		timeout         time.Duration
	)
	c := &cobra.Command{
		Use:   "health",
		Short: "Asks a running scheduler how it is",
		Long: `Asks a running scheduler how it is, for images without curl. The exit code is 0 if it is
ready, 1 if it is not or does not answer. It is ready unless the process as a whole
cannot work; trouble of one partition, target or dead-letter topic makes it degraded,
which --strict counts as a failure, too.`,
		Example: `  scheduler health
  scheduler health --url http://10.0.0.7:8080 --strict
  scheduler health -o json`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), timeout)
			defer cancel()
			h, err := app.CheckHealth(ctx, address)
			switch {
			case errors.Is(err, app.ErrAddress):
				return usageError{fmt.Errorf("--url: %w", err)}
			case err != nil:
				return err
			}
			if err := printHealth(c.OutOrStdout(), h, output); err != nil {
				return err
			}
			if !h.Ready || (strict && len(h.Degraded) > 0) {
				return silentError{exitFailure}
			}
			return nil
		},
	}
	c.Flags().StringVar(&address, "url", "http://127.0.0.1:8080", "where the scheduler serves HTTP (http.listen)")
	c.Flags().BoolVar(&strict, "strict", false, "degraded is a failure, too")
	c.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "how long to wait for an answer")
	outputFlag(c, &output)
	return c
}

func printHealth(w io.Writer, h app.Health, output string) error {
	if output == "json" {
		return printJSON(w, h)
	}
	state := "ready"
	switch {
	case !h.Ready:
		state = "not ready: " + h.Why
	case len(h.Degraded) > 0:
		state = "ready, degraded"
	}
	if _, err := fmt.Fprintln(w, state); err != nil || len(h.Degraded) == 0 {
		return err
	}
	var rows [][]string
	for _, t := range h.Degraded {
		rows = append(rows, []string{t.Reason, t.Subject, t.Detail})
	}
	return printTable(w, []string{"REASON", "SUBJECT", "DETAIL"}, rows)
}
