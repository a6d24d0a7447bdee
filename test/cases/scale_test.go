//go:build !long

package cases

// long runs the cases with the times of the reports (make test-long).
const long = false
