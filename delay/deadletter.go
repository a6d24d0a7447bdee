package delay

import (
	"slices"
	"strconv"
)

const (
	// The limits of what a pointer record takes over from the record it stands for.
	maxPointerKey     = 1 << 10
	maxPointerHeader  = 256
	maxPointerHeaders = 4 << 10
	// leastDetail is what a detail keeps when a position is added to it.
	leastDetail = 128
)

// DeadLetter makes the record for the dead-letter topic: key, value and headers
// untouched, with the reason and, unless the record says where it was born, its
// place at the end. The memory for the headers comes out of the space.
func (m Message) DeadLetter(o Origin, topic string, ref Refusal, now int64, space *Space) Outgoing {
	p := m.parts()
	headers := space.places()
	out := Outgoing{Topic: topic, Key: p.key, Value: p.value}
	born := false
	for p.headers > 0 {
		h := p.header()
		born = born || saysOrigin(h.Key)
		if !isVerdict(h.Key) {
			headers = append(headers, h)
		}
	}
	detail := oneLine(ref.Detail, maxDetail)
	if born {
		detail = withPosition(ref.Detail, "; read at ", o)
	}
	headers = appendVerdict(headers, ref.Reason, detail, now)
	if !born {
		headers = appendOrigin(headers, o)
	}
	out.Headers = space.keep(headers)
	return out
}

// Pointer makes the small record for a dead-letter topic that refuses the size:
// it says where the record is, and has no value, and of the key and the headers
// only what is small.
func (m Message) Pointer(o Origin, topic string, ref Refusal, now int64) Outgoing {
	p := m.parts()
	out := Outgoing{Topic: topic}
	if len(p.key) <= maxPointerKey {
		out.Key = p.key
	}
	born, room := false, maxPointerHeaders
	headers := make([]Header, 0, AddedHeaders+1)
	for p.headers > 0 {
		h := p.header()
		born = born || saysOrigin(h.Key)
		size := len(h.Key) + len(h.Value)
		if isVerdict(h.Key) || size > maxPointerHeader || size > room {
			continue
		}
		room -= size
		headers = append(headers, h)
	}
	what := "; too large for the dead-letter topic (" + strconv.Itoa(len(p.value)) + " bytes of value), it is at "
	headers = appendVerdict(headers, ref.Reason, withPosition(ref.Detail, what, o), now)
	if !born {
		headers = appendOrigin(headers, o)
	}
	out.Headers = append(headers, Header{Key: keyDLQPointer, Value: appendPosition(nil, o.Topic, o.Partition, o.Offset)})
	return out
}

// saysOrigin says whether a header tells where the record was born. The three are
// one statement: whoever has one of them gets none of ours, because a topic from
// there and an offset from here would point at a stranger.
func saysOrigin(key []byte) bool {
	switch string(key) {
	case HeaderOriginalTopic, HeaderOriginalPartition, HeaderOriginalOffset:
		return true
	}
	return false
}

// isVerdict says whether a header is of an earlier dead letter: each is written
// once.
func isVerdict(key []byte) bool {
	switch string(key) {
	case HeaderDLQReason, HeaderDLQDetail, HeaderDLQTime, HeaderDLQPointer:
		return true
	}
	return false
}

// withPosition adds to a detail where the record was read. The position is never
// cut.
func withPosition(detail, what string, o Origin) string {
	position := what + string(appendPosition(nil, o.Topic, o.Partition, o.Offset))
	return oneLine(detail, max(maxDetail-len(position), leastDetail)) + position
}

func appendVerdict(headers []Header, reason Reason, detail string, now int64) []Header {
	b := make([]byte, 0, len(reason)+len(detail)+digits(now))
	b = append(b, reason...)
	headers = append(headers, Header{Key: keyDLQReason, Value: slices.Clip(b)})
	from := len(b)
	b = append(b, detail...)
	headers = append(headers, Header{Key: keyDLQDetail, Value: b[from:len(b):len(b)]})
	headers, _ = appendNumber(headers, b, keyDLQTime, now)
	return headers
}

func appendOrigin(headers []Header, o Origin) []Header {
	b := make([]byte, 0, len(o.Topic)+digits(int64(o.Partition))+digits(o.Offset))
	b = append(b, o.Topic...)
	headers = append(headers, Header{Key: keyOriginalTopic, Value: slices.Clip(b)})
	headers, b = appendNumber(headers, b, keyOriginalPartition, int64(o.Partition))
	headers, _ = appendNumber(headers, b, keyOriginalOffset, o.Offset)
	return headers
}
