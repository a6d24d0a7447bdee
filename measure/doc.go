// Package measure finds out what a scheduler does on a cluster: it writes records to a
// source topic, looks at when they were appended to their targets, and copies the same
// records plainly beside it. It makes the topics that it needs and removes them.
//
// It judges by what is in the logs, never by what the scheduler says of itself, and does
// not know which scheduler it is or who started it. What it keeps is bounded: a bit for
// each record, and counts.
//
// Concurrency: Run starts what it needs and waits for it. A Sender may be used by several
// goroutines; everything else belongs to one.
package measure
