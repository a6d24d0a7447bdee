package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const fiveMistakes = `kafka:
  brokers: [kafka]
  versoin: "3.9"
group:
  session_timeout: 5
memory:
  budget: 1KiB
forward:
  compression: brotli
`

func TestAllMistakesOfAConfigurationAreNamedOneALine(t *testing.T) {
	path := file(t, "scheduler.yaml", fiveMistakes)

	for _, command := range [][]string{{"run"}, {"config", "validate"}, {"config", "show"}, {"offsets", "show"}} {
		r := scheduler(t, append(command, "-c", path)...)

		require.Equal(t, exitUsage, r.code)
		lines := strings.Split(strings.TrimSpace(r.errOut), "\n")
		for _, mistake := range []string{
			`kafka.brokers[0] is "kafka"`, "kafka.versoin", `group.session_timeout is "5"`,
			`memory.budget is "1KiB"`, `forward.compression is "brotli"`,
		} {
			found := 0
			for _, line := range lines {
				if strings.Contains(line, mistake) {
					require.Contains(t, line, path+":", "the place in the file")
					found++
				}
			}
			require.Equal(t, 1, found, "%s in %s", mistake, r.errOut)
		}
	}
}

func TestDefaultConfigurationIsValid(t *testing.T) {
	path := file(t, "scheduler.yaml", requireOK(t, scheduler(t, "config", "default")).out)

	r := requireOK(t, scheduler(t, "config", "validate", "-c", path))

	require.Contains(t, r.out, "is valid")
	require.Empty(t, r.errOut)
}

func TestFlagsWinOverEnvironmentOverFile(t *testing.T) {
	path := file(t, "scheduler.yaml", "group: {id: from-file, instance_id: from-file}\nkafka: {client_id: from-file}\n")
	t.Setenv("SCHEDULER_GROUP_ID", "from-environment")
	t.Setenv("SCHEDULER_GROUP_INSTANCE_ID", "from-environment")

	r := requireOK(t, scheduler(t, "config", "show", "-c", path, "--group-id", "from-flag"))

	require.Contains(t, r.out, "  id: from-flag\n")
	require.Contains(t, r.out, "  instance_id: from-environment\n")
	require.Contains(t, r.out, "  client_id: from-file\n")
}

func TestWhatIsShownIsAConfiguration(t *testing.T) {
	path := file(t, "scheduler.yaml", requireOK(t, scheduler(t, "config", "show")).out)

	require.Equal(t, requireOK(t, scheduler(t, "config", "show")).out, requireOK(t, scheduler(t, "config", "show", "-c", path)).out)
}

func TestProbableMistakesAreWarnings(t *testing.T) {
	path := file(t, "scheduler.yaml", "sources: [{topics: ['*-delay']}, {topics: [orders-delay]}]\n")

	r := requireOK(t, scheduler(t, "config", "validate", "-c", path))

	require.Contains(t, r.errOut, "warning: sources[1].topics[0] (orders-delay) never decides")
}
