// Package demo shows the main job in twenty seconds and without any configuration:
// an embedded broker, a scheduler as a child process, records with different delays,
// a SIGKILL in the middle, and a count of what arrived.
//
// It is a user of the product like any other: it knows the child by its command line
// and its configuration file, and judges by what reaches the targets. One goroutine
// produces, one for each target partition reads, and one owns the tally; Run starts
// them and waits for them.
package demo
