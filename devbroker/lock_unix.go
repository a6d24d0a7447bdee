//go:build unix

package devbroker

import (
	"errors"
	"os"
	"syscall"
)

// lockFile takes the lock or fails at once.
func lockFile(name string) (*dirLock, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(&os.PathError{Op: "lock", Path: name, Err: err}, file.Close())
	}
	return &dirLock{file}, nil
}
