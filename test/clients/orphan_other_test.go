//go:build clients && !linux

package clients

import "syscall"

// dieWithParent is for Linux only.
func dieWithParent() *syscall.SysProcAttr { return nil }
