package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// sight is what is seen of a process just before it ends: the system keeps the most
// memory that it had, and counters only grow.
type sight struct {
	resident int64   // bytes, the most of all that ran
	used     float64 // of all that ran together
}

// look adds what is seen of a process now. One that does not answer, because it has just
// been started or has ended by itself, is left out.
func (s *sight) look(p *process) {
	if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid)); err == nil {
		s.resident = max(s.resident, int64(figure(string(text), "VmHWM:"))<<10)
	}
	if p.o.used == "" {
		return
	}
	if text, err := p.metrics(); err == nil {
		s.used += figure(text, p.o.used)
	}
}

// metrics are what the process exports.
func (p *process) metrics() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.listen+"/metrics", nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// figure is what follows a name at the start of a line; 0 when there is none.
func figure(text, name string) float64 {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) > 1 && f[0] == name {
			n, _ := strconv.ParseFloat(f[1], 64) // what is no number counts as absent
			return n
		}
	}
	return 0
}
