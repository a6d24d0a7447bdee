package main

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"delay-scheduler/internal/testkafka"
)

// beCommand makes this test binary the command itself: it has to be a process of its own
// to be killed, and to start what may not outlive it.
const beCommand = "TESTKAFKA_BROKER_BE_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(beCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}

func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if ok, why := testkafka.Available(); !ok {
		t.Skip(why)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), beCommand+"=1", testkafka.EnvBrokers+"=")
	return cmd
}

// served starts the command and waits for the address that it prints.
func served(t *testing.T, cmd *exec.Cmd) (addr string) {
	t.Helper()
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	addr = strings.TrimSpace(line)
	require.True(t, listens(addr))
	return addr
}

func listens(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	return conn.Close() == nil
}

func TestBrokerStopsWhenStandardInputIsClosed(t *testing.T) {
	cmd := command(t)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	addr := served(t, cmd)

	require.NoError(t, stdin.Close())

	require.NoError(t, cmd.Wait())
	require.False(t, listens(addr))
}

func TestBrokerDiesWithAKilledProcess(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"SIGKILL": syscall.SIGKILL, "SIGTERM": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			cmd := command(t)
			_, err := cmd.StdinPipe()
			require.NoError(t, err)
			addr := served(t, cmd)

			require.NoError(t, cmd.Process.Signal(sig))
			_ = cmd.Wait()

			require.Eventually(t, func() bool { return !listens(addr) }, 10*time.Second, 20*time.Millisecond)
		})
	}
}

func TestCommandRunsWithTheBrokerAndGivesItsExitCode(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	cmd := command(t, "--", "sh", "-c", `echo "$TEST_KAFKA_BROKERS $TEST_KAFKA_VERSION" > "$0"; exit 7`, out)

	err := cmd.Run()

	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 7, exit.ExitCode())
	said, err := os.ReadFile(out)
	require.NoError(t, err)
	addr, version, _ := strings.Cut(strings.TrimSpace(string(said)), " ")
	require.Equal(t, testkafka.Version(), version)
	require.Contains(t, addr, "127.0.0.1:")
	require.False(t, listens(addr), "the broker ends with the command")
}

func TestCommandRunsWithoutABrokerAndSaysWhatWasNotProven(t *testing.T) {
	cmd := command(t, "--", "sh", "-c", `test -z "$TEST_KAFKA_BROKERS" && echo "TestX: no Java" >> "$TEST_UNPROVEN" && echo "TestX: no Java" >> "$TEST_UNPROVEN"`)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	cmd.Env = append(cmd.Env, "JAVA_HOME=/nowhere", testkafka.EnvUnproven+"=")

	require.NoError(t, cmd.Run())

	require.Contains(t, stderr.String(), "no Java on this machine")
	require.Contains(t, stderr.String(), "NOT PROVEN on this machine (1):\n  TestX: no Java\n")
}

func TestUnknownFlagIsRefused(t *testing.T) {
	cmd := command(t, "-nonsense")

	require.ErrorContains(t, cmd.Run(), "exit status 2")
}
