package app

import (
	"os"
	"runtime/debug"

	"go.uber.org/zap"

	"delay-scheduler/config"
)

// fixedMemory is what a process needs whatever its settings are: code and stacks, the
// client's connections, and the collector's room to work in.
const fixedMemory = 80 << 20

// outsideHeap is the part of it that Go's collector does not count: the program's own
// pages, and what it notices late.
const outsideHeap = 32 << 20

const (
	// fetchShare of memory.budget is the size of one fetch response. A broker may have
	// three under way (fresh records, a rebuild, payloads read back), and each takes
	// as much again unpacked, so that all of it is a fifth of the budget.
	fetchShare = 32
	fetchLeast = 1 << 20
	fetchMost  = 16 << 20
	// partitionMost is one partition's part of a response.
	partitionMost = 1 << 20
)

// fetchBytes are the limits of a response and of one partition's part in it.
func fetchBytes(c *config.Config) (response, partition int32) {
	n := int32(min(max(int64(c.Memory.Budget)/fetchShare, fetchLeast), fetchMost))
	return n, min(n, partitionMost)
}

// limitMemory tells the garbage collector how much memory the process is meant to
// take. Without a limit it would let the heap grow to twice what is alive, and
// memory.budget would be half of a promise. GOMEMLIMIT overrides it.
func limitMemory(c *config.Config, log *zap.Logger) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	limit := memoryNeed(c) - outsideHeap
	debug.SetMemoryLimit(limit)
	log.Info("memory limit set", zap.Int64("bytes", limit))
}

// memoryNeed is what the process may take in all.
func memoryNeed(c *config.Config) int64 {
	budget := int64(c.Memory.Budget)
	return budget + budget/5 + int64(c.Memory.MaxInFlight) + fixedMemory
}
