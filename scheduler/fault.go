//go:build fault

package scheduler

import "os"

// Deliberate faults, chosen by the environment variable SCHEDULER_FAULT. A build
// with this tag is made by the checker's own test and by nothing else.
var (
	faultEarly      int64 // ms that records leave early
	faultCommit     = os.Getenv("SCHEDULER_FAULT") == "commit-before-ack"
	faultForget     = os.Getenv("SCHEDULER_FAULT") == "ignore-completed-set"
	faultDropHeader = os.Getenv("SCHEDULER_FAULT") == "drop-header"
)

func init() {
	if os.Getenv("SCHEDULER_FAULT") == "early" {
		faultEarly = 1
	}
}
