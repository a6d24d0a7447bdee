package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// stopWait is how long a process may take to end after SIGTERM.
const stopWait = 40 * time.Second

// process is one scheduler, started again and again in the same place.
type process struct {
	o      options
	run    string
	index  int
	listen string
	cmd    *exec.Cmd
	done   chan error
	seen   sight // of all that ran in this place
}

func (p *process) start() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("find a free port: %w", err)
	}
	p.listen = l.Addr().String()
	if err := l.Close(); err != nil {
		return err
	}
	file := filepath.Join(p.o.dir, fmt.Sprintf("scheduler-%d.yaml", p.index))
	if err := os.WriteFile(file, []byte(p.config()), 0o600); err != nil {
		return err
	}
	out, err := os.OpenFile(filepath.Join(p.o.dir, fmt.Sprintf("scheduler-%d.log", p.index)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // the process has its own
	p.cmd = exec.Command(p.o.bin, "run", "-c", file)
	if p.o.fault != "" {
		p.cmd.Env = append(os.Environ(), "SCHEDULER_FAULT="+p.o.fault)
	}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.o.bin, err)
	}
	cmd, done := p.cmd, make(chan error, 1)
	p.done = done
	go func() { done <- cmd.Wait() }()
	return nil
}

func (p *process) config() string {
	var b strings.Builder
	fmt.Fprintf(&b, "kafka:\n  brokers: [%s]\n  metadata_refresh: 1s\n", strings.ReplaceAll(p.o.brokers, ",", ", "))
	fmt.Fprintf(&b, "group:\n  id: check-%s\n  session_timeout: %s\n", p.run, p.o.sessionTimeout)
	if p.o.static {
		fmt.Fprintf(&b, "  instance_id: check-%s-%d\n", p.run, p.index)
	}
	fmt.Fprintf(&b, "sources:\n  - topics: [\"check-%s-delay\"]\n", p.run)
	fmt.Fprintf(&b, "commit:\n  interval: %s\n", p.o.commitInterval)
	fmt.Fprintf(&b, "http:\n  listen: %q\n", p.listen)
	if p.o.extra != "" {
		fmt.Fprintln(&b, strings.ReplaceAll(p.o.extra, `\n`, "\n"))
	}
	return b.String()
}

// end signals the process and waits for it; ok is false when it did not end well
// after a SIGTERM.
func (p *process) end(sig syscall.Signal) (ok bool) {
	p.seen.look(p)
	_ = p.cmd.Process.Signal(sig) // it may have ended already; then Wait says so
	select {
	case err := <-p.done:
		return sig == syscall.SIGKILL || err == nil
	case <-time.After(stopWait):
		_ = p.cmd.Process.Kill()
		if err := <-p.done; err == nil {
			return true // it ended by itself just before
		}
		return false
	}
}

// readyWait is how long a process may take to join the group.
const readyWait = 30 * time.Second

// ready waits until the process says that it is a member of the group.
func (p *process) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.listen+"/readyz", nil)
		if err != nil {
			return err
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("process %d is not ready after %v, see %s", p.index, readyWait, p.o.dir)
		}
	}
}
