// Package bucket holds the pending records of one partition by their due time, in two
// tiers, and accounts for the memory that all partitions together may take.
//
// The near tier holds records with their payloads. It groups them by second, so that
// adding one costs a map look-up and an append however many are pending, and orders a
// second only when its first record is due. The edges of a second decide nothing but
// the grouping: a record leaves at its own millisecond, never before it, in the order
// of (due, offset).
//
// The far tier holds records without payloads, in a few bytes each: what is needed to
// read them again from the log in time. A key (due, offset) divides the two, the edge:
// what is before it is near. While there is room everything is near, and the edge is
// beyond all records. It moves in two ways:
//
//   - Spill gives up the payloads of the farthest records when memory is short. The
//     records go to the far tier and the edge falls to the first of them.
//   - Draw brings the earliest far records back near, without payload yet, when they
//     will be due soon. The edge rises to the first one that stays. Whoever reads a
//     payload again gives it to its record with Fill. A record whose payload is not
//     back when it is due leaves without it, at its time, and so do records that were
//     never drawn: a missing payload delays nobody else.
//
// How the far tier does it: records lie in bins, the wider the farther away they were
// when they came (level), from 256 ms to 50 days. A bin is a list of chunks of at most
// 4 KiB, without pointers, that hold the differences from record to record in the order
// of arrival. That is nearly the order of offsets, so most of them take a byte or two.
// Each chunk knows its least and its greatest key. To take the earliest records, the
// chunk with the least key of all is looked at (far.take): if no other chunk reaches
// into it, as in a burst at one instant, it goes as a whole. Else its records go to the
// bins of the next finer level (far.split), one chunk at a time. A bin with few records
// is not split: what is taken from it too much is put back, as chunks that do not
// overlap (far.putBack). Chunks that will be needed soon are split a little ahead in
// every turn (far.ahead), so that no call has to split a bin of millions.
//
// Memory: Cost is what a near record takes by itself; Index.Bytes is everything else,
// the far tier included.
//
// The package reads no clock, knows no client and takes no lock: time is an
// argument. An Index, a Queue and an Account belong to the goroutine of one partition.
// The Budget behind the accounts is shared by all of them and is atomic.
package bucket
