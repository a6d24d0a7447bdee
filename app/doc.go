// Package app wires the parts to one process, runs them, stops them in order, and
// shows over HTTP how they are.
//
// It decides nothing about records, partitions or targets. It starts every long-lived
// part and waits for each when it stops; it can be embedded (the dev command and the
// tests do) as well as run by cmd/scheduler.
package app
