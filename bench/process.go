package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// budget of pending records: a million of ours need half of it.
	budget = "1GiB"
	// stopWait is how long a process may take to end after SIGTERM.
	stopWait = 40 * time.Second
	// readyWait is how long it may take to get its partitions on a busy machine.
	readyWait = 60 * time.Second
	// lookEvery is between two looks at its status: seldom enough to cost nothing.
	lookEvery = 50 * time.Millisecond
)

// build builds the product.
func build(ctx context.Context, bin string) error {
	out, err := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", bin, "delay-scheduler/cmd/scheduler").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build the scheduler: %w\n%s", err, out)
	}
	return nil
}

// process is the scheduler, run as anybody would run it. A killed one can be started
// again; it has a static membership, so it need not wait for its own ghost.
type process struct {
	bin, dir string
	name     string // of its group, files
	brokers  []string
	ca       string // of the brokers' certificates; "": no TLS
	source   string
	budget   string // memory.budget
	listen   string
	cmd      *exec.Cmd
	done     chan struct{} // closed when it has ended
	err      error         // how; valid once done is closed
}

// start runs the product on a source topic and waits until it has all partitions.
func (b *bench) start(ctx context.Context, source string) (*process, error) {
	return b.startOver(ctx, source, "")
}

// startWithin is start with another memory.budget.
func (b *bench) startWithin(ctx context.Context, source, budget string) (*process, error) {
	return b.begin(ctx, &process{brokers: b.cluster.brokers, source: source, budget: budget})
}

// startOver is start with every connection over TLS, if there is an authority's file.
func (b *bench) startOver(ctx context.Context, source, ca string) (*process, error) {
	p := &process{brokers: b.cluster.brokers, ca: ca, source: source, budget: budget}
	if ca != "" {
		p.brokers = b.cluster.server.ListenerAddrs(secure)
	}
	return b.begin(ctx, p)
}

// begin starts a process and waits until it has all partitions.
func (b *bench) begin(ctx context.Context, p *process) (*process, error) {
	p.bin, p.dir, p.name = b.o.bin, b.dir, p.source
	if err := p.start(ctx); err != nil {
		return nil, err
	}
	if err := p.ready(ctx); err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

func (p *process) start(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("find a free port: %w", err)
	}
	p.listen = l.Addr().String()
	if err := l.Close(); err != nil {
		return fmt.Errorf("find a free port: %w", err)
	}
	if err := writeConfig(p); err != nil {
		return err
	}
	out, err := os.OpenFile(p.file("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the scheduler's log: %w", err)
	}
	defer func() { _ = out.Close() }() // The process has its own.
	// A deadline is for getting it to run; who started it ends it.
	cmd, done := exec.CommandContext(context.WithoutCancel(ctx), p.bin, "run", "-c", p.file("yaml")), make(chan struct{})
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the scheduler: %w", err)
	}
	p.cmd, p.done = cmd, done
	go func() {
		defer close(done)
		p.err = cmd.Wait()
	}()
	return nil
}

func (p *process) file(kind string) string { return filepath.Join(p.dir, p.name+"."+kind) }

// writeConfig leaves the defaults where they matter; what is set is the budget, and
// what lets several run on one machine.
func writeConfig(p *process) error {
	text := fmt.Sprintf(`kafka:
  brokers: ["%s"]
  tls: {enabled: %t, ca_file: %q}
group:
  id: %s
  instance_id: %s-0
sources:
  - topics: [%q]
memory:
  budget: %s
http:
  listen: %q
  pprof: true
`, strings.Join(p.brokers, `", "`), p.ca != "", p.ca, p.name, p.name, p.source, p.budget, p.listen)
	if err := os.WriteFile(p.file("yaml"), []byte(text), 0o600); err != nil {
		return fmt.Errorf("configure the scheduler: %w", err)
	}
	return nil
}

// kill ends it as a crash does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // It may be gone; then Wait has returned.
	<-p.done
}

