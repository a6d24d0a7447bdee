package config

import (
	"errors"
	"fmt"
	"strings"
)

// FieldError is one thing that is wrong with a configuration.
type FieldError struct {
	Path  string // of the key, such as sources[1].retry.jitter
	Value string // as it was written
	Want  string // what would be right
	Where string // file and line, environment variable or flag; empty: the default
}

// Error implements error.
func (e *FieldError) Error() string {
	var b strings.Builder
	b.WriteString(e.Path)
	if e.Value != "" {
		fmt.Fprintf(&b, " is %q", shorten(e.Value))
	}
	if e.Where != "" {
		fmt.Fprintf(&b, " (%s)", e.Where)
	}
	b.WriteString(": ")
	b.WriteString(e.Want)
	return b.String()
}

// shorten keeps a value that was pasted into the wrong place from filling the screen.
func shorten(s string) string {
	const limit = 80
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "..."
}

// problems collects all that is wrong, so that nobody has to correct a file one
// mistake at a time.
type problems []*FieldError

func (p *problems) add(path, value, want string) {
	*p = append(*p, &FieldError{Path: path, Value: value, Want: want})
}

func (p problems) err() error {
	errs := make([]error, len(p))
	for i, e := range p {
		errs[i] = e
	}
	return errors.Join(errs...)
}
