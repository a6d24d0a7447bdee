package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"delay-scheduler/devbroker"
)

// asScheduler in the environment makes this test binary the scheduler, so that a test
// can start one as a process of its own.
const asScheduler = "DELAY_TEST_RUN_AS_SCHEDULER"

func TestMain(m *testing.M) {
	if os.Getenv(asScheduler) != "" {
		main()
	}
	if err := os.Setenv(asScheduler, "1"); err != nil {
		panic(err)
	}
	// The client library starts this one and has no way to stop it.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

// output is what a command wrote, readable while it runs.
type output struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// result is what a command gave.
type result struct {
	code        int
	out, errOut string
}

// scheduler runs a command line to its end.
func scheduler(t *testing.T, args ...string) result {
	t.Helper()
	return schedulerWith(t, "", args...)
}

func schedulerWith(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var out, errOut output
	code := run(ctx, args, strings.NewReader(stdin), &out, &errOut)
	require.NoError(t, ctx.Err(), "scheduler %v did not end: %s", args, errOut.String())
	return result{code, out.String(), errOut.String()}
}

// requireOK is for commands that work.
func requireOK(t *testing.T, r result) result {
	t.Helper()
	require.Equal(t, exitOK, r.code, "%s%s", r.out, r.errOut)
	return r
}

// parse reads a command's -o json.
func parse[T any](t *testing.T, r result) (v T) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(r.out))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(&v), "%s%s", r.out, r.errOut)
	return v
}

// background runs a command until the test, or stop, ends it.
type background struct {
	t           *testing.T
	out, errOut *output
	cancel      context.CancelFunc
	done        chan int
}

func start(t *testing.T, args ...string) *background {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	b := &background{t: t, out: new(output), errOut: new(output), cancel: cancel, done: make(chan int, 1)}
	go func() { b.done <- run(ctx, args, strings.NewReader(""), b.out, b.errOut) }()
	t.Cleanup(func() {
		if b.cancel != nil {
			b.stop()
		}
	})
	return b
}

// stop ends the command as SIGTERM does, and gives its exit code.
func (b *background) stop() int {
	b.t.Helper()
	b.cancel()
	b.cancel = nil
	select {
	case code := <-b.done:
		return code
	case <-time.After(20 * time.Second):
		require.Fail(b.t, "the command does not stop", b.errOut.String())
		return -1
	}
}

// await waits until the command has written something.
func (b *background) await(text string) {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return strings.Contains(b.out.String()+b.errOut.String(), text) },
		20*time.Second, 10*time.Millisecond, "no %q", text)
}

// field is the value behind a name in what dev prints.
func (b *background) field(name string) string {
	b.t.Helper()
	for line := range strings.Lines(b.out.String()) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			return f[1]
		}
	}
	require.Fail(b.t, "dev does not print "+name, b.out.String())
	return ""
}

// dev starts the all-in-one process and waits until it is ready.
func dev(t *testing.T, data string, more ...string) (d *background, brokers, url string) {
	t.Helper()
	d = start(t, append([]string{"dev", "--data", data, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"}, more...)...)
	d.await("Ctrl-C stops it.")
	return d, d.field("broker"), strings.TrimSuffix(d.field("status"), "/v1/status")
}

// broker is an embedded one without a scheduler, which makes no topics by itself.
func broker(t *testing.T, topics ...string) string {
	t.Helper()
	o := devbroker.Options{}
	for _, name := range topics {
		o.Topics = append(o.Topics, devbroker.Topic{Name: name, Partitions: 2})
	}
	b, err := devbroker.Start(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b.Addr()
}

// file writes a file for one test.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