// stop ends it in order.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // As above.
	select {
	case <-p.done:
	case <-time.After(stopWait):
		p.kill()
		return fmt.Errorf("the scheduler did not end within %v of SIGTERM, see %s", stopWait, p.file("log"))
	}
	if p.err != nil {
		return fmt.Errorf("the scheduler ended badly, see %s: %w", p.file("log"), p.err)
	}
	return nil
}

// status is what is read of /v1/status.
type status struct {
	Health struct {
		Ready bool `json:"ready"`
	} `json:"health"`
	Budget struct {
		Used    int64 `json:"used_bytes"`
		Process int64 `json:"process_bytes"` // what the process is said to take at most
	} `json:"budget"`
	Partitions []struct {
		Pending int    `json:"pending"`
		Far     int    `json:"far"`
		Bytes   int64  `json:"bytes"`
		Index   int64  `json:"index_bytes"` // of these
		Fetch   string `json:"fetch"`
	} `json:"partitions"`
}

// pending is how many records the process holds.
func (s *status) pending() (n int) {
	for i := range s.Partitions {
		n += s.Partitions[i].Pending
	}
	return n
}

// far is how many of them have no payload in memory.
func (s *status) far() (n int) {
	for i := range s.Partitions {
		n += s.Partitions[i].Far
	}
	return n
}

// payload is what the others take, in bytes.
func (s *status) payload() (n int64) {
	for i := range s.Partitions {
		n += s.Partitions[i].Bytes - s.Partitions[i].Index
	}
	return n
}

func (p *process) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	return p.await(ctx, "the partitions", func(s status) bool { return s.Health.Ready && len(s.Partitions) == partitions })
}

// await looks at the status until it is as wanted.
func (p *process) await(ctx context.Context, what string, so func(status) bool) error {
	var last status
	for {
		s, err := p.status(ctx)
		if err == nil {
			if last = s; so(s) {
				return nil
			}
		}
		select {
		case <-p.done:
			return fmt.Errorf("wait for %s: the scheduler has ended (%w), see %s", what, p.err, p.file("log"))
		default:
		}
		if err := pause(ctx, lookEvery); err != nil {
			return fmt.Errorf("wait for %s: %d records are pending in %d partitions, see %s: %w", what, last.pending(), len(last.Partitions), p.file("log"), err)
		}
	}
}

func (p *process) status(ctx context.Context) (s status, err error) {
	body, err := p.get(ctx, "/v1/status")
	if err != nil {
		return s, err
	}
	defer func() { _ = body.Close() }() // It was only read.
	return s, json.NewDecoder(body).Decode(&s)
}

func (p *process) get(ctx context.Context, path string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.listen+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close() // The code says enough.
		return nil, fmt.Errorf("get %s: %s", path, resp.Status)
	}
	return resp.Body, nil
}

// profile begins to write a profile of the process, where one is asked for, and gives
// a function that waits for its end. Kind is cpu for some seconds of work, or heap.
func (b *bench) profile(ctx context.Context, p *process, kind, name string, length time.Duration) (wait func() error) {
	if b.o.profile == "" {
		return func() error { return nil }
	}
	path := "/debug/pprof/heap"
	if kind == "cpu" {
		path = fmt.Sprintf("/debug/pprof/profile?seconds=%d", int(max(length.Seconds(), 1)))
	}
	done := make(chan error, 1)
	go func() { done <- p.save(ctx, path, filepath.Join(b.o.profile, name+"."+kind+".pprof")) }()
	return func() error { return <-done }
}

func (p *process) save(ctx context.Context, path, file string) error {
	body, err := p.get(ctx, path)
	if err != nil {
		return fmt.Errorf("profile the scheduler: %w", err)
	}
	defer func() { _ = body.Close() }() // It was only read.
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("keep a profile: %w", err)
	}
	out, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("keep a profile: %w", err)
	}
	_, err = io.Copy(out, body)
	return errors.Join(err, out.Close())
}
