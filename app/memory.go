package app

import (
	"os"
	"runtime/debug"

	"go.uber.org/zap"

	"delay-scheduler/config"
)

// fixedMemory is what a process needs beside what is pending and in flight: code and
// stacks, two fetch responses of 16 MiB for a broker and what they unpack to, and the
// collector's room to work in.
const fixedMemory = 128 << 20

// limitMemory tells the garbage collector how much memory the process is meant to
// take. Without a limit it would let the heap grow to twice what is alive, and
// memory.budget would be half of a promise. GOMEMLIMIT overrides it.
func limitMemory(c *config.Config, log *zap.Logger) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	limit := memoryNeed(c)
	debug.SetMemoryLimit(limit)
	log.Info("memory limit set", zap.Int64("bytes", limit))
}

// memoryNeed is what the process may take in all.
func memoryNeed(c *config.Config) int64 {
	return int64(c.Memory.Budget) + 2*int64(c.Memory.MaxInFlight) + fixedMemory
}
