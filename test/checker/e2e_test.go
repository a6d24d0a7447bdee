package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"delay-scheduler/internal/testkafka"
)

// scheduler builds the product; tags choose a build with deliberate faults.
func scheduler(t *testing.T, tags string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "scheduler")
	out, err := exec.Command("go", "build", "-tags", tags, "-o", bin, "delay-scheduler/cmd/scheduler").CombinedOutput()
	require.NoError(t, err, string(out))
	return bin
}

func onRealBroker(t *testing.T, tags string, args ...string) Verdict {
	t.Helper()
	o, err := parse(append([]string{"-bin", scheduler(t, tags), "-brokers", strings.Join(testkafka.Need(t).Addrs(), ",")}, args...))
	require.NoError(t, err)
	v, err := check(t.Context(), o)
	require.NoError(t, err)
	t.Log(v)
	return v
}

// Two hundred thousand records, two processes, five crashes and five stops: nothing
// lost, nothing early, and twice only what a crash allows.
func TestNothingIsLostEarlyOrTwiceThroughKillsAndStops(t *testing.T) {
	v := onRealBroker(t, "", "-n", "200000", "-delay", "30s", "-parts", "12", "-targets", "4", "-procs", "2", "-kill", "5", "-term", "5")
	require.True(t, v.Kept(), v)
	require.Equal(t, 200000, v.Delivered)
}

func TestNothingIsTwiceAfterStops(t *testing.T) {
	v := onRealBroker(t, "", "-n", "40000", "-delay", "12s", "-term", "4")
	require.True(t, v.Kept(), v)
	require.Zero(t, v.Allowed+v.Forbidden)
}

// The checker itself is proven by builds that do what it has to catch.
func TestDeliberateFaultsAreCaught(t *testing.T) {
	testkafka.Need(t)
	faults := map[string]struct {
		args   []string
		caught func(v Verdict) int
	}{
		"early":                {nil, func(v Verdict) int { return v.Early }},
		"commit-before-ack":    {[]string{"-kill", "4", "-procs", "1", "-commit-interval", "100ms", "-config", `forward:\n  linger: 500ms`}, func(v Verdict) int { return v.Lost }},
		"ignore-completed-set": {[]string{"-term", "2"}, func(v Verdict) int { return v.Forbidden }},
		"drop-header":          {nil, func(v Verdict) int { return v.Changed }},
	}
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			t.Setenv("SCHEDULER_FAULT", name)
			args := append([]string{"-n", "20000", "-delay", "6s", "-procs", "2", "-grace", "8s"}, f.args...)
			v := onRealBroker(t, "fault", args...)
			require.NotZero(t, f.caught(v), "the fault was not seen: %v", v)
		})
	}
}
