package credential

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
)

// maxFile is far more than any of the files needs.
const maxFile = 4 << 20

// File is a value that is kept in one file, or in two that belong together.
type File[T any] struct {
	paths  []string
	parse  func(contents ...[]byte) (T, error)
	report func(error)

	mu    sync.Mutex // guards what follows
	last  [][]byte   // what value was made of
	value T
	told  string // the trouble that was reported last; "": none
}

// open reads the files for the first time. Later trouble goes to report, once for each
// cause: nil when it is over.
func open[T any](report func(error), parse func(...[]byte) (T, error), paths ...string) (*File[T], error) {
	f := &File[T]{paths: paths, parse: parse, report: report}
	contents, err := f.read()
	if err != nil {
		return nil, err
	}
	if f.value, err = parse(contents...); err != nil {
		return nil, fmt.Errorf("read %s: %w", paths[len(paths)-1], err)
	}
	f.last = contents
	return f, nil
}

// Now gives the value as it is in the files at this moment. While they cannot be read, or
// only one of two has been renewed so far, it is the last one that was good.
func (f *File[T]) Now() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	contents, err := f.read()
	if err == nil && !slices.EqualFunc(contents, f.last, bytes.Equal) {
		var value T
		if value, err = f.parse(contents...); err == nil {
			f.value, f.last = value, contents
		} else {
			err = fmt.Errorf("read %s: %w", f.paths[len(f.paths)-1], err)
		}
	}
	f.tell(err)
	return f.value
}

// tell reports what is new. The caller holds mu.
func (f *File[T]) tell(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != f.told && f.report != nil {
		f.report(err)
	}
	f.told = text
}

func (f *File[T]) read() ([][]byte, error) {
	contents := make([][]byte, len(f.paths))
	for i, path := range f.paths {
		var err error
		if contents[i], err = readFile(path); err != nil {
			return nil, err
		}
	}
	return contents, nil
}

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, cause(err))
	}
	defer func() { _ = file.Close() }() // It was only read.
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, cause(err))
	}
	if len(content) > maxFile {
		return nil, fmt.Errorf("read %s: it is larger than 4 MiB, which none of these files is", path)
	}
	return content, nil
}

// cause leaves the path out, which the caller names.
func cause(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err
	}
	return err
}
