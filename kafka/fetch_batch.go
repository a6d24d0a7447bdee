package kafka

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"delay-scheduler/delay"
)

// The form of a batch, which is also how a broker keeps it (KIP-98).
const (
	batchMagic  = 2
	lengthAt    = 8  // bytes that follow it
	magicAt     = 16 // the same place as in the forms before
	checksumAt  = 17
	coveredFrom = 21 // by the checksum; attributes
	batchHead   = 61
	// leastRecord is the least that a record takes: a byte for its length, its attributes,
	// both its deltas, the lengths of its key and value, and the count of its headers.
	leastRecord = 7
)

// Attributes of a batch.
const (
	codecMask     = 0x07
	appendTime    = 0x08
	transactional = 0x10
	control       = 0x20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batch is one batch of records as it came.
type batch struct {
	raw         []byte // with its head
	first, last int64  // offsets; what compaction left may be fewer
	attributes  uint16
	firstTime   int64 // ms
	maxTime     int64 // ms
	producer    int64
	count       int // records
}

// nextBatch gives the first batch of raw and what follows it. It is nil at the end, or
// where one is cut off or of an older form.
func nextBatch(raw []byte) (b *batch, rest []byte, err error) {
	if len(raw) <= magicAt || raw[magicAt] < batchMagic {
		return nil, nil, nil
	}
	size := int64(int32(binary.BigEndian.Uint32(raw[lengthAt:]))) + lengthAt + 4
	switch {
	case raw[magicAt] > batchMagic:
		return nil, nil, fmt.Errorf("%w: a batch of form %d, which is not known", errUndecodable, raw[magicAt])
	case size < batchHead:
		return nil, nil, fmt.Errorf("%w: a batch of %d bytes", errUndecodable, size)
	case size > int64(len(raw)):
		return nil, nil, nil
	}
	be := binary.BigEndian
	b = &batch{
		raw: raw[:size], first: int64(be.Uint64(raw)),
		attributes: be.Uint16(raw[coveredFrom:]),
		firstTime:  int64(be.Uint64(raw[27:])), maxTime: int64(be.Uint64(raw[35:])),
		producer: int64(be.Uint64(raw[43:])), count: int(int32(be.Uint32(raw[57:]))),
	}
	b.last = b.first + int64(int32(be.Uint32(raw[23:])))
	return b, raw[size:], nil
}

func (b *batch) is(attribute uint16) bool { return b.attributes&attribute != 0 }

// records are the batch's records in their written form, unpacked.
func (b *batch) records() ([]byte, error) {
	if want, is := binary.BigEndian.Uint32(b.raw[checksumAt:]), crc32.Checksum(b.raw[coveredFrom:], castagnoli); want != is {
		return nil, fmt.Errorf("%w: the batch at offset %d has checksum %08x and should have %08x", errUndecodable, b.first, is, want)
	}
	plain, err := decompress(int(b.attributes&codecMask), b.raw[batchHead:])
	if err != nil {
		return nil, fmt.Errorf("%w: the batch at offset %d: %w", errUndecodable, b.first, err)
	}
	if b.count < 0 || b.count > len(plain)/leastRecord {
		return nil, fmt.Errorf("%w: the batch at offset %d has %d records in %d bytes", errUndecodable, b.first, b.count, len(plain))
	}
	return plain, nil
}

// malformed says that a record of the batch cannot be read.
func (b *batch) malformed(n int) error {
	return fmt.Errorf("%w: record %d of the batch at offset %d is cut off or malformed", errUndecodable, n, b.first)
}

// rawRecord is a record in its written form.
type rawRecord struct {
	rest      cursor // key, value, headers
	timeDelta int64
	offset    int64
}

// nextRecord reads the head of a record, and passes it whole.
func (b *batch) nextRecord(in *cursor) (r rawRecord, ok bool) {
	r.rest = cursor{raw: in.varbytes()}
	r.rest.skip(1) // attributes: none is defined
	r.timeDelta = r.rest.varint()
	r.offset = b.first + r.rest.varint()
	return r, !in.bad && !r.rest.bad
}

// isAbort reads a control record's key: version, then type, where 0 is abort.
func (b *batch) isAbort() (bool, error) {
	plain, err := b.records()
	if err != nil || b.count == 0 {
		return false, err
	}
	in := cursor{raw: plain}
	r, ok := b.nextRecord(&in)
	if !ok {
		return false, b.malformed(0)
	}
	key := r.rest.varbytes()
	return len(key) >= 4 && binary.BigEndian.Uint16(key[2:]) == 0, nil
}

// headerSlab is what headers are cut from, so that they cost few allocations.
type headerSlab struct {
	pieces [][]delay.Header // of slabHeaders each
	begun  int              // how many of them are used, or in use
	left   []delay.Header   // of the last of those
}

// slabHeaders is how many headers are made at a time.
const slabHeaders = 1024

// cut gives n headers.
func (s *headerSlab) cut(n int) []delay.Header {
	if n > slabHeaders {
		return make([]delay.Header, n)
	}
	if n > len(s.left) {
		if s.begun == len(s.pieces) {
			s.pieces = append(s.pieces, make([]delay.Header, slabHeaders))
		}
		s.left = s.pieces[s.begun]
		s.begun++
	}
	cut := s.left[:n:n]
	s.left = s.left[n:]
	return cut
}

// reset makes all that were cut available again.
func (s *headerSlab) reset() {
	for _, piece := range s.pieces[:s.begun] {
		clear(piece)
	}
	s.begun, s.left = 0, nil
}

// fill reads the rest of a record.
func (r *rawRecord) fill(to *delay.Record, slab *headerSlab) bool {
	to.Key, to.Value = r.rest.varbytes(), r.rest.varbytes()
	n := r.rest.varint()
	if r.rest.bad || n < 0 || n > int64(r.rest.left()/2) {
		return false
	}
	if n == 0 {
		return true
	}
	to.Headers = slab.cut(int(n))
	for i := range to.Headers {
		key := r.rest.varbytes()
		if key == nil {
			return false
		}
		to.Headers[i] = delay.Header{Key: key, Value: r.rest.varbytes()}
	}
	return !r.rest.bad
}
