// Package delay knows what a delayed message is: which headers of a record ask
// for a delay or a retry and what they mean, how a pending record is kept, and
// how the record looks that is sent to its target or to a dead-letter topic.
//
// It is the only package that knows the names of headers. It has no clock and no
// client, decides nothing about when or whether to send, and keeps no state
// except a Parser's memory of target names. A Parser belongs to one goroutine;
// Rules and Messages are never changed and may be shared.
package delay
