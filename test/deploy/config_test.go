package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// effective is as much of a configuration as the manifests have to fit.
type effective struct {
	Group struct {
		InstanceID     string `json:"instance_id"`
		SessionTimeout string `json:"session_timeout"`
	}
	Memory struct {
		Budget      string
		MaxInFlight string `json:"max_in_flight"`
	}
	HTTP     struct{ Listen string }
	Shutdown struct {
		DrainTimeout string `json:"drain_timeout"`
	}
}

// load gives what the program makes of a file and an environment. A mistake or a warning
// fails the test.
func load(t *testing.T, text string, env []string) effective {
	t.Helper()
	path := filepath.Join(t.TempDir(), "scheduler.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	_, warnings := said(t, env, "config", "validate", "-c", path)
	for line := range strings.Lines(warnings) {
		// Token and certificate are secrets of whoever deploys; who reaches the port is for
		// the network policy to say.
		require.Contains(t, line, "http.token_file", "a warning of scheduler config validate")
	}
	var e effective
	require.NoError(t, yaml.Unmarshal([]byte(scheduler(t, env, "config", "show", "-c", path)), &e))
	return e
}

func (e effective) drain(t *testing.T) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(e.Shutdown.DrainTimeout)
	require.NoError(t, err)
	return d
}

// heap is the limit that the process sets for its collector, as app.limitMemory does.
func (e effective) heap(t *testing.T) int64 {
	t.Helper()
	return size(t, e.Memory.Budget)*6/5 + size(t, e.Memory.MaxInFlight) + 80<<20
}

func (e effective) port(t *testing.T) int32 {
	t.Helper()
	host, port, found := strings.Cut(e.HTTP.Listen, ":")
	require.True(t, found)
	require.Equal(t, "0.0.0.0", host, "nobody outside the container reaches it otherwise")
	n, err := strconv.Atoi(port)
	require.NoError(t, err)
	return int32(n)
}

var sizes = regexp.MustCompile(`^(\d+)([KMG]i)B$`)

func size(t *testing.T, text string) int64 {
	t.Helper()
	m := sizes.FindStringSubmatch(text)
	require.NotNil(t, m, "size %q", text)
	n, err := strconv.ParseInt(m[1], 10, 64)
	require.NoError(t, err)
	return n << map[string]int{"Ki": 10, "Mi": 20, "Gi": 30}[m[2]]
}
