package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"delay-scheduler/app"
	"delay-scheduler/offset"
)

// acceptance is what the flags of offsets accept say.
type acceptance struct {
	topics  []string
	overdue string
	since   string
	yes     bool
	wait    time.Duration
	output  string
}

func newOffsetsAccept() *cobra.Command {
	var a acceptance
	c := &cobra.Command{
		Use:   "accept",
		Short: "Says what becomes of records that are held after a wrong start",
		Long: `Says what becomes of records that the scheduler holds, because it cannot know whether they were
sent before:

  - no commit was found, and records older than the brokers keep commits: what was overdue then;
  - the log ended before the committed offset (truncated, or restored from a copy): all it had.

With --overdue send all of it is sent, with --overdue drop none of it, and with --since what is due
from that time on. The decision is committed to the group <group.id>-accepted; the scheduler carries
it out within seconds, or when it starts.`,
		Example: `  scheduler offsets accept -c scheduler.yaml --overdue drop
  scheduler offsets accept -c scheduler.yaml --since 2026-01-02T15:04:05Z --topic orders-delay --yes`,
		Args: usageArgs(cobra.NoArgs),
	}
	s := clusterFlags(c, [3]string{"group", "group.id", "consumer group"})
	c.Flags().StringArrayVar(&a.topics, "topic", nil, "only what is held of this topic; may be repeated")
	c.Flags().StringVar(&a.overdue, "overdue", "", "send or drop all that is held")
	c.Flags().StringVar(&a.since, "since", "", "send what is due from this time on (RFC 3339 or epoch ms), drop the rest")
	c.Flags().BoolVar(&a.yes, "yes", false, "do not ask")
	c.Flags().DurationVar(&a.wait, "wait", 30*time.Second, "how long to wait until it is carried out; 0 does not wait")
	outputFlag(c, &a.output)
	c.RunE = func(c *cobra.Command, _ []string) error { return a.run(c, s) }
	return c
}

// from is the due time from which on records are sent, in epoch ms.
func (a *acceptance) from(now time.Time) (int64, error) {
	switch {
	case (a.overdue == "") == (a.since == ""):
		return 0, usageError{errors.New("say what becomes of held records: either --overdue send, --overdue drop, or --since TIME")}
	case a.overdue == "send":
		return 0, nil
	case a.overdue == "drop":
		return offset.Everything, nil
	case a.overdue != "":
		return 0, usageError{fmt.Errorf("--overdue is %q, must be send or drop", a.overdue)}
	}
	t, err := parseTime(a.since, now)
	if err != nil {
		return 0, usageError{fmt.Errorf("--since %w", err)}
	}
	return t.UnixMilli(), nil
}

func (a *acceptance) run(c *cobra.Command, s *settings) error {
	since, err := a.from(time.Now())
	if err != nil {
		return err
	}
	loaded, err := s.load()
	if err != nil {
		return err
	}
	ctx, _, release := signals(c.Context())
	defer release()
	held, err := app.Held(ctx, loaded, a.topics)
	if err != nil {
		return err
	}
	held = undecided(held)
	if len(held) == 0 {
		if a.output == "json" {
			return printJSON(c.OutOrStdout(), []app.HeldPartition{})
		}
		_, err := fmt.Fprintf(c.OutOrStdout(), "group %s holds nothing\n", loaded.Group.ID)
		return err
	}
	if !a.yes {
		if err := printHeld(c.ErrOrStderr(), held); err != nil {
			return err
		}
		if err := confirm(c, fmt.Sprintf("%s what is held of these %d partitions?", a.verb(), len(held))); err != nil {
			return err
		}
	}
	if err := app.Accept(ctx, loaded, held, since); err != nil {
		return err
	}
	left := held
	if a.wait > 0 {
		ctx, cancel := context.WithTimeout(ctx, a.wait)
		defer cancel()
		p := newProgress(c.ErrOrStderr())
		left, err = app.AwaitAccepted(ctx, loaded, held, func(left int) { p.show(time.Now(), "%d partitions to go", left) })
		p.clear()
		if err != nil {
			return err
		}
	}
	return a.report(c, held, left)
}

func (a *acceptance) verb() string {
	switch a.overdue {
	case "send":
		return "Send"
	case "drop":
		return "Drop"
	}
	return "Send, as far as it is due since " + a.since + ", and drop the rest of"
}

// report says how far it is. What is left is no failure: it is written down.
func (a *acceptance) report(c *cobra.Command, held, left []app.HeldPartition) error {
	for i := range held {
		held[i].Decided = true
		for _, l := range left {
			if l.Topic == held[i].Topic && l.Partition == held[i].Partition {
				held[i].Decided = false
			}
		}
	}
	if a.output == "json" {
		return printJSON(c.OutOrStdout(), held)
	}
	if err := printHeld(c.OutOrStdout(), held); err != nil {
		return err
	}
	if len(left) > 0 {
		fmt.Fprintf(c.OutOrStdout(), "\nThe decision is written down. For %d partitions it will be carried out by the scheduler that owns them, or when one starts.\n", len(left))
	}
	return nil
}

func undecided(all []app.HeldPartition) []app.HeldPartition {
	var some []app.HeldPartition
	for _, h := range all {
		if !h.Decided {
			some = append(some, h)
		}
	}
	return some
}

func printHeld(w io.Writer, held []app.HeldPartition) error {
	var rows [][]string
	for _, h := range held {
		due, state := "any time", "held"
		if h.DueBy != nil {
			due = "until " + stamp(*h.DueBy)
		}
		if h.Decided {
			state = "carried out"
		}
		rows = append(rows, []string{fmt.Sprintf("%s/%d", h.Topic, h.Partition), fmt.Sprintf("%d to %d", h.From, h.Below-1), due, state})
	}
	return printTable(w, []string{"PARTITION", "OFFSETS", "DUE", "STATE"}, rows)
}

// errNotConfirmed ends a command that nobody wanted after all.
var errNotConfirmed = errors.New("nothing was changed")

// confirm asks whether to go on; a no is errNotConfirmed.
func confirm(c *cobra.Command, question string) error {
	yes, err := ask(c.InOrStdin(), c.ErrOrStderr(), question)
	if err == nil && !yes {
		err = errNotConfirmed
	}
	return err
}
