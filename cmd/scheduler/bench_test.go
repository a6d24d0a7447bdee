package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"delay-scheduler/app"
	"delay-scheduler/measure"
)

func TestBenchMeasuresARunningSchedulerAndItsMemory(t *testing.T) {
	t.Parallel()
	_, brokers, url := dev(t, t.TempDir())
	chart := filepath.Join(t.TempDir(), "late.svg")

	r := requireOK(t, scheduler(t, "bench", "--brokers", brokers, "--metrics", url, "--rate", "500", "--count", "400", "--delay", "uniform:100ms..600ms",
		"--partitions", "2", "--targets", "2", "--chart", chart, "--yes", "-o", "json"))

	result := parse[measure.Result](t, r)
	require.Empty(t, result.Broken())
	require.Equal(t, []int{400, 400, 2}, []int{result.Records, result.Forwarded, result.Targets})
	require.GreaterOrEqual(t, result.Copy.Records, 400)
	require.Positive(t, result.Memory.Most)
	require.Equal(t, url, result.Memory.Of)
	require.Contains(t, r.errOut, "which will be made and removed")
	svg, err := os.ReadFile(chart)
	require.NoError(t, err)
	require.Contains(t, string(svg), "400 records, uniform 100ms to 600ms, 500/s")
	// The source may be there again: dev makes whatever topic a client names, and the
	// scheduler may have asked for it while it went.
	require.NotRegexp(t, "bench-[a-z0-9]+-(target|copy|dlq)", topicNames(t, brokers))
}

func topicNames(t *testing.T, brokers string) string {
	t.Helper()
	c := client(t, brokers)
	m, err := kadm.NewClient(c).ListTopics(t.Context())
	require.NoError(t, err)
	return strings.Join(m.Names(), " ")
}

func TestBenchBringsItsOwnSchedulerWhereNoneRuns(t *testing.T) {
	t.Parallel()
	brokers := broker(t)

	r := requireOK(t, scheduler(t, "bench", "--self", "--brokers", brokers, "--rate", "0", "--count", "2000", "--delay", "instant:1s", "--value-size", "50", "--no-copy", "--yes"))

	for _, want := range []string{
		"2000 records of 50 bytes, as fast as they are taken, one instant, 1s after the start", "Nothing was early, lost, twice or refused.",
		"Memory is that of this process", "The brokers do not stamp records",
	} {
		require.Contains(t, r.out, want)
	}
	require.NotContains(t, r.out, "plain copy", "it was not asked for")
	require.Empty(t, topicNames(t, brokers))
}

// Two schedulers that read one source would forward everything twice.
func TestSourceOfTheOwnSchedulerIsReadByNoOther(t *testing.T) {
	t.Parallel()
	_, brokers, _ := dev(t, t.TempDir())

	r := requireOK(t, scheduler(t, "bench", "--self", "--brokers", brokers, "--count", "100", "--rate", "1000", "--delay", "200ms", "--yes", "-o", "json"))

	result := parse[measure.Result](t, r)
	require.Empty(t, result.Broken())
}

func TestBenchAsksBeforeItMakesTopics(t *testing.T) {
	t.Parallel()
	brokers := broker(t)

	r := scheduler(t, "bench", "--brokers", brokers)

	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.errOut, "say --yes")
	require.Regexp(t, `bench-\w+-target-1 +4 +default`, r.out)
	require.Empty(t, topicNames(t, brokers))
}

func TestBenchWithoutASchedulerSaysWhatToDo(t *testing.T) {
	t.Parallel()
	brokers := broker(t)

	r := scheduler(t, "bench", "--brokers", brokers, "--appear", "500ms", "--yes")

	require.Equal(t, exitFailure, r.code)
	for _, want := range []string{"no scheduler forwards records of the new topic within 500ms", "scheduler health", "--self"} {
		require.Contains(t, r.errOut, want)
	}
	require.Empty(t, topicNames(t, brokers))
}

func TestInterruptedBenchRemovesItsTopics(t *testing.T) {
	t.Parallel()
	brokers := broker(t)
	b := start(t, "bench", "--self", "--brokers", brokers, "--rate", "1000", "--duration", "1h", "--delay", "1h", "--yes")
	b.await("writing")

	require.Equal(t, exitFailure, b.stop())

	require.Contains(t, b.errOut.String(), "interrupted; the topics are removed")
	require.Empty(t, topicNames(t, brokers))
}

func TestConfigurationThatWouldNotForwardTheRecordsIsRefusedFirst(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"sources:\n  - topics: [orders-delay]\n":                 "no source reads it",
		"targets:\n  allow: [orders]\n":                          "TARGET_REFUSED",
		"sources:\n  - topics: ['*-delay']\n    max_delay: 5s\n": "DELAY_OUT_OF_RANGE",
	} {
		r := scheduler(t, "bench", "-c", file(t, "scheduler.yaml", text), "--brokers", "127.0.0.1:1", "--yes")
		require.Equal(t, exitUsage, r.code, r.errOut)
		require.Contains(t, r.errOut, want)
		require.Contains(t, r.errOut, "--prefix")
	}
}

