package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// isTerminal says whether somebody sits at the other end of a stream.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Intervals of the progress line.
const (
	redrawEvery = 200 * time.Millisecond
	repeatEvery = 5 * time.Second // where nothing can be redrawn
)

// progress shows how long work stands: one line that is redrawn on a terminal, a new
// line now and then elsewhere. What is over quickly shows nothing.
type progress struct {
	w     io.Writer
	live  bool
	drawn time.Time
	shown bool
}

func newProgress(w io.Writer) *progress {
	return &progress{w: w, live: isTerminal(w), drawn: time.Now()}
}

// show draws when it is time.
func (p *progress) show(now time.Time, format string, args ...any) {
	every := repeatEvery
	if p.live {
		every = redrawEvery
	}
	if now.Sub(p.drawn) < every {
		return
	}
	p.drawn = now
	if p.live {
		p.shown = true
		fmt.Fprintf(p.w, "\r\x1b[K"+format, args...)
		return
	}
	fmt.Fprintf(p.w, format+"\n", args...)
}

// clear removes the line before something else is written.
func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}

// ask puts a question to the person at the terminal. No terminal is a usage error.
func ask(in io.Reader, out io.Writer, question string) (bool, error) {
	if !isTerminal(in) {
		return false, usageError{fmt.Errorf("nobody can be asked, since standard input is no terminal: say --yes")}
	}
	fmt.Fprintf(out, "%s [y/N] ", question)
	var answer string
	if _, err := fmt.Fscanln(in, &answer); err != nil {
		return false, nil //nolint:nilerr // an empty line is a no
	}
	return strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes"), nil
}
