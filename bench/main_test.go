package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFlagsHaveTheDefaultsOfASeriousRun(t *testing.T) {
	t.Setenv("TEST_KAFKA_BROKERS", "")

	o, err := parse(nil, io.Discard)

	require.NoError(t, err)
	require.Equal(t, 1_000_000, o.records)
	require.Equal(t, []int{10_000_000, 5_000_000}, []int{o.far, o.large})
	require.Equal(t, []int{3, 1}, []int{o.cheap(), o.long()})
	require.Equal(t, []int{10_000, 50_000}, []int{o.rate, o.fastRate})
	require.Equal(t, []time.Duration{time.Minute, time.Second, time.Minute}, []time.Duration{o.length, o.leastDelay, o.mostDelay})
	require.Equal(t, aimSpan, o.span)
	require.Equal(t, 10*time.Second, o.settle)
	require.Equal(t, 35*time.Second, o.lead)
	require.Empty(t, o.brokers)
	require.Empty(t, o.only)
}

func TestQuickRunIsSmallExceptWhereItIsToldOtherwise(t *testing.T) {
	o, err := parse([]string{"-quick", "-far", "123456"}, io.Discard)

	require.NoError(t, err)
	require.Equal(t, []int{20_000, 123_456, 10_000}, []int{o.records, o.far, o.large})
	require.Equal(t, []int{1, 1}, []int{o.cheap(), o.long()})
	require.Less(t, o.mostDelay+o.length+o.span+o.settle+o.idle+o.probe, 30*time.Second)
	require.True(t, o.partial())
}

func TestListsAreSplitAtCommas(t *testing.T) {
	o, err := parse([]string{"-brokers", "a:1, b:2", "-only", "burst,steady"}, io.Discard)

	require.NoError(t, err)
	require.Equal(t, []string{"a:1", "b:2"}, o.brokers)
	require.Equal(t, []string{"burst", "steady"}, o.only)
}

func TestEveryMistakeInTheFlagsIsNamed(t *testing.T) {
	var stderr bytes.Buffer

	code := run(t.Context(), []string{"-only", "burst,bust", "-n", "0", "-far", "3", "-runs", "-1", "-least-delay", "2m", "more"}, io.Discard, &stderr)

	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr.String(), `no measurement "bust", only burst, producer, steady, fast, memory, restart`)
	for _, want := range []string{"-n, -large", "-far has to be at least 10", "-runs is -1", "-least-delay is 2m0s and -most-delay 1m0s"} {
		require.Contains(t, stderr.String(), want)
	}
	require.Contains(t, stderr.String(), `"more" is no flag`)
}

func TestHelpIsNoFailure(t *testing.T) {
	var stderr bytes.Buffer

	require.Zero(t, run(t.Context(), []string{"-h"}, io.Discard, &stderr))
	require.Contains(t, stderr.String(), "-brokers")
}

func TestLogsAreKeptWhenTheyAreWantedAndThereAreAny(t *testing.T) {
	b := &bench{dir: t.TempDir(), stderr: io.Discard}
	log := filepath.Join(b.dir, "x.log")
	require.NoError(t, os.WriteFile(log, nil, 0o600))
	require.NoError(t, os.WriteFile(b.built(), nil, 0o600))

	require.NoError(t, b.clear(true))
	require.FileExists(t, log)
	require.NoFileExists(t, b.built())

	require.NoError(t, b.clear(false))
	require.NoDirExists(t, b.dir)
}

func TestNothingIsKeptWithoutALog(t *testing.T) {
	b := &bench{dir: t.TempDir(), stderr: io.Discard}
	require.NoError(t, b.clear(true))
	require.NoDirExists(t, b.dir)
}
