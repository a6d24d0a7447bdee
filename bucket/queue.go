package bucket

import "encoding/binary"

// Queue is a queue of keys, first in, first out, for records that wait overdue and
// without payload until their target is well again. Keys that ascend take two to four
// bytes each; any others survive too, at up to twenty. The zero Queue is ready. It is
// not for concurrent use.
type Queue struct {
	chunks [][]byte // the first of them is being popped, the last pushed
	read   int      // bytes of the first chunk that have been popped
	head   Key      // the last key popped
	tail   Key      // the last key pushed
	n      int
	bytes  int64 // of the chunks
}

// mostKey is the most that a key takes: two varints.
const mostKey = 2 * binary.MaxVarintLen64

// Push appends a key.
func (q *Queue) Push(k Key) {
	var b [mostKey]byte
	// The differences wrap around, and back again in Pop.
	n := binary.PutVarint(b[:], k.Due-q.tail.Due)
	n += binary.PutVarint(b[n:], k.Offset-q.tail.Offset)
	last := len(q.chunks) - 1
	switch {
	case last < 0 || len(q.chunks[last])+n > mostChunk:
		q.open()
		last = len(q.chunks) - 1
	case len(q.chunks[last])+n > cap(q.chunks[last]):
		q.bytes += int64(cap(q.chunks[last]))
		q.chunks[last] = append(make([]byte, 0, 2*cap(q.chunks[last])), q.chunks[last]...)
	}
	q.chunks[last] = append(q.chunks[last], b[:n]...)
	q.tail = k
	q.n++
}

// open begins a chunk: the first one small, the others whole.
func (q *Queue) open() {
	size := mostChunk
	if len(q.chunks) == 0 {
		size = leastChunk
	}
	q.chunks = append(q.chunks, make([]byte, 0, size))
	q.bytes += int64(size)
}

// Pop removes at most n keys and appends them to dst in the order in which they were
// pushed.
func (q *Queue) Pop(n int, dst []Key) []Key {
	for n = min(n, q.n); n > 0; n-- {
		rest := q.chunks[0][q.read:]
		due, a := binary.Varint(rest)
		offset, b := binary.Varint(rest[a:])
		q.head = Key{Due: q.head.Due + due, Offset: q.head.Offset + offset}
		dst = append(dst, q.head)
		q.n--
		if q.read += a + b; q.read == len(q.chunks[0]) {
			q.drop()
		}
	}
	return dst
}

// drop lets the first chunk go.
func (q *Queue) drop() {
	q.bytes -= int64(cap(q.chunks[0]))
	q.read = 0
	q.chunks[0] = nil
	q.chunks = q.chunks[1:]
	if q.n == 0 {
		*q = Queue{}
	}
}

// Len counts the keys.
func (q *Queue) Len() int { return q.n }

// Bytes is what the queue takes beside its own struct.
func (q *Queue) Bytes() int64 { return q.bytes + int64(cap(q.chunks))*sliceBytes }
