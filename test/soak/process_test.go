//go:build soak

package soak

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a process may have, in MiB. It is small, so that every tier is used.
const (
	budget   = 32
	inFlight = 8
	stated   = budget*6/5 + inFlight + 80 // docs/operations.md, Memory
)

const (
	commitInterval = time.Second
	readyPatience  = 60 * time.Second
	stopPatience   = 60 * time.Second
)

// process is one scheduler, started again and again in the same place. It is used by the
// test's goroutine alone.
type process struct {
	t       *testing.T
	bin     string
	name    string
	dir     string
	config  func(listen, instance string) string
	listen  string
	cmd     *exec.Cmd // nil: it is away
	done    chan error
	peak    int64   // bytes, the most of all that ran here
	doubts  float64 // sends in doubt, of those that ended
	last    float64 // of the one that runs, as last seen
	started int
}

func (p *process) start() {
	p.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(p.t, err)
	p.listen = l.Addr().String()
	require.NoError(p.t, l.Close())
	file := filepath.Join(p.dir, p.name+".yaml")
	require.NoError(p.t, os.WriteFile(file, []byte(p.config(p.listen, p.name)), 0o600))
	out, err := os.OpenFile(filepath.Join(p.dir, p.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(p.t, err)
	defer func() { _ = out.Close() }() // the process has its own
	p.cmd = exec.Command(p.bin, "run", "-c", file)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	require.NoError(p.t, p.cmd.Start())
	cmd, done := p.cmd, make(chan error, 1)
	p.done = done
	p.started++
	go func() { done <- cmd.Wait() }()
	p.t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended, if all went well
	require.Eventually(p.t, func() bool { _, ok := p.get("/readyz"); return ok }, readyPatience, 50*time.Millisecond, "%s is not ready", p.name)
}

// end signals the process and waits for it, and gives how it ended.
func (p *process) end(sig syscall.Signal) (exit error) {
	p.t.Helper()
	p.look()
	require.NoError(p.t, p.cmd.Process.Signal(sig), "%s has ended by itself", p.name)
	select {
	case exit = <-p.done:
	case <-time.After(stopPatience):
		require.Fail(p.t, "it does not end", "%s after %v", p.name, sig)
	}
	p.doubts += p.last
	p.cmd, p.last = nil, 0
	return exit
}

// runs says that the process has not ended by itself.
func (p *process) runs() {
	p.t.Helper()
	select {
	case err := <-p.done:
		require.Fail(p.t, "it has ended by itself", "%s: %v", p.name, err)
	default:
	}
}

// sight is what is seen of a process at a time.
type sight struct {
	resident, goroutines, files, pending, far, readBack float64
}

// look judges the memory of a process that runs, and tells what else is seen.
func (p *process) look() (s sight) {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	require.NoError(p.t, err)
	p.peak = max(p.peak, int64(figure(string(text), "VmHWM:"))<<10)
	require.LessOrEqual(p.t, p.peak>>20, int64(stated), "MiB that %s had resident", p.name)
	s.resident = figure(string(text), "VmRSS:") * 1024
	metrics, ok := p.get("/metrics")
	if !ok {
		return s // it is busy; the next look will see
	}
	s.goroutines, s.files = figure(metrics, "go_goroutines"), figure(metrics, "process_open_fds")
	s.pending, s.far = total(metrics, "delay_scheduler_pending_records{"), total(metrics, "delay_scheduler_far_records{")
	s.readBack = figure(metrics, "delay_scheduler_payloads_read_back_total")
	p.last = figure(metrics, "delay_scheduler_in_doubt_records_total")
	return s
}

// get asks the process; ok is false when it does not answer, or not well.
func (p *process) get(path string) (text string, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.listen+path, nil)
	if err != nil {
		return "", false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", false
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return string(body), err == nil && resp.StatusCode == http.StatusOK
}

// figure is what follows a name at the start of a line; 0 when there is none.
func figure(text, name string) float64 {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			n, _ := strconv.ParseFloat(f[1], 64) // what is no number counts as absent
			return n
		}
	}
	return 0
}

// total adds up all series that begin so.
func total(text, prefix string) (sum float64) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(line, prefix) {
			n, _ := strconv.ParseFloat(f[len(f)-1], 64)
			sum += n
		}
	}
	return sum
}
