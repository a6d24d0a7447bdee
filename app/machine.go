package app

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"

	"delay-scheduler/preflight"
)

// thisMachine says what memory the process may take.
func thisMachine() preflight.Machine {
	m := preflight.Machine{}
	m.MemoryLimit, m.LimitFrom = containerLimit("/")
	if os.Getenv("GOMEMLIMIT") != "" {
		// The runtime has read it; a negative argument changes nothing.
		if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
			m.GoLimit = limit
		}
	}
	return m
}

// limitFiles say how much a container may take, with control groups of version 2 and 1.
var limitFiles = []string{"sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"}

// unlimited is above what version 1 writes for no limit, in pages of 64 KiB at most.
const unlimited = math.MaxInt64 &^ (1<<20 - 1)

// containerLimit gives the limit in bytes and the file that says so; 0 is none. root
// is / but for tests.
func containerLimit(root string) (limit int64, from string) {
	for _, name := range limitFiles {
		path := filepath.Join(root, name)
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err == nil && n > 0 && n < unlimited {
			return n, path
		}
	}
	return 0, ""
}
