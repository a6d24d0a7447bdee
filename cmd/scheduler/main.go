// Command scheduler delivers Kafka records later. It parses flags, turns signals into
// contexts, and exits; what is done is in the packages that it calls.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// Exit codes, the same for every subcommand.
const (
	exitOK      = 0
	exitFailure = 1 // it was tried and did not work
	exitUsage   = 2 // flags, arguments or configuration are wrong; nothing was tried
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program but for the process around it, so that tests can run it
// with streams and a context of their own.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot(stdin, stdout, stderr)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if quiet, ok := errors.AsType[silentError](err); ok {
		return quiet.code
	}
	fmt.Fprintln(stderr, "scheduler:", shownLines(err.Error()))
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	return exitFailure
}

// usageError marks what the caller has to correct before trying again.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// silentError ends a command whose output has already said everything.
type silentError struct{ code int }

func (e silentError) Error() string { return fmt.Sprintf("exit code %d", e.code) }
