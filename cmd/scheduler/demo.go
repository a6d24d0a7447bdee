package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"delay-scheduler/demo"
)

// What the demonstration consists of; about 20 seconds in all.
const (
	demoRecords  = 300
	demoMaxDelay = 12 * time.Second
	demoKillAt   = 5 * time.Second
)

func newDemo() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "demo",
		Short: "Shows the main job in 20 seconds, with nothing to install",
		Long: `Shows the main job in 20 seconds, without any configuration: an embedded broker, a scheduler
as a process of its own, 300 records with delays of 0 to 12 s, a SIGKILL after 5 s, and a count
of what arrived. The exit code is 0 only if nothing was lost and nothing was early.`,
		Example: "  scheduler demo\n  scheduler demo -o json",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return runDemo(c, output)
		},
	}
	outputFlag(c, &output)
	return c
}

func runDemo(c *cobra.Command, output string) error {
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, which the demonstration starts again: %w", err)
	}
	view := c.OutOrStdout()
	if output == "json" {
		view = c.ErrOrStderr() // standard output is for the result alone
	}
	ctx, _, release := signals(c.Context())
	defer release()
	result, err := demo.Run(ctx, demo.Options{
		Binary: binary, Records: demoRecords, MaxDelay: demoMaxDelay, KillAt: demoKillAt,
		Out: view, Live: isTerminal(view),
	})
	if err != nil {
		return err
	}
	if output == "json" {
		err = printJSON(c.OutOrStdout(), result)
	} else {
		err = printDemo(view, result)
	}
	if err == nil && !result.Kept() {
		return silentError{exitFailure}
	}
	return err
}

func printDemo(w io.Writer, r demo.Result) error {
	fmt.Fprintln(w)
	head := []string{"SENT", "DELIVERED", "LOST", "EARLY", "DUPLICATES", "P50 LATE", "P99 LATE", "MAX LATE"}
	row := []string{
		strconv.Itoa(r.Sent), strconv.Itoa(r.Delivered), strconv.Itoa(r.Lost), strconv.Itoa(r.Early), strconv.Itoa(r.Duplicates),
		milliseconds(r.P50), milliseconds(r.P99), milliseconds(r.Max),
	}
	if err := printTable(w, head, [][]string{row}); err != nil {
		return err
	}
	verdict := "Nothing was lost, and nothing was early."
	if !r.Kept() {
		verdict = "The promise was NOT kept: no record may be lost or early."
	}
	fmt.Fprintf(w, "\n%s\n", verdict)
	if r.Outage > 0 {
		fmt.Fprintf(w, "%d records fell due while no scheduler was running. They were sent as soon as one was, the latest\n%v late; the percentiles are of the others.\n",
			r.Outage, r.OutageLate.Round(10*time.Millisecond))
	}
	if r.Duplicates > 0 {
		fmt.Fprintf(w, "%d records came twice: sent in the last second before the kill, and not committed yet. Both copies\nhave the same delay-id.\n", r.Duplicates)
	}
	return nil
}

func milliseconds(d time.Duration) string {
	return strconv.FormatInt(d.Round(time.Millisecond).Milliseconds(), 10) + " ms"
}
