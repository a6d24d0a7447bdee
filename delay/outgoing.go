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

// AddedHeaders is the most that Forward and DeadLetter add to a record's own
// headers: a slice with room for HeaderCount + AddedHeaders is never reallocated.
const AddedHeaders = 6

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
// The headers are appended to the given slice; the result has only the appended
// ones, so one slice can serve a whole batch.
func (m Message) Forward(r *Rules, o Origin, target string, headers []Header) Outgoing {
	p := m.parts()
	start := len(headers)
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
	headers = mark.appendTo(headers, o)
	out.Headers = headers[start:len(headers):len(headers)]
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

// forwardMark is what Forward writes into the headers. The values share one
// allocation.
type forwardMark struct {
	attempt, hops int32
	timestamp     int64
}

func (f *forwardMark) appendTo(headers []Header, o Origin) []Header {
	size := len(o.Topic) + 3 + digits(int64(o.Partition)) + digits(o.Offset) + digits(f.timestamp) + digits(o.Due)
	if f.hops > 0 {
		size += digits(int64(f.hops))
	}
	if f.attempt > 0 {
		size += digits(int64(f.attempt))
	}
	b := make([]byte, 0, size)
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
