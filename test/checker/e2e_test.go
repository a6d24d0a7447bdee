package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"delay-scheduler/internal/testkafka"
)

// built are the builds of the product, by their tags, each made once.
var built struct {
	sync.Mutex // protects paths, and makes one test build while the others wait
	dir        string
	paths      map[string]string
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// scheduler builds the product; tags choose a build with deliberate faults.
func scheduler(t *testing.T, tags string) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if path := built.paths[tags]; path != "" {
		return path
	}
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "delay-scheduler-checker-") //nolint:usetesting // it serves all tests and is removed by TestMain
		require.NoError(t, err)
		built.dir, built.paths = dir, make(map[string]string)
	}
	path := filepath.Join(built.dir, "scheduler-"+tags)
	out, err := exec.Command("go", "build", "-tags", tags, "-o", path, "delay-scheduler/cmd/scheduler").CombinedOutput()
	require.NoError(t, err, string(out))
	built.paths[tags] = path
	return path
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

// The two large runs have the machine to themselves; the others run side by side, since
// they mostly wait. What is late is not judged, but a machine that is much too busy hides
// that something is early.

// Two hundred thousand records, two processes, five crashes and five stops: nothing
// lost, nothing early, and twice only what a crash allows.
func TestNothingIsLostEarlyOrTwiceThroughKillsAndStops(t *testing.T) {
	v := onRealBroker(t, "", "-n", "200000", "-delay", "24s", "-parts", "12", "-targets", "4", "-procs", "2", "-kill", "5", "-term", "5")
	require.True(t, v.Kept(), v)
	require.Equal(t, 200000, v.Delivered)
}

// The same where memory holds a fifth of what is pending, so that the payloads of most
// records are given up and read again, in an order of due times that has nothing to do
// with that of the log.
func TestNothingIsLostEarlyOrTwiceWhereMemoryHoldsAFifthOfWhatIsPending(t *testing.T) {
	v := onRealBroker(t, "", "-n", "150000", "-size", "1000", "-delay", "25s", "-parts", "12", "-targets", "4", "-procs", "2", "-kill", "4", "-term", "2",
		"-config", `memory:\n  budget: 32MiB\n  max_in_flight: 8MiB`, "-rss", strconv.Itoa(32*6/5+8+80), "-used", "delay_scheduler_payloads_read_back_total")
	require.True(t, v.Kept(), v)
	require.Equal(t, 150000, v.Delivered)
}

func TestNothingIsTwiceAfterStops(t *testing.T) {
	t.Parallel()
	v := onRealBroker(t, "", "-n", "40000", "-delay", "12s", "-term", "4")
	require.True(t, v.Kept(), v)
	require.Zero(t, v.Allowed+v.Forbidden)
}

// The checker itself is proven by builds that do what it has to catch.
func TestDeliberateFaultsAreCaught(t *testing.T) {
	t.Parallel()
	testkafka.Need(t)
	faults := map[string]struct {
		args   []string
		caught func(v Verdict) int
	}{
		// Few records and no waiting for company: what leaves a millisecond early has to arrive
		// within that millisecond to be caught.
		"early":                {[]string{"-n", "3000", "-config", `forward:\n  linger: 0s`}, func(v Verdict) int { return v.Early }},
		"commit-before-ack":    {[]string{"-kill", "4", "-procs", "1", "-commit-interval", "100ms", "-config", `forward:\n  linger: 500ms`}, func(v Verdict) int { return v.Lost }},
		"ignore-completed-set": {[]string{"-term", "2"}, func(v Verdict) int { return v.Forbidden }},
		"drop-header":          {nil, func(v Verdict) int { return v.Changed }},
	}
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"-fault", name, "-n", "20000", "-delay", "6s", "-procs", "2", "-grace", "8s"}, f.args...)
			// On a busy machine it may be late by more than it is early, and a kill may come
			// when nothing is under way.
			seen := false
			for range 3 {
				if seen = f.caught(onRealBroker(t, "fault", args...)) > 0; seen {
					break
				}
			}
			require.True(t, seen, "the fault was not seen")
		})
	}
}