func TestEveryMistakeInTheFlagsOfBenchIsNamedAtOnce(t *testing.T) {
	t.Parallel()
	r := scheduler(t, "bench", "--rate", "-1", "--count", "-2", "--duration", "-3s", "--delay", "soon", "--value-size", "3", "--partitions", "0",
		"--replication", "0", "--targets", "1000000000", "--prefix", "a b", "--appear", "0s", "--patience", "-1s", "--self", "--metrics", "x",
		"--chart", "/no/such/directory/late.svg")

	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.errOut, "13 mistakes in the flags")
	for _, flag := range []string{
		"--rate is -1", "--count is -2", "--duration is -3s", `--delay is "soon"`, "--value-size is 3", "--partitions is 0",
		"--replication is 0", "--targets is 1000000000", `--prefix is "a b"`, "--appear is 0s", "--patience is -1s", "--metrics is of a scheduler", "--chart is",
	} {
		require.Contains(t, r.errOut, "\n  "+flag)
	}
	for _, args := range []string{"--rate NaN", "--rate Inf", "--rate 1e300", "--rate 0", "--delay 25h", "--delay ''", "--metrics localhost:8080 --yes"} {
		one := scheduler(t, append([]string{"bench", "--brokers", "127.0.0.1:1"}, strings.Fields(strings.ReplaceAll(args, "''", " "))...)...)
		require.Equal(t, exitUsage, one.code, "%s: %s", args, one.errOut)
	}
}

func TestDelaysAreReadAsTheHelpSays(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]measure.Delays{
		"30s": measure.Fixed(30 * time.Second), "fixed:0s": measure.Fixed(0), "uniform:1s..1m": measure.Uniform{Least: time.Second, Most: time.Minute},
		"exponential:10s": measure.Exponential(10 * time.Second), "instant:30s": measure.Instant(30 * time.Second),
		"bimodal:1s,1m,0.9": measure.Bimodal{Near: time.Second, Far: time.Minute, Share: 0.9}, "bimodal:1s,1m": measure.Bimodal{Near: time.Second, Far: time.Minute, Share: 0.5},
	} {
		got, err := parseDelays(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got)
	}
	for _, text := range []string{
		"", "x", "fixed:", "uniform:1s", "uniform:2s..1s", "uniform:1s-2s", "exponential:0s", "instant:-1s", "bimodal:1s", "bimodal:1s,2s,3s,4", "bimodal:1s,2s,1.1",
		"bimodal:1s,2s,NaN", "poisson:1s", "fixed:25h", "1s..2s",
	} {
		_, err := parseDelays(text)
		require.ErrorIs(t, err, errDelays, text)
	}
}

func TestResultSaysWhatWasNotKept(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	r := measure.Result{
		Copy: measure.Speed{Records: 10, PerSecond: 200}, Forwards: measure.Speed{PerSecond: 150}, Partitions: 1, Targets: 2,
		Records: 10, Early: 1, EarlyMost: 7, Lost: 2, Duplicates: 3, DeadLetters: 4, RefusedReason: "LOOP: " + hostile, BrokerStamped: true, ClockBehind: 9,
		Memory: measure.Memory{Why: "nobody " + hostile},
	}
	require.NoError(t, printBench(&b, r))
	requirePlain(t, b.String())
	for _, want := range []string{
		"NOT kept: 1 early, 2 lost, 3 twice, 4 refused.", "7 ms before its time", "The first refused one: LOOP", "9 ms behind", "Memory is not known: nobody", "--metrics",
		"0.75 times as fast as the plain copy", "1 partition, 2 targets",
	} {
		require.Contains(t, b.String(), want)
	}
}

func TestBarShowsShareAndTimeLeft(t *testing.T) {
	t.Parallel()
	require.Equal(t, "[############............]  50%  writing, 5 of 10, 3s left", benchLine(measure.Progress{Phase: "writing", Done: 5, Total: 10, Left: 3 * time.Second}))
	require.Equal(t, "[########################] 100%  copying, 11 of 10", benchLine(measure.Progress{Phase: "copying", Done: 11, Total: 10, Left: -1}))
	require.Equal(t, "writing, 5 records, 2s left", benchLine(measure.Progress{Phase: "writing", Done: 5, Left: 2 * time.Second}))
	require.Equal(t, "making topics", benchLine(measure.Progress{Phase: "making topics", Left: -1}))
}

func TestMetricsOfBenchMustBeAnAddress(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, benchFailure(t.Context(), app.ErrAddress, 0), "--metrics")
}
