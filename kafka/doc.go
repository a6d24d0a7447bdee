// Package kafka is the adapter to the brokers and the only package that knows the
// client library. It reads partitions, produces, commits, takes part in the group
// and answers what the commands ask of a cluster; what it learns it says in the
// words of the packages it serves (scheduler, forward, delay).
//
// It never decides what an error means for a record, never keeps a record after
// handing it over, and reads no clock but for timeouts and backoff: nothing here
// knows when a record is due.
//
// Concurrency: every type that starts goroutines ends them in its Close (or when the
// context of its Run ends) and waits for them. Each role (fetch, group, commit,
// produce, admin) has connections of its own, because a connection serves one request
// at a time and a long poll would hold up a heartbeat.
package kafka
