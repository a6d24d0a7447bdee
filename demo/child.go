package demo

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// stopWait is how long the child may take to end after SIGTERM.
const stopWait = 15 * time.Second

// child is the scheduler, run as anybody would run it.
type child struct {
	binary string
	dir    string
	cmd    *exec.Cmd
	done   chan struct{} // closed when the process has ended
	err    error         // how; valid once done is closed
}

func (c *child) configure(brokers string) error {
	text := fmt.Sprintf(`kafka:
  brokers: [%q]
  metadata_refresh: 1s
group:
  id: demo
  instance_id: demo-0   # a killed process gets its partitions back at once
http:
  listen: "127.0.0.1:0"
log:
  format: console
`, brokers)
	return os.WriteFile(c.file(), []byte(text), 0o600)
}

func (c *child) file() string    { return filepath.Join(c.dir, "scheduler.yaml") }
func (c *child) logFile() string { return filepath.Join(c.dir, "scheduler.log") }

func (c *child) start() error {
	out, err := os.OpenFile(c.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the scheduler's log: %w", err)
	}
	defer func() { _ = out.Close() }() // the child has its own
	c.cmd = exec.Command(c.binary, "run", "-c", c.file())
	c.cmd.Stdout, c.cmd.Stderr = out, out
	if err := c.cmd.Start(); err != nil {
		return fmt.Errorf("start the scheduler: %w", err)
	}
	cmd, done := c.cmd, make(chan struct{})
	c.done = done
	go func() {
		defer close(done)
		c.err = cmd.Wait()
	}()
	return nil
}

// kill ends the child without a warning, as a crash does.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may be gone; then Wait has returned
	<-c.done
}

// ended says how a child that has ended did.
func (c *child) ended() error {
	if c.err != nil {
		return fmt.Errorf("the scheduler ended with %w, see %s", c.err, c.logFile())
	}
	return nil
}

// stop ends the child in order.
func (c *child) stop() error {
	if c.cmd == nil {
		return nil
	}
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.done:
		return c.ended()
	case <-time.After(stopWait):
		c.kill()
		return fmt.Errorf("the scheduler did not end within %v of SIGTERM, see %s", stopWait, c.logFile())
	}
}
