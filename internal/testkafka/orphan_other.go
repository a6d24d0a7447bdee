//go:build !linux

package testkafka

import "syscall"

// dieWithParent cannot be had here: a broker whose test process was killed has to be
// ended by hand. One whose test process ends by itself is stopped as everywhere.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
