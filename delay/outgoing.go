package delay

import (
	"math/bits"
	"slices"
	"strconv"
)

// Origin is where a pending record was read, and when it is due.
type Origin struct {
	Topic     string
	Partition int32
	Offset    int64
	Due       int64 // epoch ms
}

// AddedHeaders is the most that Forward and DeadLetter add to a record's own headers:
// with HeaderCount it bounds what one takes of a Space.
const AddedHeaders = 6

// Space is memory that the records of a batch share, so that none of them costs an
// allocation: places for headers, and bytes for the values that Forward writes. What does
// not fit into the rest of it gets its own. It may be nil; it belongs to one goroutine, and
// what was made in it stays valid when it is dropped.
type Space struct {
	Headers []Header
	Values  []byte
}

// places are those that are left.
func (s *Space) places() []Header {
	if s == nil {
		return nil
	}
	return s.Headers[len(s.Headers):]
}

// keep takes headers that were appended to places for a record, and gives them so that
// nobody can append into the next one's.
func (s *Space) keep(headers []Header) []Header {
	n := len(headers)
	// Where append has moved them elsewhere, the places are still free.
	if s != nil && n <= cap(s.Headers)-len(s.Headers) {
		s.Headers = s.Headers[:len(s.Headers)+n]
	}
	return headers[:n:n]
}

// bytes gives room for as many as size.
func (s *Space) bytes(size int) []byte {
	if s == nil || size > cap(s.Values)-len(s.Values) {
		return make([]byte, 0, size)
	}
	from := len(s.Values)
	s.Values = s.Values[:from+size]
	return s.Values[from : from : from+size]
}

// The names that are written, as bytes, so that writing them allocates nothing.
// Nobody may change them.
var (
	keyDelayID           = []byte(HeaderDelayID)
	keyDelayDue          = []byte(HeaderDelayDue)
	keyDelayHops         = []byte(HeaderDelayHops)
	keyRetryAttempt      = []byte(HeaderRetryAttempt)
	keyDLQReason         = []byte(HeaderDLQReason)
	keyDLQDetail         = []byte(HeaderDLQDetail)
	keyDLQTime           = []byte(HeaderDLQTime)
	keyDLQPointer        = []byte(HeaderDLQPointer)
	keyOriginalTopic     = []byte(HeaderOriginalTopic)
	keyOriginalPartition = []byte(HeaderOriginalPartition)
	keyOriginalOffset    = []byte(HeaderOriginalOffset)
)

// Forward makes the record for the target: key, value and headers byte for byte
// and in order, without the headers that were consumed and with ours at the end.
// The memory for the headers comes out of the space.
func (m Message) Forward(r *Rules, o Origin, target string, space *Space) Outgoing {
	p := m.parts()
	headers := space.places()
	out := Outgoing{Topic: target, Key: p.key, Value: p.value}
	if r.SourceTimestamp {
		out.Timestamp = p.timestamp
	}
	mark := forwardMark{attempt: p.attempt, hops: p.hops, timestamp: p.timestamp}
	for p.headers > 0 {
		if h := p.header(); !consumed(h.Key, r.KeepSchedulingHeaders) {
			headers = append(headers, h)
		}
	}
	out.Headers = space.keep(mark.appendTo(headers, o, space))
	return out
}

// consumed says whether a header ends here. Those that we write never pass, even
// where we write none: what somebody else put there would be believed.
func consumed(key []byte, keep bool) bool {
	switch string(key) {
	case HeaderDelayID, HeaderDelayDue, HeaderDelayHops, HeaderRetryAttempt:
		return true
	case HeaderTargetTopic, HeaderDelayMS, HeaderNextRetryTime, HeaderDeliverAt:
		return !keep
	}
	return false
}

// forwardMark is what Forward writes into the headers. The values stand one behind
// another.
type forwardMark struct {
	attempt, hops int32
	timestamp     int64
}

func (f *forwardMark) appendTo(headers []Header, o Origin, space *Space) []Header {
	size := len(o.Topic) + 3 + digits(int64(o.Partition)) + digits(o.Offset) + digits(f.timestamp) + digits(o.Due)
	if f.hops > 0 {
		size += digits(int64(f.hops))
	}
	if f.attempt > 0 {
		size += digits(int64(f.attempt))
	}
	b := space.bytes(size)
	b = appendIdentity(b, o.Topic, o.Partition, o.Offset, f.timestamp)
	headers = append(headers, Header{Key: keyDelayID, Value: slices.Clip(b)})
	headers, b = appendNumber(headers, b, keyDelayDue, o.Due)
	if f.hops > 0 {
		headers, b = appendNumber(headers, b, keyDelayHops, int64(f.hops))
	}
	if f.attempt > 0 {
		headers, _ = appendNumber(headers, b, keyRetryAttempt, int64(f.attempt))
	}
	return headers
}

// appendNumber appends a header whose value is put at the end of b.
func appendNumber(headers []Header, b, key []byte, n int64) ([]Header, []byte) {
	from := len(b)
	b = strconv.AppendInt(b, n, 10)
	return append(headers, Header{Key: key, Value: b[from:len(b):len(b)]}), b
}

// digits bounds the length of a number in decimal, at most one too many.
func digits(n int64) int {
	if n < 0 {
		return 20
	}
	return bits.Len64(uint64(n))*1233>>12 + 1
}
