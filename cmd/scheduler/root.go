package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

func newRoot(stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	root := group(&cobra.Command{
		Use:   "scheduler",
		Short: "Delivers Kafka records later",
		Long: `Delivers Kafka records later: a record written to a *-delay topic with the headers
target-topic and delay-ms (or a failed one to a *-retry topic) reaches its target when
it is due, to the millisecond, once, also after a restart.

Exit codes: 0 it worked, 1 it was tried and did not work, 2 flags, arguments or the
configuration are wrong.`,
		Example: `  scheduler demo                      # see it work in 20 seconds, nothing to install
  scheduler dev                       # an embedded broker and a scheduler on this machine
  scheduler run -c scheduler.yaml     # the service`,
		SilenceUsage:  true,
		SilenceErrors: true,
	})
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w (see %s --help)", err, c.CommandPath())}
	})
	root.AddCommand(newRun(), newDev(), newDemo(), newSend(), newExplain(), newOffsets(), newLeave(), newCheck(), newTopics(), newBench(),
		newHealth(), newConfig(), newVersion())
	addCobras(root)
	return root
}

// addCobras adds the commands that come with cobra, with what ours have. They keep the
// streams that the root has at this time.
func addCobras(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Example = "  scheduler help send"
		case "completion":
			group(c)
			c.Example = "  source <(scheduler completion bash)"
			for _, shell := range c.Commands() {
				shell.Example = "  scheduler completion " + shell.Name()
			}
		}
	}
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

// group makes a command that only holds others: alone it shows its help, and a name
// that it does not have is a usage error. (Cobra's own check would end with the exit
// code of a failure.)
func group(c *cobra.Command) *cobra.Command {
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		hint := ""
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			hint = ", did you mean " + strings.Join(near, " or ") + "?"
		}
		return usageError{fmt.Errorf("unknown command %q for %q%s (see %s --help)", args[0], c.CommandPath(), hint, c.CommandPath())}
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	c.SuggestionsMinimumDistance = 2
	return c
}
