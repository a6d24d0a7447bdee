package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "scheduler",
		Short: "Delivers Kafka records later",
		Long: `Delivers Kafka records later: a record written to a *-delay topic with the headers
target-topic and delay-ms (or a failed one to a *-retry topic) reaches its target when
it is due, to the millisecond, once, also after a restart.`,
		Example: `  scheduler demo                      # see it work in 20 seconds, nothing to install
  scheduler dev                       # an embedded broker and a scheduler on this machine
  scheduler run -c scheduler.yaml     # the service`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w (see %s --help)", err, c.CommandPath())}
	})
	root.AddCommand(newRun(), newDev(), newDemo(), newSend(), newExplain(), newOffsets(), newHealth(), newConfig(), newVersion())
	return root
}

// usageArgs turns cobra's argument errors into usage errors.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return usageError{fmt.Errorf("%w (see %s --help)", err, c.CommandPath())}
		}
		return nil
	}
}
