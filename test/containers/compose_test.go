package containers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// compose runs docker-compose on deploy/compose.yaml, which is not changed in any way.
type compose struct {
	t   *testing.T
	env []string
}

func (c compose) do(args ...string) (string, error) {
	cmd := exec.Command("docker-compose", append([]string{"--ansi", "never", "-f", "../../deploy/compose.yaml", "-p", "delay-scheduler-test"}, args...)...)
	cmd.Env = append(os.Environ(), c.env...)
	var out, progress bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &progress
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("docker-compose %s: %w\n%s%s", strings.Join(args, " "), err, &progress, &out)
	}
	return out.String(), nil
}

func (c compose) must(args ...string) string {
	c.t.Helper()
	out, err := c.do(args...)
	require.NoError(c.t, err)
	return out
}

func TestComposeFileAsItIsDeliversARecord(t *testing.T) {
	images(t)
	httpPort := freePort(t)
	c := compose{t: t, env: []string{"KAFKA_PORT=" + freePort(t), "HTTP_PORT=" + httpPort}}
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := c.do("logs", "--tail", "60")
			t.Log(out)
		}
		_, err := c.do("--profile", "sender", "down", "-v", "--timeout", "40")
		require.NoError(t, err)
	})
	c.must("up", "-d")
	ready := func() bool {
		resp, err := http.Get("http://127.0.0.1:" + httpPort + "/readyz?strict=1")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}
	require.Eventually(t, ready, time.Minute, 100*time.Millisecond, "ready and not degraded")
	require.NotContains(t, c.must("ps"), "sender", "the profile starts nothing by itself")

	t.Log(c.must("run", "--rm", "-T", "sender"))

	// A crash with a record pending: whoever waits for it gets it.
	waited := make(chan error, 1)
	go func() {
		_, err := c.do("run", "--rm", "-T", "sender", "send", "--brokers", inside, "--topic", "orders-delay", "--target", "orders",
			"--delay", "8s", "--wait", "--timeout", "60s", "pending")
		waited <- err
	}()
	require.Eventually(t, func() bool { return c.pending(httpPort) == 1 }, 30*time.Second, 50*time.Millisecond)
	c.must("kill", "-s", "KILL", "scheduler")
	c.must("up", "-d", "scheduler")
	select {
	case err := <-waited:
		require.NoError(t, err)
	case <-time.After(90 * time.Second):
		require.Fail(t, "the record did not arrive")
	}

	// It stops within its grace period, by itself.
	id := strings.TrimSpace(c.must("ps", "-q", "scheduler"))
	began := time.Now()
	c.must("stop", "scheduler")
	require.Less(t, time.Since(began), 35*time.Second)
	code, err := exec.Command("docker", "inspect", "--format", "{{.State.ExitCode}}", id).Output()
	require.NoError(t, err)
	require.Equal(t, "0", strings.TrimSpace(string(code)))
}

// pending is how many records the scheduler holds; -1 when it does not answer.
func (c compose) pending(port string) (n int) {
	resp, err := http.Get("http://127.0.0.1:" + port + "/v1/status")
	if err != nil {
		return -1
	}
	defer resp.Body.Close()
	var status struct{ Partitions []struct{ Pending int } }
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		return -1
	}
	for _, p := range status.Partitions {
		n += p.Pending
	}
	return n
}
