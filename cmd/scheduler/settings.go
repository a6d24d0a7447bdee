package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"delay-scheduler/config"
)

// settings are where a command takes its configuration from.
type settings struct {
	file      string
	overrides func() (map[string]string, error)
}

// configFlags adds -c and the flags of the common keys.
func configFlags(c *cobra.Command) *settings {
	s := &settings{}
	c.Flags().StringVarP(&s.file, "config", "c", "", "configuration file; without it, the environment and the defaults")
	s.overrides = config.AddFlags(c.Flags())
	return s
}

// clusterFlags adds -c and --brokers, which is all that a command needs that asks a
// cluster one thing. Other flags that set a key come as name and path.
func clusterFlags(c *cobra.Command, others ...[3]string) *settings {
	s := &settings{}
	c.Flags().StringVarP(&s.file, "config", "c", "", "configuration file; without it, the environment and the defaults")
	flags := append([][3]string{{"brokers", "kafka.brokers", "addresses of brokers, host:port,host:port"}}, others...)
	for _, f := range flags {
		c.Flags().String(f[0], "", f[2]+" ("+f[1]+")")
	}
	s.overrides = func() (map[string]string, error) {
		given := map[string]string{}
		for _, f := range flags {
			if flag := c.Flags().Lookup(f[0]); flag.Changed {
				given[f[1]] = flag.Value.String()
			}
		}
		return given, nil
	}
	return s
}

// load reads the configuration. What is wrong with it is a usage error.
func (s *settings) load() (*config.Config, error) {
	overrides, err := s.overrides()
	if err != nil {
		return nil, usageError{err}
	}
	c, err := config.Load(s.file, overrides)
	if err != nil {
		return nil, usageError{mistakes{s.file, err}}
	}
	return c, nil
}

// mistakes shows all that is wrong with a configuration, one a line.
type mistakes struct {
	file string
	err  error
}

func (m mistakes) Error() string {
	lines := m.lines()
	if len(lines) == 1 {
		return "configuration: " + lines[0]
	}
	return fmt.Sprintf("%d mistakes in the configuration:\n  %s", len(lines), strings.Join(lines, "\n  "))
}

func (m mistakes) Unwrap() error { return m.err }

func (m mistakes) lines() []string {
	var joined interface{ Unwrap() []error }
	if !errors.As(m.err, &joined) {
		return []string{m.err.Error()}
	}
	var lines []string
	for _, err := range joined.Unwrap() {
		lines = append(lines, err.Error())
	}
	return lines
}
