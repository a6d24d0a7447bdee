package offset

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// seal makes metadata of a body that passes everything up to the checksum.
func seal(body []byte) string {
	body = append([]byte{}, body...)
	return prefix + encoding.EncodeToString(binary.LittleEndian.AppendUint32(body, crc32.Checksum(body, castagnoli)))
}

// body is what is inside metadata that decodes.
func body(tb testing.TB, metadata string) []byte {
	b, err := unwrap(metadata)
	require.NoError(tb, err)
	return b
}

// FuzzDecode gives bytes as metadata, and as the inside of metadata with a right checksum.
//
//  1. Decode, Inspect and Restore never panic and always end.
//  2. What is accepted is bounded by its length and well formed: at most eight segments
//     and sixteen lanes each, spans ascending within their segment, lanes ascending.
//  3. What is accepted says the same after it is written and read again.
//  4. A tracker that restores it stays consistent, and no record beyond its last segment
//     is done.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(""))
	f.Add([]byte("ds1.AAAA"))
	f.Add([]byte("ds2.AAAA"))
	f.Add([]byte("2024-01-01T00:00:00Z"))
	for _, s := range sampleSets() {
		m, _ := s.encode(1 << 20)
		f.Add([]byte(m))
		f.Add(body(f, m))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, m := range []string{string(data), seal(data)} {
			_, inspectErr := Inspect(m)
			s, _, err := parse(m)
			require.Equal(t, err, inspectErr)
			if err != nil {
				continue
			}
			requireWellFormed(t, s, len(m))
			requireSameWritten(t, s)
			requireRestorable(t, s)
		}
	})
}

func requireWellFormed(t *testing.T, s *Set, size int) {
	t.Helper()
	require.LessOrEqual(t, len(s.segments), maxSegments)
	from, spans := s.Offset, 0
	for _, seg := range s.segments {
		require.True(t, seg.from >= from && seg.from < seg.to && seg.to <= maxOffset)
		from = seg.from
		require.LessOrEqual(t, len(seg.lanes), maxLanes)
		for i := 1; i < len(seg.lanes); i++ {
			require.Less(t, seg.lanes[i-1].id, seg.lanes[i].id)
		}
		for _, list := range [][]span{seg.pending, seg.done} {
			end := seg.from - 1
			for _, sp := range list {
				require.True(t, sp.from > end && sp.from < sp.to)
				end = sp.to
			}
			require.LessOrEqual(t, end, seg.to)
			spans += len(list)
		}
	}
	require.LessOrEqual(t, spans, 8*size)
}

func requireSameWritten(t *testing.T, s *Set) {
	t.Helper()
	m, cut := s.encode(math.MaxInt)
	require.Equal(t, int64(math.MaxInt64), cut)
	again, err := Decode(m, s.TopicID, s.Offset)
	require.NoError(t, err)
	require.Equal(t, s, again)
}

func requireRestorable(t *testing.T, s *Set) {
	t.Helper()
	tr := New(Options{TopicID: s.TopicID, Start: s.Offset, Fingerprint: s.Fingerprint})
	tr.Restore(s)
	last := s.Offset
	for _, seg := range s.segments {
		last = max(last, seg.to)
		for _, sp := range append(seg.pending, seg.done...) {
			tr.Read(sp.from, seg.horizon.Due, 1, false)
			tr.Read(sp.to-1, seg.horizon.Due+1, 2, true)
		}
		tr.Due(seg.from, seg.horizon.Due, 1)
		tr.Complete(seg.from, seg.horizon.Due, 1)
	}
	require.NoError(t, tr.verify())
	require.LessOrEqual(t, len(tr.Encode(500).Metadata), 500)
	require.False(t, tr.Read(max(last, tr.Next()), math.MinInt64, 1, false))
	require.False(t, tr.Restoring())
	require.NoError(t, tr.verify())
}

// fuzzSource takes numbers from fuzz input, zeros when it is used up.
type fuzzSource []byte

func (s *fuzzSource) next() int64 {
	v, n := binary.Uvarint(*s)
	if n <= 0 {
		*s = nil
		return 0
	}
	*s = (*s)[n:]
	return int64(v & math.MaxInt64)
}

func (s *fuzzSource) key() Key {
	due, offset := s.next(), s.next()
	if offset%2 == 0 {
		due = -due
	}
	return Key{due, offset}
}

func (s *fuzzSource) spans(from, to int64) []span {
	var spans []span
	at := from
	for n := s.next() % 200; n > 0; n-- {
		at += s.next() % (1 << 40)
		length := 1 + s.next()%(1<<20)
		if at < from || at+length > to {
			break
		}
		if len(spans) > 0 && spans[len(spans)-1].to == at {
			spans[len(spans)-1].to += length
		} else {
			spans = append(spans, span{at, at + length})
		}
		at += length
	}
	return spans
}

