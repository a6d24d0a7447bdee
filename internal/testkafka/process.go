package testkafka

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// process is a JVM that dies with this process, however this process dies.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has ended and was waited for
}

// startProcess starts the command with its output appended to the file.
//
// The kernel is told to kill the child when its parent dies (see dieWithParent). To the
// kernel the parent is the thread that forked, not the process: if the Go runtime ended
// that thread, the broker would be killed in the middle of a test. So the goroutine that
// starts the child keeps its thread, and stays until the child has ended.
func startProcess(cmd *exec.Cmd, output string) (*process, error) {
	file, err := os.OpenFile(output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open a broker's output: %w", err)
	}
	cmd.Stdout, cmd.Stderr = file, file
	cmd.SysProcAttr = dieWithParent()
	p := &process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error, 1)
	go p.run(file, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

func (p *process) run(output *os.File, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.exited)
	err := p.cmd.Start()
	_ = output.Close() // The child has its own.
	started <- err
	if err == nil {
		_ = p.cmd.Wait() // How it ended is in its output.
	}
}

func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// signal does nothing to a process that has ended.
func (p *process) signal(sig syscall.Signal) {
	_ = p.cmd.Process.Signal(sig) // The one possible error is that it has ended.
}

// kill ends it with SIGKILL and waits.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.exited
}
