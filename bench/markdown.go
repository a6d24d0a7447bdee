package main

import (
	_ "embed"
	"fmt"
	"strings"
)

// notes are written by people: what stands in the way of aims that are not reached.
//
//go:embed notes.md
var notes string

// markdown is the report for docs/benchmarks.md.
func (r *report) markdown() string {
	var b strings.Builder
	m := r.Machine
	fmt.Fprintf(&b, `# Benchmarks

Made by %s from one run and from bench/notes.md; do not edit. The ratios are of one run on one
machine and can be compared with those of another; everything else says only in which region the
figures lie.

| | |
|---|---|
| machine | %d cores, %s, %s; load average before the run %s |
| software | Apache Kafka %s (one node), %s |
| commit | %s |
| date | %s |
| command | %s |
| records | %d, each with a key of %d bytes, a value of %d and three headers, in %d partitions, unless a line says otherwise |

| figure | value | must | aim | |
|---|---|---|---|---|
`, "`make bench`", m.Cores, m.CPU, m.Memory, m.Load, m.Kafka, m.Go, m.Commit, m.Date, "`"+r.Command+"`", r.Records, keyBytes, valueBytes, partitions)
	for _, f := range r.ordered() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", f.Name, f.Text, f.Must, f.Aim, f.verdict())
	}
	fmt.Fprintf(&b, "\n%s\n\n%s\n\n## What they are\n\n", r.binding(), strings.TrimSpace(notes))
	for _, f := range r.ordered() {
		fmt.Fprintf(&b, "- **%s.** %s%s\n", f.Name, f.Note, f.single())
	}
	return b.String()
}
