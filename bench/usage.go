package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// usage is what a process takes, as the kernel counts it.
type usage struct {
	resident, peak int64 // bytes
	cpu            time.Duration
}

// tick is the kernel's unit of CPU time in /proc, the same on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// usageOf reads /proc.
func usageOf(pid int) (usage, error) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	status, err := os.ReadFile(dir + "status")
	if err != nil {
		return usage{}, fmt.Errorf("read what a process takes: %w", err)
	}
	stat, err := os.ReadFile(dir + "stat")
	if err != nil {
		return usage{}, fmt.Errorf("read what a process takes: %w", err)
	}
	u, err := parseUsage(string(status), string(stat))
	if err != nil {
		return usage{}, fmt.Errorf("read what process %d takes: %w", pid, err)
	}
	return u, nil
}

func parseUsage(status, stat string) (u usage, err error) {
	if u.resident, err = sizeField(status, "VmRSS:"); err != nil {
		return u, err
	}
	if u.peak, err = sizeField(status, "VmHWM:"); err != nil {
		return u, err
	}
	// The command's name may hold anything, but it ends with the last parenthesis.
	_, rest, _ := cutLast(stat, ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return u, errors.New("the kernel tells no CPU time")
	}
	for _, field := range fields[11:13] { // utime and stime
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return u, fmt.Errorf("CPU time: %w", err)
		}
		u.cpu += time.Duration(ticks) * tick
	}
	return u, nil
}

// sizeField is a size in kB of /proc files made of lines, in bytes.
func sizeField(text, name string) (int64, error) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("there is no %s", name)
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
