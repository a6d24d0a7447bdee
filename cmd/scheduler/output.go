package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"delay-scheduler/app"
)

// outputFlag adds -o: a table for people, json for programs.
func outputFlag(c *cobra.Command, to *string) {
	c.Flags().StringVarP(to, "output", "o", "table", "table for people, json for programs")
	before := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		if *to != "table" && *to != "json" {
			return usageError{fmt.Errorf("--output is %q, must be table or json", *to)}
		}
		if before != nil {
			return before(c, args)
		}
		return nil
	}
}

func printJSON(w io.Writer, v any) error {
	return app.EncodeJSON(w, v)
}

// maxCell is how many characters of a text from elsewhere are shown.
const maxCell = 1000

// shown makes a text from elsewhere, such as a header's value or the answer of a server,
// fit for a line of a terminal: one line, bounded, and without anything that a terminal
// would take for a command.
func shown(s string) string {
	plain := func(c rune) bool { return c != utf8.RuneError && unicode.IsPrint(c) }
	if len(s) <= maxCell && strings.IndexFunc(s, func(c rune) bool { return !plain(c) }) < 0 {
		return s
	}
	var b strings.Builder
	n := 0
	for _, c := range s {
		if n++; n > maxCell {
			b.WriteString("...")
			break
		}
		switch {
		case plain(c):
			b.WriteRune(c)
		case c == utf8.RuneError:
			b.WriteByte('?')
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	return b.String()
}

// shownLines is shown for a text of several lines that are ours.
func shownLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = shown(lines[i])
	}
	return strings.Join(lines, "\n")
}

// printTable aligns rows under a header line. Cells may hold any text.
func printTable(w io.Writer, head []string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range append([][]string{head}, rows...) {
		cells := make([]string, len(r))
		for i := range r {
			cells[i] = shown(r[i])
		}
		if _, err := fmt.Fprintln(t, strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	return t.Flush()
}
