//go:build clients

package clients

import "syscall"

// dieWithParent keeps a test that is killed from leaving a process at the examples' address.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
