package delay

import "strconv"

// Identity is a record's delay-id, topic/partition/offset/timestamp. The
// timestamp keeps a topic that was deleted and made again from using an id twice.
func Identity(topic string, partition int32, offset, timestamp int64) string {
	return string(appendIdentity(make([]byte, 0, len(topic)+56), topic, partition, offset, timestamp))
}

func appendIdentity(b []byte, topic string, partition int32, offset, timestamp int64) []byte {
	b = append(appendPosition(b, topic, partition, offset), '/')
	return strconv.AppendInt(b, timestamp, 10)
}

func appendPosition(b []byte, topic string, partition int32, offset int64) []byte {
	b = append(append(b, topic...), '/')
	b = append(strconv.AppendInt(b, int64(partition), 10), '/')
	return strconv.AppendInt(b, offset, 10)
}

// RetryIdentity is the same for all attempts of a record whose headers say where
// it was born, whichever retry topics it passes; else it is its own position's.
// It spreads retries: it is no key, two records may have the same.
func RetryIdentity(rec *Record) uint64 {
	var topic, partition, offset []byte
	for i := range rec.Headers {
		h := &rec.Headers[i]
		switch string(h.Key) {
		case HeaderOriginalTopic:
			topic = h.Value
		case HeaderOriginalPartition:
			partition = h.Value
		case HeaderOriginalOffset:
			offset = h.Value
		case HeaderInitialOffset:
			if offset == nil {
				offset = h.Value
			}
		}
	}
	h := hash64(fnvOffset)
	if len(offset) > 0 {
		return uint64(h.bytes(topic).bytes(partition).bytes(offset))
	}
	// Without an offset the records of a topic would all wait for the same time.
	return uint64(h.text(rec.Topic).number(int64(rec.Partition)).number(rec.Offset))
}

// hash64 is FNV-1a with a separator after each part.
type hash64 uint64

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

func (h hash64) bytes(b []byte) hash64 {
	for _, c := range b {
		h = (h ^ hash64(c)) * fnvPrime
	}
	return h * fnvPrime
}

func (h hash64) text(s string) hash64 {
	for i := range len(s) {
		h = (h ^ hash64(s[i])) * fnvPrime
	}
	return h * fnvPrime
}

func (h hash64) number(n int64) hash64 {
	var b [20]byte
	return h.bytes(strconv.AppendInt(b[:0], n, 10))
}
