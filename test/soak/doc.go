// Package soak runs the product for twenty minutes under a load of every kind while it is
// disturbed, and judges at the end what arrived and all the time how much memory it took:
// nothing lost, nothing early, nothing changed, nothing twice beyond the promise, resident
// memory below what is stated and without an upward trend. See `make soak`.
//
// It knows the product as a process, its configuration, its metrics and the message
// protocol. Its parameters are environment variables: SOAK_MINUTES (20), SOAK_RATE
// (records in a second, 1000) and SOAK_SEED, which the first line of a run has.
package soak
