// Package offset turns completions in any order into what can be committed: the low
// watermark of a partition and, above it, the set of what is done already.
//
// A Tracker follows one partition. It is told of every record read, of every record
// that leaves the index because it is due, and of every completion. Almost all
// completions follow due order, so the set is not a list: it is a prediction (what is
// not after a horizon of due time and offset is done) and its exceptions, which the
// tracker can name at any time without having kept the completions. Encode writes that
// as commit metadata of bounded length, Decode reads it, and a Tracker that was given a
// decoded Set answers for every record that is read again whether it was done.
//
// A Hold keeps a part of the records back until a person has decided about them; it is
// written with the set.
//
// It never reads a clock, never talks to Kafka, and starts no goroutine. A Tracker
// belongs to the goroutine that owns the partition; there are no locks. A Set is
// immutable and may be shared.
//
// What it guarantees: a record that was not completed is never said to be done, and the
// watermark never passes it, whatever was dropped for lack of room.
package offset
