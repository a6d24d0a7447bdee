package main

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func tree() *cobra.Command { return newRoot(strings.NewReader(""), io.Discard, io.Discard) }

func everyCommand(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		all = append(all, everyCommand(sub)...)
	}
	return all
}

func TestEveryCommandHasHelpWithAnExample(t *testing.T) {
	for _, c := range everyCommand(tree()) {
		t.Run(c.CommandPath(), func(t *testing.T) {
			r := requireOK(t, scheduler(t, append(strings.Fields(c.CommandPath())[1:], "--help")...))

			require.NotEmpty(t, c.Short)
			require.NotEmpty(t, c.Example)
			require.Contains(t, r.out, c.Example)
			require.Empty(t, r.errOut)
		})
	}
}

// An example that does not work is worse than none.
func TestExamplesNameCommandsAndFlagsThatExist(t *testing.T) {
	for _, c := range everyCommand(tree()) {
		for line := range strings.Lines(c.Example) {
			_, call, found := strings.Cut(line, "scheduler ")
			require.True(t, found, line)
			call, _, _ = strings.Cut(strings.TrimRight(call, ")\n"), "#")
			call, _, _ = strings.Cut(call, ">")
			root := tree()
			named, rest, err := root.Find(strings.Fields(call))
			require.NoError(t, err, line)
			require.NoError(t, named.ParseFlags(rest), line)
			require.NoError(t, named.ValidateArgs(named.Flags().Args()), line)
		}
	}
}

func TestWhatTheCallerHasToCorrectEndsWithTwo(t *testing.T) {
	for _, args := range []string{
		"sned", "offsets shwo", "config", "--no-such-flag", "run extra", "run -c /no/such/file.yaml", "run --set linger",
		"run --log-level loud", "run --brokers kafka",
		"version -o yaml", "health --url localhost:8080", "explain", "explain orders-delay/0", "explain a/0/1 --topic b",
		"explain --topic a-delay --header =x", "explain --topic a-delay --header-binary a=xyz", "explain --topic a-delay --timestamp 5",
		"send", "send --topic a-delay", "send --topic a-delay --target a", "send --topic a-delay --target a --delay 5",
		"send --topic a-delay --target a --delay -5s", "send --topic a-delay --target a --delay 5s --at 15:00:00",
		"send --topic a-delay --target a --at yesterday", "send --topic a-delay --target a --delay 5s --count 0 x",
		"send --topic a-delay --target a --delay 5s --rate -1 x", "send --topic a/b --target a --delay 5s x",
		"send --topic a-delay --target a --delay 5s --null-value x", "send --topic a-delay --target a --delay 5s --file /no/such/file",
		"offsets show --read -1", "dev --log-level loud", "config validate -c /no/such/file.yaml", "completion fishh",
	} {
		t.Run(args, func(t *testing.T) {
			r := scheduler(t, strings.Fields(args)...)

			if args == "config" { // alone it shows its help
				require.Equal(t, exitOK, r.code)
				return
			}
			require.Equal(t, exitUsage, r.code, "%s%s", r.out, r.errOut)
			require.True(t, strings.HasPrefix(r.errOut, "scheduler: "), r.errOut)
			require.Empty(t, r.out)
		})
	}
}

func TestUnknownCommandSuggestsTheNearest(t *testing.T) {
	r := scheduler(t, "sned")

	require.Contains(t, r.errOut, "did you mean send?")
}

func TestVersionIsPrintedForPeopleAndPrograms(t *testing.T) {
	require.Contains(t, requireOK(t, scheduler(t, "version")).out, "scheduler ")
	require.Contains(t, parse[map[string]string](t, requireOK(t, scheduler(t, "version", "-o", "json"))), "version")
}

func TestCompletionIsOffered(t *testing.T) {
	require.Contains(t, requireOK(t, scheduler(t, "completion", "bash")).out, "scheduler")
	require.Contains(t, requireOK(t, scheduler(t, "__complete", "config", "")).out, "validate")
}
