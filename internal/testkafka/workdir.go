package testkafka

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// workdir is a directory that is removed with its cluster, or, when the test process was
// killed, by the next one that makes a workdir. A lock that the kernel drops with the
// process tells which ones nobody uses.
type workdir struct {
	path string
	lock *os.File
}

const (
	workdirPrefix = "delay-scheduler-kafka-"
	lockName      = "lock"
)

func newWorkdir() (*workdir, error) {
	sweepWorkdirs()
	for {
		w, err := makeWorkdir()
		if err != nil {
			return nil, err
		}
		// Another process may have swept it between the making of the lock file and the
		// locking of it.
		if _, err := os.Stat(filepath.Join(w.path, lockName)); err == nil {
			return w, nil
		}
		if err := w.lock.Close(); err != nil {
			return nil, fmt.Errorf("close a lock: %w", err)
		}
	}
}

func makeWorkdir() (*workdir, error) {
	path, err := os.MkdirTemp("", workdirPrefix)
	if err != nil {
		return nil, fmt.Errorf("make a directory for a broker: %w", err)
	}
	lock, err := lockFile(filepath.Join(path, lockName), syscall.LOCK_EX)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return &workdir{path, lock}, nil
}

func (w *workdir) remove() error {
	return errors.Join(os.RemoveAll(w.path), w.lock.Close())
}

// sweepWorkdirs removes what killed test processes left. A directory without a lock file
// is one that is being made this moment.
func sweepWorkdirs() {
	paths, err := filepath.Glob(filepath.Join(os.TempDir(), workdirPrefix+"*", lockName))
	if err != nil {
		return
	}
	for _, path := range paths {
		lock, err := lockFile(path, syscall.LOCK_EX|syscall.LOCK_NB)
		if err != nil {
			continue
		}
		_ = os.RemoveAll(filepath.Dir(path)) // Somebody else may be sweeping it too.
		_ = lock.Close()
	}
}

// lockFile makes the file and locks it until it is closed or the process ends.
func lockFile(path string, how int) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open a lock: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), how); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
	}
	return file, nil
}
