package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"delay-scheduler/config"
)

func newConfig() *cobra.Command {
	c := group(&cobra.Command{
		Use:   "config",
		Short: "Shows and checks configurations",
		Example: `  scheduler config default > scheduler.yaml
  scheduler config validate -c scheduler.yaml
  scheduler config show -c scheduler.yaml`,
	})
	c.AddCommand(newConfigDefault(), newConfigValidate(), newConfigShow())
	return c
}

func newConfigDefault() *cobra.Command {
	return &cobra.Command{
		Use:     "default",
		Short:   "Prints a file with every key, its meaning and its default",
		Example: "  scheduler config default > scheduler.yaml",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(c.OutOrStdout(), config.DefaultYAML())
			return err
		},
	}
}

func newConfigValidate() *cobra.Command {
	c := &cobra.Command{
		Use:   "validate",
		Short: "Names everything that is wrong with a configuration",
		Long: `Names everything that is wrong with a configuration, one mistake a line, with exit code 2.
What is legal and most likely not meant is a warning, with exit code 0. No broker is asked.`,
		Example: "  scheduler config validate -c scheduler.yaml",
		Args:    usageArgs(cobra.NoArgs),
	}
	s := configFlags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		loaded, err := s.load()
		if err != nil {
			return err
		}
		name := s.file
		if name == "" {
			name = "the configuration without a file"
		}
		for _, w := range loaded.Warnings() {
			fmt.Fprintln(c.ErrOrStderr(), "warning:", w)
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "%s is valid\n", name)
		return err
	}
	return c
}

func newConfigShow() *cobra.Command {
	c := &cobra.Command{
		Use:   "show",
		Short: "Prints the configuration that results from file, environment and flags",
		Long: `Prints the configuration that results from flags, environment, file and defaults. Secrets
are hidden, so the output is no copy of the file.`,
		Example: `  scheduler config show -c scheduler.yaml
  SCHEDULER_GROUP_ID=other scheduler config show`,
		Args: usageArgs(cobra.NoArgs),
	}
	s := configFlags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		loaded, err := s.load()
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(c.OutOrStdout(), loaded.Show())
		return err
	}
	return c
}
