// Command scheduler delivers Kafka records later. It parses flags, turns signals into
// contexts, and exits; what is done is in the packages that it calls.
package main

import (
	"errors"
	"fmt"
	"os"
)

// Exit codes, the same for every subcommand.
const (
	exitOK      = 0
	exitFailure = 1 // it was tried and did not work
	exitUsage   = 2 // flags, arguments or configuration are wrong; nothing was tried
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	root := newRoot()
	root.SetArgs(args)
	err := root.Execute()
	if err == nil {
		return exitOK
	}
	var quiet silentError
	if errors.As(err, &quiet) {
		return quiet.code
	}
	fmt.Fprintln(os.Stderr, "scheduler:", err)
	var usage usageError
	if errors.As(err, &usage) {
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
