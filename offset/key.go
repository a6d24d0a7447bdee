package offset

import (
	"cmp"
	"encoding/base64"
	"math"
)

// TopicID is Kafka's identity of a topic: a topic that was deleted and made again has another.
type TopicID [16]byte

// String is the form in which Kafka's own tools print the id.
func (id TopicID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// Refused is the due time to give for a record that is refused, whatever its timestamp.
// Such a record leaves at once, so its key has to be before that of every record that
// waits: a timestamp, which may lie in the future, would make all that is due before it
// look as if it had left the index too.
const Refused int64 = math.MinInt64

// Key is the order in which records leave the index.
type Key struct {
	Due    int64 // epoch ms
	Offset int64
}

// noKey is before every key.
var noKey = Key{Due: math.MinInt64, Offset: math.MinInt64}

// Compare orders by due time, then by offset.
func (k Key) Compare(o Key) int {
	if c := cmp.Compare(k.Due, o.Due); c != 0 {
		return c
	}
	return cmp.Compare(k.Offset, o.Offset)
}

func (k Key) less(o Key) bool {
	return k.Due < o.Due || k.Due == o.Due && k.Offset < o.Offset
}

// before is the key right before k among those of one due time.
func (k Key) before() Key {
	return Key{Due: k.Due, Offset: k.Offset - 1}
}

func later(a, b Key) Key {
	if a.less(b) {
		return b
	}
	return a
}

func earlier(a, b Key) Key {
	if b.less(a) {
		return b
	}
	return a
}

// refusedLane is the lane of refused records. It never gets a horizon of its own: under
// other rules the record may not be refused and would be looked up in another lane.
const refusedLane uint64 = 0

// LaneOf names the lane of a target topic: 64-bit FNV-1a, the same in every process.
// Two targets that share a hash are one lane, which costs room and never correctness.
func LaneOf(target string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(target) {
		h ^= uint64(target[i])
		h *= 1099511628211
	}
	return h
}
