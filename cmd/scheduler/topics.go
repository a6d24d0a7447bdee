package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"delay-scheduler/app"
	"delay-scheduler/config"
	"delay-scheduler/preflight"
)

// topicsTimeout bounds what a cluster is asked and told.
const topicsTimeout = time.Minute

func newTopics() *cobra.Command {
	c := group(&cobra.Command{
		Use:   "topics",
		Short: "Plans and creates the topics that a business topic needs, and lists the access to them",
		Example: `  scheduler topics plan -c scheduler.yaml --topic orders --partitions 12 --replication 3
  scheduler topics create -c scheduler.yaml --topic orders --partitions 12 --replication 3
  scheduler topics acls -c scheduler.yaml --principal User:scheduler --topic orders`,
	})
	c.AddCommand(newTopicsPlan(), newTopicsCreate(), newTopicsACLs())
	return c
}

// topicsFlags say which topics are wanted.
type topicsFlags struct {
	settings                       *settings
	topic, group, maxDelay, output string
	partitions                     int32
	replication                    int16
}

func (f *topicsFlags) add(c *cobra.Command) {
	f.settings = clusterFlags(c)
	c.Flags().StringVar(&f.topic, "topic", "", "the business topic, such as orders")
	c.Flags().Int32Var(&f.partitions, "partitions", 0, "partitions of each topic (default: as many as the business topic has)")
	c.Flags().Int16Var(&f.replication, "replication", 0, "replicas of each topic (default: as the business topic has)")
	c.Flags().StringVar(&f.group, "group", "", "make the redelivery topic of this consumer group, too")
	c.Flags().StringVar(&f.maxDelay, "max-delay", "", "the longest delay, such as 7d (default: max_delay of the sources)")
	outputFlag(c, &f.output)
}

// plan compares what is wanted with what there is.
func (f *topicsFlags) plan(ctx context.Context) (*config.Config, preflight.TopicPlan, error) {
	loaded, err := f.settings.load()
	if err != nil {
		return nil, preflight.TopicPlan{}, err
	}
	o := app.TopicsOptions{Topic: f.topic, Partitions: f.partitions, Replication: f.replication, Group: f.group}
	if f.topic == "" {
		return nil, preflight.TopicPlan{}, usageError{errors.New("name the business topic with --topic")}
	}
	if f.maxDelay != "" {
		ms, err := parseDelay(f.maxDelay)
		if err == nil && (ms <= 0 || ms > math.MaxInt64/int64(2*time.Millisecond)) {
			err = fmt.Errorf("is %q, must be above 0 and below 146 years", f.maxDelay)
		}
		if err != nil {
			return nil, preflight.TopicPlan{}, usageError{fmt.Errorf("--max-delay %w", err)}
		}
		o.MaxDelay = time.Duration(ms) * time.Millisecond
	}
	plan, err := app.PlanTopics(ctx, loaded, o)
	if errors.Is(err, app.ErrTopics) {
		err = usageError{err}
	}
	return loaded, plan, err
}

func newTopicsPlan() *cobra.Command {
	var f topicsFlags
	c := &cobra.Command{
		Use:   "plan",
		Short: "Shows which topics a business topic needs, and how those that exist differ",
		Long: `Shows which topics a business topic needs: itself, its delay and retry topics, their dead-letter
topic and, with --group, the topic that one consumer group's retries come back to. What exists is
compared with what it should be. Nothing is changed, and the exit code is 0 also if there is drift.`,
		Example: `  scheduler topics plan -c scheduler.yaml --topic orders --partitions 12 --replication 3
  scheduler topics plan -c scheduler.yaml --topic orders --group billing --max-delay 7d -o json`,
		Args: usageArgs(cobra.NoArgs),
	}
	f.add(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx, _, release := signals(c.Context())
		defer release()
		_, plan, err := f.planWithin(ctx)
		if err != nil {
			return err
		}
		if f.output == "json" {
			return printJSON(c.OutOrStdout(), plan)
		}
		return printPlan(c.OutOrStdout(), plan)
	}
	return c
}

func newTopicsCreate() *cobra.Command {
	var (
		f        topicsFlags
		yes, fix bool
	)
	c := &cobra.Command{
		Use:   "create",
		Short: "Creates the topics of a plan that are missing",
		Long: `Creates the topics of a plan that are missing, after showing it and asking; --yes does not ask.
What exists stays as it is: where it differs that is reported, and --fix-drift changes the settings.
Partitions and replicas are never changed. It may be run again at any time. The exit code is 1 if
something could not be done, or still differs at the end.`,
		Example: `  scheduler topics create -c scheduler.yaml --topic orders --partitions 12 --replication 3
  scheduler topics create -c scheduler.yaml --topic orders --group billing --fix-drift --yes`,
		Args: usageArgs(cobra.NoArgs),
	}
	f.add(c)
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.Flags().BoolVar(&fix, "fix-drift", false, "change the settings of topics that exist, where they differ")
	c.RunE = func(c *cobra.Command, _ []string) error { return f.create(c, yes, fix) }
	return c
}

