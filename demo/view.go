package demo

import (
	"fmt"
	"time"
)

// draw shows how it stands: one line that is redrawn on a terminal, a new line now
// and then elsewhere.
func (s *show) draw() {
	now := time.Now()
	// Less than 80 columns: a line that wraps cannot be redrawn.
	line := fmt.Sprintf("%4.1fs  sent %3d  pending %3d  forwarded %3d  worst late %4d ms  scheduler %s",
		now.Sub(s.began).Seconds(), len(s.tally.due), s.pending(), len(s.tally.first), s.tally.worst.Milliseconds(), s.state)
	if s.o.Live {
		fmt.Fprintf(s.o.Out, "\r\x1b[K%s", line)
		return
	}
	if now.Sub(s.drawn) >= lineEvery {
		s.drawn = now
		fmt.Fprintln(s.o.Out, line)
	}
}

// say adds a line of its own.
func (s *show) say(format string, args ...any) {
	if s.o.Live {
		fmt.Fprint(s.o.Out, "\r\x1b[K")
	}
	fmt.Fprintf(s.o.Out, "%4.1fs  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

func (s *show) finish() {
	if s.o.Live {
		fmt.Fprintln(s.o.Out)
	}
}
