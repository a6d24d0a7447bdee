package testkafka

import "syscall"

// dieWithParent makes the kernel kill the child when this process is gone, also by
// SIGKILL. A group of its own keeps a Ctrl-C in a terminal from ending brokers before
// the tests that use them.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
