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
	require.Equal(t, 3, o.runs)
	require.Equal(t, 5000, o.rate)
	require.Equal(t, 30*time.Second, o.length)
	require.Equal(t, 35*time.Second, o.lead)
	require.Empty(t, o.brokers)
	require.Empty(t, o.only)
}

func TestListsAreSplitAtCommas(t *testing.T) {
	o, err := parse([]string{"-brokers", "a:1, b:2", "-only", "burst,steady"}, io.Discard)

	require.NoError(t, err)
	require.Equal(t, []string{"a:1", "b:2"}, o.brokers)
	require.Equal(t, []string{"burst", "steady"}, o.only)
}

func TestEveryMistakeInTheFlagsIsNamed(t *testing.T) {
	var stderr bytes.Buffer

	code := run(t.Context(), []string{"-only", "burst,bust", "-n", "0", "more"}, io.Discard, &stderr)

	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr.String(), `no measurement "bust", only burst, steady, memory, restart`)
	require.Contains(t, stderr.String(), "at least 1")
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
