package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"delay-scheduler/app"
	"delay-scheduler/preflight"
)

func newTopicsACLs() *cobra.Command {
	var (
		o                             app.AccessOptions
		principal, properties, output string
	)
	c := &cobra.Command{
		Use:   "acls",
		Short: "Prints the least access that the service needs, as commands for Kafka's own tool",
		Long: `Prints the least access that the service needs, as commands for Kafka's own tool, which are to be
run by who may. With --topic it is that of business topics (or of single sources); without, that of
all sources of the configuration and of targets.allow. A cluster is asked only where a pattern, such
as *-delay, cannot be said in an access list. Nothing is changed.`,
		Example: `  scheduler topics acls -c scheduler.yaml --principal User:scheduler --topic orders
  scheduler topics acls -c scheduler.yaml --principal User:scheduler --topic orders --group billing --checks
  scheduler topics acls -c scheduler.yaml --principal User:CN=scheduler -o json`,
		Args: usageArgs(cobra.NoArgs),
	}
	s := clusterFlags(c)
	c.Flags().StringVar(&principal, "principal", "", "whom the access is for, such as User:scheduler")
	c.Flags().StringVar(&properties, "command-config", "", "file of properties by which Kafka's tool connects, to be put into the commands")
	c.Flags().StringArrayVar(&o.Topics, "topic", nil, "a business topic, or a source; may be repeated (default: all sources)")
	c.Flags().StringVar(&o.Group, "group", "", "with the redelivery topic of this consumer group")
	c.Flags().BoolVar(&o.Checks, "checks", false, "with what check and the retention margin need to know everything, and offsets accept to decide")
	c.Flags().BoolVar(&o.Old, "before-3.0", false, "brokers are older than 3.0, which want IdempotentWrite on the cluster")
	outputFlag(c, &output)
	c.RunE = func(c *cobra.Command, _ []string) error {
		kind, name, _ := strings.Cut(principal, ":")
		if kind == "" || name == "" {
			return usageError{fmt.Errorf("--principal is %q, must be a type and a name, such as User:scheduler", principal)}
		}
		loaded, err := s.load()
		if err != nil {
			return err
		}
		ctx, _, release := signals(c.Context())
		defer release()
		ctx, cancel := context.WithTimeout(ctx, topicsTimeout)
		defer cancel()
		rules, notes, err := app.Access(ctx, loaded, o)
		if errors.Is(err, app.ErrTopics) {
			err = usageError{err}
		}
		if err != nil {
			return err
		}
		brokers := strings.Join(loaded.Kafka.Brokers, ",")
		if output == "json" {
			for _, n := range notes {
				fmt.Fprintln(c.ErrOrStderr(), "note:", shown(n))
			}
			return printJSON(c.OutOrStdout(), accessOutput(rules, brokers, properties, principal))
		}
		return printRules(c.OutOrStdout(), rules, notes, brokers, properties, principal)
	}
	return c
}

// ruleOutput is a rule with its command.
type ruleOutput struct {
	preflight.AccessRule
	Principal string `json:"principal"`
	Command   string `json:"command"`
}

func accessOutput(rules []preflight.AccessRule, brokers, properties, principal string) []ruleOutput {
	out := make([]ruleOutput, 0, len(rules))
	for _, r := range rules {
		out = append(out, ruleOutput{r, principal, r.Command(brokers, properties, principal)})
	}
	return out
}

// printRules writes what a shell takes as it is: remarks are comments.
func printRules(w io.Writer, rules []preflight.AccessRule, notes []string, brokers, properties, principal string) error {
	why := ""
	for _, r := range rules {
		if r.Why != why {
			why = r.Why
			fmt.Fprintln(w, "# "+why)
		}
		if _, err := fmt.Fprintln(w, r.Command(brokers, properties, principal)); err != nil {
			return err
		}
	}
	for _, n := range notes {
		fmt.Fprintln(w, "# note: "+shown(n))
	}
	return nil
}