func (f *topicsFlags) create(c *cobra.Command, yes, fix bool) error {
	ctx, _, release := signals(c.Context())
	defer release()
	loaded, plan, err := f.planWithin(ctx)
	if err != nil {
		return err
	}
	view := c.OutOrStdout()
	if f.output == "json" {
		view = c.ErrOrStderr() // standard output is for the result alone
	}
	if err := printPlan(view, plan); err != nil {
		return err
	}
	question := todo(plan, fix)
	if question != "" && !yes {
		agreed, err := ask(c.InOrStdin(), view, "\n"+question)
		if err != nil {
			return err
		}
		if !agreed {
			fmt.Fprintln(view, "nothing was changed")
			return silentError{exitFailure}
		}
	}
	if question != "" {
		fmt.Fprintln(view)
		ctx, cancel := context.WithTimeout(ctx, topicsTimeout)
		defer cancel()
		if err := app.CreateTopics(ctx, loaded, plan, fix, func(s string) { fmt.Fprintln(view, s) }); err != nil {
			return err
		}
	}
	return f.conclude(ctx, c, view)
}

func (f *topicsFlags) planWithin(ctx context.Context) (*config.Config, preflight.TopicPlan, error) {
	ctx, cancel := context.WithTimeout(ctx, topicsTimeout)
	defer cancel()
	return f.plan(ctx)
}

// conclude looks at what there is now.
func (f *topicsFlags) conclude(ctx context.Context, c *cobra.Command, view io.Writer) error {
	_, plan, err := f.planWithin(ctx)
	if err != nil {
		return err
	}
	if f.output == "json" {
		if err := printJSON(c.OutOrStdout(), plan); err != nil {
			return err
		}
	}
	drift, fixable := plan.Drifts()
	switch missing := len(plan.Missing()); {
	case missing > 0:
		fmt.Fprintf(view, "%d topics are still missing\n", missing)
	case drift > 0:
		fmt.Fprintf(view, "every topic is there; %d settings differ, of which --fix-drift changes %d\n", drift, fixable)
	default:
		fmt.Fprintln(view, "every topic is there, as it should be")
		return nil
	}
	return silentError{exitFailure}
}

// todo is the question to be asked; empty: nothing is to be done.
func todo(plan preflight.TopicPlan, fix bool) string {
	var parts []string
	if n := len(plan.Missing()); n > 0 {
		parts = append(parts, fmt.Sprintf("create %d topics", n))
	}
	if _, fixable := plan.Drifts(); fix && fixable > 0 {
		parts = append(parts, fmt.Sprintf("change %d settings", fixable))
	}
	if len(parts) == 0 {
		return ""
	}
	text := strings.Join(parts, " and ")
	return strings.ToUpper(text[:1]) + text[1:] + "?"
}

func printPlan(w io.Writer, plan preflight.TopicPlan) error {
	t := newWrapped(w, "TOPIC", "FOR", "STATE", "PARTITIONS", "REPLICATION", "SETTINGS")
	for _, p := range plan.Topics {
		state := "exists"
		switch {
		case !p.Exists:
			state = "to be created"
		case len(p.Drift) > 0:
			state = "differs"
		}
		var sets []string
		for _, key := range slices.Sorted(maps.Keys(p.Configs)) {
			sets = append(sets, key+"="+p.Configs[key])
		}
		if len(sets) == 0 {
			sets = []string{"as they are"}
		}
		t.row([]string{strings.Join(sets, " ")}, p.Name, p.Role, state, strconv.Itoa(int(p.Partitions)), strconv.Itoa(int(p.Replication)))
	}
	if err := t.flush(); err != nil {
		return err
	}
	if err := printDrift(w, plan); err != nil {
		return err
	}
	for _, n := range plan.Notes {
		if _, err := fmt.Fprintln(w, "\nnote:", shown(n)); err != nil {
			return err
		}
	}
	return nil
}

func printDrift(w io.Writer, plan preflight.TopicPlan) error {
	if n, _ := plan.Drifts(); n == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	t := newWrapped(w, "TOPIC", "SETTING", "IS", "SHOULD BE", "WHAT TO DO")
	for _, p := range plan.Topics {
		for _, d := range p.Drift {
			do := d.Do
			if d.Fixable {
				do = "topics create --fix-drift changes it"
			}
			t.row([]string{do}, p.Name, d.Setting, d.Is, d.Want)
		}
	}
	return t.flush()
}
