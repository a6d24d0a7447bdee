package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"delay-scheduler/app"
	"delay-scheduler/preflight"
)

func newCheck() *cobra.Command {
	var (
		output      string
		strict, all bool
		timeout     time.Duration
	)
	c := &cobra.Command{
		Use:   "check",
		Short: "Says whether the configuration fits the cluster, and what to do where it does not",
		Long: `Says whether the configuration fits the cluster and this machine: brokers and what they offer,
topics and their settings against what may be delayed and what is pending, dead-letter topics,
permissions, the group, the clock, memory. Nothing is written or changed.

fail: it will not work, or records will be lost. warn: it works, and something will be regretted.
unknown: it cannot be proven from here, and why. The service checks the same at every start.
The exit code is 1 if anything fails, with --strict also if there is a warning.`,
		Example: `  scheduler check -c scheduler.yaml
  scheduler check -c scheduler.yaml --strict -o json
  scheduler check --brokers kafka-1:9092 --all`,
		Args: usageArgs(cobra.NoArgs),
	}
	s := clusterFlags(c, [3]string{"group", "group.id", "consumer group"})
	c.Flags().BoolVar(&strict, "strict", false, "a warning is a failure, too")
	c.Flags().BoolVar(&all, "all", false, "list each check that passes in full")
	c.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long to ask")
	outputFlag(c, &output)
	c.RunE = func(c *cobra.Command, _ []string) error {
		loaded, err := s.load()
		if err != nil {
			return err
		}
		ctx, _, release := signals(c.Context())
		defer release()
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		findings, err := app.Check(ctx, loaded)
		if err != nil {
			return err
		}
		if output == "json" {
			err = printJSON(c.OutOrStdout(), findings)
		} else {
			err = printFindings(c.OutOrStdout(), findings, all)
		}
		n := preflight.Count(findings)
		if err == nil && (n[preflight.Fail] > 0 || strict && n[preflight.Warn] > 0) {
			return silentError{exitFailure}
		}
		return err
	}
	return c
}

func printFindings(w io.Writer, findings []preflight.Finding, all bool) error {
	t := newWrapped(w, "RESULT", "CHECK", "SUBJECT", "FOUND")
	for _, f := range folded(findings, all) {
		text := []string{f.Found}
		if f.Do != "" {
			text = append(text, "-> "+f.Do)
		}
		t.row(text, string(f.Severity), f.ID, f.Subject)
	}
	if err := t.flush(); err != nil {
		return err
	}
	n := preflight.Count(findings)
	var parts []string
	for _, s := range preflight.Severities() {
		parts = append(parts, fmt.Sprintf("%d %s", n[s], s))
	}
	_, err := fmt.Fprintf(w, "\n%s\n", strings.Join(parts, ", "))
	return err
}

// folded makes one line of what passes for several subjects alike.
func folded(findings []preflight.Finding, all bool) []preflight.Finding {
	if all {
		return findings
	}
	passed := map[string]int{}
	for _, f := range findings {
		if f.Severity == preflight.Pass {
			passed[f.ID]++
		}
	}
	var out []preflight.Finding
	done := map[string]bool{}
	for _, f := range findings {
		if f.Severity == preflight.Pass && passed[f.ID] > 1 {
			if done[f.ID] {
				continue
			}
			done[f.ID] = true
			f.Subject, f.Found = fmt.Sprintf("%d subjects", passed[f.ID]), "in order (--all lists them)"
		}
		out = append(out, f)
	}
	return out
}
