package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"delay-scheduler/demo"
)

func TestNothingIsLostInADemonstration(t *testing.T) {
	t.Parallel()
	binary, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	var view output

	r, err := demo.Run(ctx, demo.Options{Binary: binary, Records: 60, MaxDelay: 4 * time.Second, KillAt: 2 * time.Second, Out: &view})

	require.NoError(t, err, view.String())
	require.True(t, r.Kept(), "%+v %s", r, view.String())
	require.Equal(t, 60, r.Sent)
	require.Equal(t, 60, r.Delivered)
	require.Contains(t, view.String(), "SIGKILL")
	require.Contains(t, view.String(), "started again")
	require.NotContains(t, view.String(), "\x1b", "no terminal")
}

func TestADemonstrationThatCannotStartSaysWhy(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // its log is left for whoever wants to know more

	_, err := demo.Run(t.Context(), demo.Options{Binary: "/bin/false", Records: 1, MaxDelay: time.Second, KillAt: time.Second, Out: io.Discard})

	require.ErrorContains(t, err, "the scheduler has ended before it did anything")
	require.ErrorContains(t, err, "exit status 1")
}

func TestADemonstrationCanBeInterrupted(t *testing.T) {
	t.Parallel()
	binary, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	view := &interrupter{cancel: cancel}

	_, err = demo.Run(ctx, demo.Options{Binary: binary, Records: 10, MaxDelay: time.Minute, KillAt: time.Minute, Out: view})

	require.EqualError(t, err, "interrupted")
}

// interrupter interrupts what writes to it.
type interrupter struct{ cancel context.CancelFunc }

func (i *interrupter) Write(p []byte) (int, error) {
	i.cancel()
	return len(p), nil
}

func TestTheDemonstrationsTableSaysWhatThereIsToSay(t *testing.T) {
	t.Parallel()
	good := demo.Result{Sent: 300, Delivered: 300, Duplicates: 2, P50: 5 * time.Millisecond, P99: 12 * time.Millisecond, Max: 20 * time.Millisecond, Outage: 40, OutageLate: 1100 * time.Millisecond}
	bad := demo.Result{Sent: 300, Delivered: 299, Lost: 1}
	var b bytes.Buffer

	require.NoError(t, printDemo(&b, good))
	for _, want := range []string{"300   300        0     0      2           5 ms      12 ms     20 ms", "Nothing was lost", "40 records fell due", "1.1s late", "2 records came twice"} {
		require.Contains(t, b.String(), want)
	}
	b.Reset()
	require.NoError(t, printDemo(&b, bad))
	require.Contains(t, b.String(), "NOT kept")
	b.Reset()
	require.NoError(t, printJSON(&b, good))
	var again demo.Result
	require.NoError(t, json.Unmarshal(b.Bytes(), &again))
	require.Equal(t, good, again)
}
