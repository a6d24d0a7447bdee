package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"delay-scheduler/app"
	"delay-scheduler/config"
)

func newHealth() *cobra.Command {
	var (
		q         app.HealthQuery
		file      string
		tokenFile string
		output    string
		strict    bool
		timeout   time.Duration
	)
	c := &cobra.Command{
		Use:   "health",
		Short: "Asks a running scheduler how it is",
		Long: `Asks a running scheduler how it is, for images without curl. The exit code is 0 if it is
ready, 1 if it is not or does not answer. It is ready unless the process as a whole
cannot work; trouble of one partition, target or dead-letter topic makes it degraded,
which --strict counts as a failure, too.

With the configuration of the process (-c, or SCHEDULER_HTTP_... in the environment) its
address, its certificate and its token are known. Without the token the answer does not
say which parts are in trouble.`,
		Example: `  scheduler health
  scheduler health -c scheduler.yaml
  scheduler health --url http://10.0.0.7:8080 --strict
  scheduler health --url https://orders:8080 --ca-file ca.pem --token-file token
  scheduler health -o json`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), timeout)
			defer cancel()
			q, err := completeQuery(q, file, tokenFile)
			if err != nil {
				return usageError{err}
			}
			h, err := app.CheckHealth(ctx, q)
			switch {
			case errors.Is(err, app.ErrAddress):
				return usageError{fmt.Errorf("--url: %w", err)}
			case err != nil:
				return err
			}
			if err := printHealth(c.OutOrStdout(), h, output); err != nil {
				return err
			}
			if !h.Ready || (strict && h.DegradedParts > 0) {
				return silentError{exitFailure}
			}
			return nil
		},
	}
	c.Flags().StringVarP(&file, "config", "c", "", "configuration file of the scheduler that is asked")
	c.Flags().StringVar(&q.URL, "url", "", "where the scheduler serves HTTP (default: http.listen of the configuration)")
	c.Flags().StringVar(&q.CAFile, "ca-file", "", "authorities of its certificate, as PEM (default: the system's)")
	c.Flags().StringVar(&q.ServerName, "server-name", "", "name that its certificate must be good for (default: the host of --url)")
	c.Flags().StringVar(&tokenFile, "token-file", "", "file with the token (default: that of the configuration)")
	c.Flags().BoolVar(&strict, "strict", false, "degraded is a failure, too")
	c.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "how long to wait for an answer")
	outputFlag(c, &output)
	return c
}

// completeQuery takes from the configuration what was not said by flags.
func completeQuery(q app.HealthQuery, file, tokenFile string) (app.HealthQuery, error) {
	loaded, err := config.Load(file, nil)
	if err != nil {
		return q, mistakes{file, err}
	}
	if tokenFile != "" {
		loaded.HTTP.Token, loaded.HTTP.TokenFile = "", tokenFile
	}
	own, err := app.OwnHealth(loaded)
	if err != nil {
		return q, err
	}
	if q.URL == "" {
		q.URL, q.CertFile = own.URL, own.CertFile
	}
	q.Token = own.Token
	return q, nil
}

func printHealth(w io.Writer, h app.Health, output string) error {
	if output == "json" {
		return printJSON(w, h)
	}
	state := "ready"
	switch {
	case !h.Ready:
		state = "not ready: " + shown(h.Why)
	case len(h.Degraded) > 0:
		state = "ready, degraded"
	case h.DegradedParts > 0:
		state = fmt.Sprintf("ready, degraded: %d parts (which ones is said to who has the token: --token-file)", h.DegradedParts)
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
