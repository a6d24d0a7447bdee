//go:build !fault

package scheduler

// The deliberate faults that prove test/checker are compiled in with the build tag
// fault only; here they are constants, so nothing of them is left in the program.
const (
	faultEarly      int64 = 0
	faultCommit           = false
	faultForget           = false
	faultDropHeader       = false
)
