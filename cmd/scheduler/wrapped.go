package main

import (
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// defaultWidth is for what is no terminal, and for those that do not say.
	defaultWidth = 120
	// leastText is the least room that the last column gets.
	leastText = 40
)

// wrapped is a table whose last column is text of any length, broken between words so
// that rows stay readable on a terminal.
type wrapped struct {
	w     io.Writer
	head  []string
	rows  [][]string // all columns but the last
	texts [][]string // the last: paragraphs
	width func() int
}

// newWrapped makes a table with the given head.
func newWrapped(w io.Writer, head ...string) *wrapped {
	return &wrapped{w: w, head: head, width: func() int { return widthOf(w) }}
}

// row adds a row: paragraphs for the last column, and the cells before it. Both may hold
// any text.
func (t *wrapped) row(text []string, cells ...string) {
	text, cells = slices.Clone(text), slices.Clone(cells)
	for i := range text {
		text[i] = shown(text[i])
	}
	for i := range cells {
		cells[i] = shown(cells[i])
	}
	t.rows = append(t.rows, cells)
	t.texts = append(t.texts, text)
}

func (t *wrapped) flush() error {
	last := len(t.head) - 1
	widths := make([]int, last)
	for _, r := range append([][]string{t.head[:last]}, t.rows...) {
		for i, cell := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	indent := 0
	for _, n := range widths {
		indent += n + 2
	}
	room := max(t.width()-indent-1, leastText)
	var b strings.Builder
	line := func(cells []string, text string) {
		var l strings.Builder
		for i, n := range widths {
			cell := ""
			if cells != nil {
				cell = cells[i]
			}
			l.WriteString(cell + strings.Repeat(" ", n-utf8.RuneCountInString(cell)+2))
		}
		b.WriteString(strings.TrimRight(l.String()+text, " ") + "\n")
	}
	line(t.head[:last], t.head[last])
	for i, cells := range t.rows {
		for _, paragraph := range t.texts[i] {
			for _, text := range breakText(paragraph, room) {
				line(cells, text)
				cells = nil
			}
		}
	}
	_, err := io.WriteString(t.w, b.String())
	return err
}

// breakText breaks a text between words into lines of at most so many characters; a
// longer word, such as a command to be copied, stays in one piece.
func breakText(text string, room int) []string {
	var lines []string
	var line strings.Builder
	n := 0
	for word := range strings.FieldsSeq(text) {
		long := utf8.RuneCountInString(word)
		if n > 0 && n+1+long > room {
			lines = append(lines, line.String())
			line.Reset()
			n = 0
		}
		if n > 0 {
			line.WriteByte(' ')
			n++
		}
		line.WriteString(word)
		n += long
	}
	return append(lines, line.String())
}

// widthOf is how many characters fit into a line: the terminal's, or what COLUMNS says.
func widthOf(w io.Writer) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if f, ok := w.(*os.File); ok && isTerminal(f) {
		if n := terminalWidth(f); n > 0 {
			return n
		}
	}
	return defaultWidth
}
