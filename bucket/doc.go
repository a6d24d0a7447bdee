// Package bucket holds the pending records of one partition by their due
// second, and accounts for the memory that all partitions together may take.
//
// An Index groups records by second, so that adding one costs a map look-up and
// an append however many are pending, and orders a second only when its first
// record is due. The edges of a second decide nothing but the grouping: a record
// leaves at its own millisecond, never before it, in the order of (due, offset).
//
// The package reads no clock, knows no client and takes no lock: time is an
// argument. An Index and an Account belong to the goroutine of one partition. The
// Budget behind the accounts is shared by all of them and is atomic.
package bucket
