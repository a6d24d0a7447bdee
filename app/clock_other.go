//go:build !linux

package app

import "time"

// bootTime falls back to the monotonic clock, which may stand still during a
// suspension; the service is meant to run on Linux.
func bootTime() time.Duration { return time.Since(processStart) }