func (s *fuzzSource) set() *Set {
	set := &Set{Offset: s.next() % maxOffset, Nonce: uint64(s.next()), Fingerprint: uint64(s.next())}
	from := set.Offset
	for n := s.next() % (maxSegments + 1); n > 0; n-- {
		seg := segment{from: from + s.next()%(1<<40), horizon: noKey}
		seg.to = seg.from + 1 + s.next()%(1<<50)
		if seg.to > maxOffset {
			break
		}
		from = seg.from
		flags := s.next()
		seg.stale, seg.whole = flags&1 != 0, flags&2 != 0
		if flags&4 != 0 {
			seg.horizon = s.key()
		}
		var id uint64
		for k := s.next() % (maxLanes + 1); k > 0; k-- {
			id += 1 + uint64(s.next())>>8
			seg.lanes = append(seg.lanes, laneHorizon{id, s.key()})
		}
		seg.pending = s.spans(seg.from, seg.to)
		seg.done = s.spans(seg.from, seg.to)
		set.segments = append(set.segments, seg)
	}
	return set
}

// FuzzRoundTrip writes sets made of the input in limits made of the input.
//
//  1. Without a limit, what is read is what was written.
//  2. With a limit, the metadata is never longer, and decodes unless it is empty.
//  3. Below the cut the verdicts are the same; from the cut on nothing is done.
func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte{}, 4096)
	f.Add([]byte("\x05\x01\x01\x02\x03\x20\x04\x09\x01\x01\x00\x05\x02\x03\x01\x02\x01\x02\x01\x02\x01\x02"), 100)
	f.Add([]byte("\x85\x81\x01\x01\x02\x07\x03\x20\x04\x09\x01\x01\x02\x02\x05\x02\x03\x01\x02\x01\x02\x01\x02\x01\x02"), 90)
	f.Fuzz(func(t *testing.T, data []byte, limit int) {
		src := fuzzSource(data)
		s := src.set()
		requireSameWritten(t, s)
		m, cut := s.encode(limit)
		require.LessOrEqual(t, len(m), max(limit, 0))
		if m == "" {
			return
		}
		short, err := Decode(m, s.TopicID, s.Offset)
		require.NoError(t, err)
		for _, o := range telling(s, cut) {
			for _, k := range []Key{{math.MinInt64, o}, {0, o}, {math.MaxInt64, o}} {
				for _, lane := range []uint64{0, 1, math.MaxUint64} {
					want := o < cut && says(s, o, verdict{k.Due, lane, true}, s.Fingerprint)
					got := says(short, o, verdict{k.Due, lane, true}, s.Fingerprint)
					require.Equal(t, want, got, "offset %d, cut %d", o, cut)
				}
			}
		}
	})
}

// telling are the offsets at which verdicts change.
func telling(s *Set, cut int64) []int64 {
	offsets := []int64{s.Offset}
	near := func(o int64) { offsets = append(offsets, max(o-1, 0), o, o+1) }
	if cut < maxOffset {
		near(cut)
	}
	for _, seg := range s.segments {
		near(seg.from)
		near(seg.to)
		for _, sp := range append(append([]span{}, seg.pending...), seg.done...) {
			near(sp.from)
			near(sp.to)
		}
	}
	return offsets
}

// sampleSets are sets of every shape.
func sampleSets() []*Set {
	id := TopicID{1, 2, 3}
	strewn, dense := []span{}, []span{}
	for i := range int64(300) {
		strewn = append(strewn, span{1000 + i*i*7, 1001 + i*i*7})
		dense = append(dense, span{1000 + 3*i, 1001 + 3*i + i%2})
	}
	h := Key{1_770_000_000_000, 5000}
	return []*Set{
		{TopicID: id},
		{TopicID: id, Offset: 77, Nonce: 1, Fingerprint: 2},
		{TopicID: id, Offset: 1000, segments: []segment{{from: 1000, to: 700_000, horizon: h, pending: strewn}}},
		{TopicID: id, Offset: 1000, segments: []segment{{from: 1000, to: 2000, horizon: h, done: dense}}},
		{TopicID: id, Offset: 1000, segments: []segment{
			{from: 1000, to: 2000, horizon: h, lanes: []laneHorizon{{5, h}, {9, Key{7, 7}}}},
			{from: 2000, to: 1 << 40, horizon: noKey, pending: []span{{1 << 20, 1 << 39}}, stale: true},
			{from: 2000, to: 3000, horizon: noKey, whole: true},
			{from: 2500, to: 3000, horizon: Key{Refused, 2600}},
		}},
		{TopicID: id, Offset: 77, Hold: &Hold{From: 70, Below: 1 << 40, Due: Everything}},
		{TopicID: id, Offset: 1000, Hold: &Hold{From: 1000, Below: 1200, Due: h.Due, Decided: true, Since: -5}, segments: []segment{
			{from: 1000, to: 1100, horizon: h, lanes: []laneHorizon{{HeldLane, noKey}}},
		}},
	}
}
