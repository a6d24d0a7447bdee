package devbroker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// lockName is the file that says that a directory is in use. It stays when the broker ends.
const lockName = ".lock"

// openDataDir makes sure that the directory is there, can be written, and is nobody
// else's, before the broker relies on it: later, a failed write would only be a
// refused produce request that names nothing.
func openDataDir(dir string) (*dirLock, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, dataDirError(dir, "cannot be made", err)
	}
	probe, err := os.CreateTemp(dir, ".probe-")
	if err != nil {
		return nil, dataDirError(dir, "cannot be written", err)
	}
	_, writeErr := probe.Write(make([]byte, 4096))
	if err := errors.Join(writeErr, probe.Sync(), probe.Close(), os.Remove(probe.Name())); err != nil {
		return nil, dataDirError(dir, "cannot be written", err)
	}
	lock, err := lockFile(filepath.Join(dir, lockName))
	if err != nil {
		return nil, dataDirError(dir, "is in use by another process", err)
	}
	return lock, nil
}

func dataDirError(dir, what string, err error) error {
	return fmt.Errorf("data directory %s %s: choose another one with --data DIR: %w", dir, what, err)
}

// dirLock is a lock that ends with the process, however that ends. The nil lock locks nothing.
type dirLock struct{ file *os.File }

func (l *dirLock) release() error {
	if l == nil || l.file == nil {
		return nil
	}
	return l.file.Close()
}
