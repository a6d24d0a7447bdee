package offset

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"
)

// The written form: prefix, then base64url of
//
//	topic id 16, fingerprint 8, nonce 8, offset uvarint, number of segments (16 more if
//	there is a hold) uvarint, the hold, the segments, CRC-32C 4
//
// and a hold:
//
//	from - offset varint, below - offset varint, due varint, decided 1, since varint
//
// and a segment:
//
//	flags 1, from - offset uvarint, to - from uvarint,
//	if it has a horizon: due - the last segment's varint, offset - the set's varint,
//	if it has lanes: their number - 1 uvarint, and each: id 8, the horizon's due - due
//	varint, offset - the set's varint,
//	if it has them: the list pending, the list done
//
// All of it is ASCII, so that brokers that count characters and those that count bytes
// agree on the length.
const (
	prefix      = "ds1."
	headerBytes = 16 + 8 + 8
	sumBytes    = 4
	leastBytes  = headerBytes + 1 + 1 + sumBytes
	holdCount   = 16 // more than there are segments
	holdBytes   = 4*binary.MaxVarintLen64 + 1
)

const (
	flagStale = 1 << iota
	flagWhole
	flagHorizon
	flagLanes
	flagPending
	flagDone
	flagsKnown = flagStale | flagWhole | flagHorizon | flagLanes | flagPending | flagDone
)

var (
	encoding   = base64.RawURLEncoding.Strict()
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// segmentPlan is a segment with the cheapest ways to write its lists.
type segmentPlan struct {
	segment
	pending listPlan
	done    listPlan
}

// setPlan is a set that can be written up to any offset.
type setPlan struct {
	set      *Set
	segments []segmentPlan // ascending by from
	most     int           // bytes
	cut      int64         // nothing from here on is written
}

// newSetPlan plans to write what fits into a number of bytes.
func newSetPlan(s *Set, most int) setPlan {
	p := setPlan{set: s, most: most, cut: math.MaxInt64}
	segments := s.segments
	slices.SortStableFunc(segments, func(a, b segment) int {
		return Key{a.from, a.to}.Compare(Key{b.from, b.to})
	})
	if len(segments) > maxSegments {
		p.cut = segments[maxSegments].from
		segments = segments[:maxSegments]
	}
	for _, seg := range segments {
		p.segments = append(p.segments, segmentPlan{
			segment: seg,
			pending: newListPlan(p.payable(seg.pending), seg.from),
			done:    newListPlan(p.payable(seg.done), seg.from),
		})
	}
	return p
}

// payable cuts a list that cannot fit in any way: no kind takes less than two bits a span.
func (p *setPlan) payable(spans []span) []span {
	if most := 4 * p.most; len(spans) > most {
		p.cut = min(p.cut, spans[most].from)
		spans = spans[:most]
	}
	return spans
}

// fit finds the greatest cut whose size is sure to be within the limit.
func (p *setPlan) fit() {
	lo, hi := p.set.Offset, p.set.Offset
	for i := range p.segments {
		hi = max(hi, min(p.segments[i].to, p.cut))
	}
	for lo < hi {
		mid := lo + (hi-lo+1)/2
		if p.size(mid) <= int64(p.most) {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	p.cut = lo
}

// size is not less than the number of bytes written for a cut, and does not shrink as the
// cut grows.
func (p *setPlan) size(cut int64) int64 {
	n := headerBytes + varintLen(uint64(p.set.Offset)) + 1 + sumBytes
	if p.set.Hold != nil {
		n += holdBytes
	}
	for i := range p.segments {
		s := &p.segments[i]
		if s.from >= cut {
			break
		}
		n += 1 + varintLen(uint64(s.from-p.set.Offset)) + varintLen(uint64(s.to-s.from))
		n += 2*binary.MaxVarintLen64 + 1 + int64(len(s.lanes))*(8+2*binary.MaxVarintLen64)
		n += s.pending.size(cut) + s.done.size(cut)
	}
	return n
}

// append writes the set up to the cut.
func (p *setPlan) append(dst []byte) []byte {
	s := p.set
	dst = append(dst, s.TopicID[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, s.Fingerprint)
	dst = binary.LittleEndian.AppendUint64(dst, s.Nonce)
	dst = binary.AppendUvarint(dst, uint64(s.Offset))
	n := 0
	for n < len(p.segments) && p.segments[n].from < p.cut {
		n++
	}
	if s.Hold != nil {
		dst = binary.AppendUvarint(dst, uint64(n+holdCount))
		dst = s.Hold.append(dst, s.Offset)
	} else {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	var due int64
	for i := range p.segments[:n] {
		dst = p.segments[i].append(dst, s.Offset, due, p.cut)
		due = p.segments[i].nextDue(due)
	}
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst, castagnoli))
}

// append writes the hold of a set with a watermark.
func (h *Hold) append(dst []byte, offset int64) []byte {
	dst = binary.AppendVarint(dst, h.From-offset)
	dst = binary.AppendVarint(dst, h.Below-offset)
	dst = binary.AppendVarint(dst, h.Due)
	decided := byte(0)
	if h.Decided {
		decided = 1
	}
	dst = append(dst, decided)
	return binary.AppendVarint(dst, h.Since)
}

// nextDue is what the due time of the next segment's horizon is written relative to.
func (s *segment) nextDue(due int64) int64 {
	if s.horizon == noKey || s.horizon.Due == Refused {
		return due
	}
	return s.horizon.Due
}

func (s *segmentPlan) append(dst []byte, offset, due, cut int64) []byte {
	at := len(dst)
	flags := byte(0)
	dst = append(dst, flags)
	dst = binary.AppendUvarint(dst, uint64(s.from-offset))
	dst = binary.AppendUvarint(dst, uint64(min(s.to, cut)-s.from))
	if s.stale {
		flags |= flagStale
	}
	if s.whole {
		flags |= flagWhole
	}
	// Differences wrap around, and wrap back when they are read.
	if s.horizon != noKey {
		flags |= flagHorizon
		dst = binary.AppendVarint(dst, s.horizon.Due-due)
		dst = binary.AppendVarint(dst, s.horizon.Offset-offset)
	}
	if len(s.lanes) > 0 {
		flags |= flagLanes
		dst = binary.AppendUvarint(dst, uint64(len(s.lanes)-1))
		for _, l := range s.lanes {
			dst = binary.LittleEndian.AppendUint64(dst, l.id)
			dst = binary.AppendVarint(dst, s.horizon.Due-l.done.Due)
			dst = binary.AppendVarint(dst, l.done.Offset-offset)
		}
	}
	if s.pending.below(cut) > 0 {
		flags |= flagPending
		dst = s.pending.append(dst, cut)
	}
	if s.done.below(cut) > 0 {
		flags |= flagDone
		dst = s.done.append(dst, cut)
	}
	dst[at] = flags
	return dst
}

// encode writes a set in at most limit characters. It returns the cut: what the set says
// of offsets from there on is not in it.
func (s *Set) encode(limit int) (string, int64) {
	limit = min(max(limit, len(prefix)), maxMetadata)
	most := encoding.DecodedLen(limit - len(prefix))
	if most < leastBytes {
		return "", s.Offset
	}
	p := newSetPlan(s, most)
	b := p.append(nil)
	if len(b) > most {
		p.fit()
		if b = p.append(b[:0]); len(b) > most {
			return "", s.Offset // the header itself is too long
		}
	}
	return prefix + encoding.EncodeToString(b), p.cut
}
