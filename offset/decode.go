package offset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"strings"
)

// What is wrong with commit metadata. Whatever it is, nothing is known to be done above
// the committed offset.
var (
	// ErrNone: there is none.
	ErrNone = errors.New("no commit metadata")
	// ErrForeign: somebody else wrote it.
	ErrForeign = errors.New("commit metadata of another program")
	// ErrVersion: another version of this program wrote it.
	ErrVersion = errors.New("commit metadata of an unknown version")
	// ErrDamaged: it is not as it was written.
	ErrDamaged = errors.New("damaged commit metadata")
	// ErrOtherTopic: the topic was deleted and made again since.
	ErrOtherTopic = errors.New("commit metadata of another topic of the same name")
	// ErrOtherOffset: the offset was moved, and the metadata was left.
	ErrOtherOffset = errors.New("commit metadata of another offset")
)

const (
	// maxOffset bounds the offsets in metadata, far from where sums overflow.
	maxOffset = int64(1) << 60
	// maxMetadata bounds what is looked at; brokers keep 4096 characters by default.
	maxMetadata = 1 << 24
)

// Decode reads the metadata that was committed with an offset of a topic.
func Decode(metadata string, id TopicID, committed int64) (*Set, error) {
	s, _, err := parse(metadata)
	if err != nil {
		return nil, err
	}
	if s.TopicID != id {
		return nil, fmt.Errorf("%w: written for topic id %s, this one is %s", ErrOtherTopic, s.TopicID, id)
	}
	if s.Offset != committed {
		return nil, fmt.Errorf("%w: written with offset %d, committed is %d", ErrOtherOffset, s.Offset, committed)
	}
	return s, nil
}

// parse reads metadata and how it was written.
func parse(metadata string) (*Set, []layout, error) {
	body, err := unwrap(metadata)
	if err != nil {
		return nil, nil, err
	}
	r := reader{rest: body}
	s := &Set{}
	copy(s.TopicID[:], r.bytes(len(s.TopicID)))
	s.Fingerprint = r.uint64()
	s.Nonce = r.uint64()
	s.Offset = r.offset()
	n := r.count(holdCount + maxSegments)
	if n >= holdCount {
		s.Hold = r.hold(s.Offset)
		n -= holdCount
	}
	if n > maxSegments {
		r.fail()
		n = 0
	}
	var (
		layouts []layout
		due     int64
		from    = s.Offset
	)
	for range n {
		size := len(r.rest)
		var lay layout
		seg := r.segment(s.Offset, due, &lay)
		if r.bad || seg.from < from {
			return nil, nil, fmt.Errorf("%w: segment %d", ErrDamaged, len(layouts)+1)
		}
		lay.bytes = size - len(r.rest)
		due, from = seg.nextDue(due), seg.from
		s.segments = append(s.segments, seg)
		layouts = append(layouts, lay)
	}
	if r.bad || len(r.rest) > 0 {
		return nil, nil, fmt.Errorf("%w: wrong length", ErrDamaged)
	}
	return s, layouts, nil
}

// unwrap checks all that says whether the bytes are ours, and whole.
func unwrap(metadata string) ([]byte, error) {
	if metadata == "" {
		return nil, ErrNone
	}
	text, ok := strings.CutPrefix(metadata, prefix)
	if !ok {
		if v, found := otherVersion(metadata); found {
			return nil, fmt.Errorf("%w: %s", ErrVersion, v)
		}
		return nil, ErrForeign
	}
	if len(text) > maxMetadata {
		return nil, fmt.Errorf("%w: %d characters", ErrDamaged, len(metadata))
	}
	b, err := encoding.DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return nil, fmt.Errorf("%w: not base64url", ErrDamaged)
	}
	if len(b) < leastBytes {
		return nil, fmt.Errorf("%w: cut off", ErrDamaged)
	}
	body, sum := b[:len(b)-sumBytes], binary.LittleEndian.Uint32(b[len(b)-sumBytes:])
	if crc32.Checksum(body, castagnoli) != sum {
		return nil, fmt.Errorf("%w: wrong checksum", ErrDamaged)
	}
	return body, nil
}

// otherVersion recognises our prefix with another number.
func otherVersion(metadata string) (string, bool) {
	head, _, ok := strings.Cut(metadata, ".")
	digits, ours := strings.CutPrefix(head, "ds")
	if !ok || !ours || digits == "" || len(digits) > 4 || strings.Trim(digits, "0123456789") != "" {
		return "", false
	}
	return digits, true
}

// reader reads a set. After the first thing that is wrong it is bad, and everything that
// it returns is zero.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) fail() {
	r.bad = true
	r.rest = nil
}

func (r *reader) bytes(n int) []byte {
	if n > len(r.rest) {
		r.fail()
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// offset reads an offset, or a difference of two.
func (r *reader) offset() int64 {
	v := r.uvarint()
	if v > uint64(maxOffset) {
		r.fail()
		return 0
	}
	return int64(v)
}

// count reads a number of things of which there are not more than most.
func (r *reader) count(most int) int {
	v := r.uvarint()
	if v > uint64(most) {
		r.fail()
		return 0
	}
	return int(v)
}

func (r *reader) hold(offset int64) *Hold {
	h := &Hold{From: r.varint() + offset, Below: r.varint() + offset, Due: r.varint()}
	decided := r.byte()
	h.Since = r.varint()
	h.Decided = decided == 1
	if decided > 1 || h.From < 0 || h.Below < h.From || h.Below > maxOffset {
		r.fail()
	}
	return h
}

func (r *reader) segment(offset, due int64, lay *layout) segment {
	flags := r.byte()
	if flags&^flagsKnown != 0 {
		r.fail()
	}
	s := segment{horizon: noKey, stale: flags&flagStale != 0, whole: flags&flagWhole != 0}
	s.from = offset + r.offset()
	s.to = s.from + r.offset()
	if s.to <= s.from || s.to > maxOffset {
		r.fail()
	}
	if flags&flagHorizon != 0 {
		s.horizon = Key{Due: r.varint() + due, Offset: r.varint() + offset}
	}
	if flags&flagLanes != 0 {
		s.lanes = r.lanes(s.horizon.Due, offset)
	}
	if flags&flagPending != 0 {
		s.pending = r.list(s.from, s.to, &lay.pending)
	}
	if flags&flagDone != 0 {
		s.done = r.list(s.from, s.to, &lay.done)
	}
	return s
}

func (r *reader) lanes(due, offset int64) []laneHorizon {
	n := r.count(maxLanes-1) + 1
	var lanes []laneHorizon
	for range n {
		id := r.uint64()
		l := laneHorizon{id: id, done: Key{Due: due - r.varint(), Offset: r.varint() + offset}}
		if len(lanes) > 0 && id <= lanes[len(lanes)-1].id {
			r.fail()
		}
		if r.bad {
			return nil
		}
		lanes = append(lanes, l)
	}
	return lanes
}

// list reads spans, all of them within [from, to) and ascending. What it makes is
// bounded by its input: eight spans a byte at the most.
func (r *reader) list(from, to int64, kinds *[blockKinds]int) []span {
	l := listReader{reader: r, end: from, limit: to}
	blocks := r.count(math.MaxInt32)
	if blocks == 0 {
		r.fail()
	}
	for i := 0; i < blocks && !r.bad; i++ {
		kinds[l.block()%blockKinds]++
	}
	if r.bad {
		return nil
	}
	return l.spans
}
