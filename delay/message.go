package delay

import (
	"encoding/binary"
	"math/bits"
)

// Message is a pending record in one allocation, for there may be millions:
//
//	flags      1 byte
//	numbers    varints: timestamp (zigzag), attempt, hops, length of the key, length
//	           of the value, number of headers
//	refusal    if flagged: reason and detail, each with its length before it
//	key, value
//	headers    each: length of the key, key, length of the value plus 1 or 0 for
//	           null, value
//
// It never leaves the process. What is read from it aliases it.
type Message []byte

const (
	flagKey = 1 << iota // the key is not null
	flagValue
	flagRefusal
	flagFromRules // of the refusal
)

// Pack copies a record, what it asks for, and why it is refused if it is. A nil
// request is that of a refused record.
func Pack(rec *Record, req *Request, ref *Refusal) Message {
	if req == nil {
		req = &Request{}
	}
	var reason, detail string
	var flags byte
	if rec.Key != nil {
		flags |= flagKey
	}
	if rec.Value != nil {
		flags |= flagValue
	}
	if ref != nil {
		flags |= flagRefusal
		if ref.FromRules {
			flags |= flagFromRules
		}
		reason, detail = string(ref.Reason), oneLine(ref.Detail, maxDetail)
	}
	b := make([]byte, 0, packedSize(rec, req, flags, reason, detail))
	b = append(b, flags)
	b = binary.AppendVarint(b, rec.Timestamp)
	b = binary.AppendUvarint(b, uint64(uint32(req.Attempt)))
	b = binary.AppendUvarint(b, uint64(uint32(req.Hops)))
	b = binary.AppendUvarint(b, uint64(len(rec.Key)))
	b = binary.AppendUvarint(b, uint64(len(rec.Value)))
	b = binary.AppendUvarint(b, uint64(len(rec.Headers)))
	if flags&flagRefusal != 0 {
		b = append(binary.AppendUvarint(b, uint64(len(reason))), reason...)
		b = append(binary.AppendUvarint(b, uint64(len(detail))), detail...)
	}
	b = append(b, rec.Key...)
	b = append(b, rec.Value...)
	for i := range rec.Headers {
		b = appendHeader(b, &rec.Headers[i])
	}
	return b
}

func appendHeader(b []byte, h *Header) []byte {
	b = append(binary.AppendUvarint(b, uint64(len(h.Key))), h.Key...)
	if h.Value == nil {
		return append(b, 0)
	}
	return append(binary.AppendUvarint(b, uint64(len(h.Value))+1), h.Value...)
}

func packedSize(rec *Record, req *Request, flags byte, reason, detail string) int {
	zigzag := uint64(rec.Timestamp)<<1 ^ uint64(rec.Timestamp>>63) // The encoding of AppendVarint.
	n := 1 + varintSize(zigzag) +
		varintSize(uint64(uint32(req.Attempt))) + varintSize(uint64(uint32(req.Hops))) +
		blobSize(len(rec.Key)) + blobSize(len(rec.Value)) + varintSize(uint64(len(rec.Headers)))
	if flags&flagRefusal != 0 {
		n += blobSize(len(reason)) + blobSize(len(detail))
	}
	for i := range rec.Headers {
		h := &rec.Headers[i]
		n += blobSize(len(h.Key)) + len(h.Value)
		if h.Value == nil {
			n++
		} else {
			n += varintSize(uint64(len(h.Value)) + 1)
		}
	}
	return n
}

func blobSize(n int) int { return varintSize(uint64(n)) + n }

func varintSize(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// parts are a message taken apart.
type parts struct {
	flags          byte
	timestamp      int64
	attempt, hops  int32
	headers        int
	reason, detail []byte
	key, value     []byte
	rest           []byte // the headers
}

// parts takes a message apart. A nil message, whose payload was given up, gives
// the empty parts.
func (m Message) parts() parts {
	if len(m) == 0 {
		return parts{}
	}
	r := reader{b: m}
	var p parts
	p.flags = r.take(1)[0]
	zigzag := r.uvarint()
	p.timestamp = int64(zigzag>>1) ^ -int64(zigzag&1) // The encoding of AppendVarint.
	p.attempt = int32(r.uvarint())
	p.hops = int32(r.uvarint())
	key, value := r.uvarint(), r.uvarint()
	p.headers = int(r.uvarint())
	if p.flags&flagRefusal != 0 {
		p.reason, p.detail = r.take(r.uvarint()), r.take(r.uvarint())
	}
	if k := r.take(key); p.flags&flagKey != 0 {
		p.key = k
	}
	if v := r.take(value); p.flags&flagValue != 0 {
		p.value = v
	}
	p.rest = r.b
	return p
}

// header takes the next header off the rest.
func (p *parts) header() Header {
	r := reader{b: p.rest}
	var h Header
	h.Key = r.take(r.uvarint())
	if n := r.uvarint(); n > 0 {
		h.Value = r.take(n - 1)
	}
	p.rest = r.b
	p.headers--
	return h
}

// reader takes bytes off the front. A message is only ever what Pack wrote; should
// it be something else, slicing panics here rather than a wrong record being sent.
type reader struct{ b []byte }

func (r *reader) uvarint() uint64 {
	if len(r.b) > 0 && r.b[0] < 0x80 { // nearly all of them
		v := uint64(r.b[0])
		r.b = r.b[1:]
		return v
	}
	v, n := binary.Uvarint(r.b)
	r.b = r.b[n:]
	return v
}

func (r *reader) take(n uint64) []byte {
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// Timestamp is the record's, in epoch ms.
func (m Message) Timestamp() int64 { return m.parts().timestamp }

// Attempt is the number of this retry; 0 when it is none.
func (m Message) Attempt() int32 { return m.parts().attempt }

// Hops is the value of delay-hops to write; 0 for none.
func (m Message) Hops() int32 { return m.parts().hops }

// Key is the record's; nil is null.
func (m Message) Key() []byte { return m.parts().key }

// Value is the record's; nil is null.
func (m Message) Value() []byte { return m.parts().value }

// HeaderCount says how many headers the record has. With AddedHeaders it bounds
// those of what is made of it.
func (m Message) HeaderCount() int { return m.parts().headers }

// Headers appends the record's headers to dst.
func (m Message) Headers(dst []Header) []Header {
	for p := m.parts(); p.headers > 0; {
		dst = append(dst, p.header())
	}
	return dst
}

// Refused says whether the message carries a refusal.
func (m Message) Refused() bool { return len(m) > 0 && m[0]&flagRefusal != 0 }

// Refusal is why the record is refused; nil when it is not.
func (m Message) Refusal() *Refusal {
	if !m.Refused() {
		return nil
	}
	p := m.parts()
	return &Refusal{Reason: Reason(p.reason), Detail: string(p.detail), FromRules: p.flags&flagFromRules != 0}
}

// Size is how many bytes the message takes.
func (m Message) Size() int { return len(m) }
