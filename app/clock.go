package app

import (
	"time"

	"delay-scheduler/scheduler"
)

// processStart is the origin of elapsed time where there is no boot clock.
var processStart = time.Now()

// systemClock reads the machine's clocks.
func systemClock() scheduler.Clock {
	return scheduler.Clock{Wall: time.Now, Boot: bootTime}
}
