package delay_test

import (
	"bytes"
	"encoding/binary"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"delay-scheduler/delay"
)

// FuzzParse reads records with arbitrary headers under arbitrary rules. Properties:
//
//  1. It never panics.
//  2. Never early: an accepted relative due time is base + delay, and so not before
//     base; an accepted absolute one is the number in the header. Both are computed
//     here in exact arithmetic.
//  3. An accepted due time is never after base + MaxDelay.
//  4. The same record gives the same answer, from a fresh parser, from the same
//     parser again, and whatever the parser read before.
//  5. A refusal has a known reason and a detail of one bounded line, and comes with
//     an empty request.
//  6. An accepted target is a legal name that is not internal.
//  7. A refusal without FromRules is one under every configuration.
//  8. A record whose due headers are all absent or none malformed is never refused
//     because of them: what is malformed is so by a reference reading.
func FuzzParse(f *testing.F) {
	for _, v := range []string{
		"5000", `"5000"`, be64(5000), be32(5000), "12345678", "1e30", "-100", "50ms", "9223372036854775808", "9223372036855",
		"1790000000000", "1790000000", "", "\x80", be64(-1), "\x005\x000\x000\x000",
	} {
		f.Add([]byte(v), []byte("1790000100000"), []byte("1790000200000"), []byte("a"), []byte("1"), uint16(0x39), base)
		f.Add([]byte(v), []byte(v), []byte(v), []byte("a-delay"), []byte(v), uint16(0xffff), base)
		f.Add([]byte("1"), []byte(v), []byte("1"), []byte("a"), []byte("1"), uint16(0x0a), int64(-1))
		f.Add([]byte("1"), []byte("1"), []byte("1"), []byte(v), []byte(v), uint16(0xf6ff), base)
	}
	f.Fuzz(func(t *testing.T, ms, next, deliver, target, count []byte, bits uint16, timestamp int64) {
		hs := fuzzHeaders(bits, ms, next, deliver, target, count)
		rec := &delay.Record{Topic: "a-retry", Timestamp: timestamp, Headers: hs}
		rules := fuzzRules(bits)
		p := delay.NewParser(rec.Topic, rules)
		q, ref := p.Parse(rec)
		again, refAgain := p.Parse(rec)
		require.Equal(t, q, again)
		require.Equal(t, ref, refAgain)
		_, _ = p.Parse(record("a-retry", headers("delay-ms", "1", "target-topic", "other")))
		again, refAgain = p.Parse(rec)
		require.Equal(t, q, again)
		require.Equal(t, ref, refAgain)

		if ref != nil {
			require.Zero(t, q)
			checkRefusal(t, rec, ref)
			return
		}
		checkAccepted(t, rec, rules, q)
	})
}

// fuzzHeaders makes the headers that the low bits ask for.
func fuzzHeaders(bits uint16, ms, next, deliver, target, count []byte) []delay.Header {
	var hs []delay.Header
	for i, h := range []delay.Header{
		{Key: []byte("delay-ms"), Value: ms},
		{Key: []byte("next-retry-time"), Value: next},
		{Key: []byte("deliver-at"), Value: deliver},
		{Key: []byte("target-topic"), Value: target},
		{Key: []byte("retry-count"), Value: count},
		{Key: []byte("delay-hops"), Value: count},
		{Key: []byte("original-topic"), Value: target},
		{Key: []byte("origin-time"), Value: next},
	} {
		if bits&(1<<i) != 0 {
			hs = append(hs, h)
		}
	}
	return hs
}

// fuzzRules makes the rules that the high bits ask for.
func fuzzRules(bits uint16) *delay.Rules {
	r := delayRules()
	r.Retry = bits&(1<<8) != 0
	r.AllowSources = bits&(1<<9) != 0
	r.AcceptBare = bits&(1<<10) != 0
	r.HasDelay, r.Delay = bits&(1<<11) != 0, 1500*time.Millisecond
	r.OriginTime = bits&(1<<12) != 0
	if bits&(1<<13) != 0 {
		r.MaxDelay = time.Hour
	}
	if bits&(1<<14) != 0 {
		r.MaxDelay = 1<<63 - 1
	}
	return r
}

func checkRefusal(t *testing.T, rec *delay.Record, ref *delay.Refusal) {
	require.Contains(t, delay.Reasons(), ref.Reason)
	requireOneLine(t, ref.Detail)
	if ref.FromRules {
		require.False(t, anyMalformed(rec), "a malformed due header is condemned whatever the rules: %s", ref.Detail)
		return
	}
	require.True(t, rec.Timestamp < 0 || anyMalformed(rec), ref.Detail)
	for bits := range uint16(1 << 8) {
		_, other := delay.NewParser(rec.Topic, fuzzRules(bits<<8)).Parse(rec)
		require.Equal(t, ref, other)
	}
}

func anyMalformed(rec *delay.Record) bool {
	for _, name := range []string{"delay-ms", "next-retry-time", "deliver-at"} {
		v, ok := last(rec, name)
		n := reference(v)
		if ok && (n == nil || n.Sign() < 0 || name != "delay-ms" && n.Cmp(big.NewInt(1e12)) < 0) {
			return true
		}
	}
	return false
}

func checkAccepted(t *testing.T, rec *delay.Record, r *delay.Rules, q delay.Request) {
	require.False(t, anyMalformed(rec))
	require.True(t, delay.ValidTopic(q.Target))
	require.False(t, len(q.Target) > 1 && q.Target[:2] == "__")
	require.True(t, r.AllowSources || !isSource(q.Target))
	want := big.NewInt(rec.Timestamp)
	absolute := false
	if origin, ok := last(rec, "origin-time"); ok && r.OriginTime {
		want = reference(origin)
	}
	require.Equal(t, want.String(), big.NewInt(q.Base).String())
	if v, ok := last(rec, "next-retry-time"); ok {
		want, absolute = reference(v), true
	} else if v, ok := last(rec, "deliver-at"); ok {
		want, absolute = reference(v), true
	} else if v, ok := last(rec, "delay-ms"); ok {
		want = want.Add(want, reference(v))
	} else if r.HasDelay {
		want = want.Add(want, big.NewInt(1500))
	} else {
		require.True(t, r.Retry)
		require.False(t, q.HasDue)
		return
	}
	require.True(t, q.HasDue)
	require.Equal(t, want.String(), big.NewInt(q.Due).String())
	require.True(t, absolute || q.Due >= q.Base)
	latest := new(big.Int).Add(big.NewInt(q.Base), big.NewInt(r.MaxDelay.Milliseconds()))
	require.LessOrEqual(t, big.NewInt(q.Due).Cmp(latest), 0)
}

func last(rec *delay.Record, name string) (v []byte, ok bool) {
	for _, h := range slices.Backward(rec.Headers) {
		if string(h.Key) == name {
			return h.Value, true
		}
	}
	return nil, false
}

// reference reads an integer the slow way; nil: it is none.
func reference(v []byte) *big.Int {
	text := bytes.IndexFunc(v, func(c rune) bool { return c < ' ' || c > '~' }) < 0
	switch {
	case !text && len(v) == 4:
		return big.NewInt(int64(int32(binary.BigEndian.Uint32(v))))
	case !text && len(v) == 8:
		return big.NewInt(int64(binary.BigEndian.Uint64(v)))
	case !text:
		return nil
	}
	if len(v) > 2 && v[0] == '"' && v[len(v)-1] == '"' {
		v = v[1 : len(v)-1]
	}
	if len(v) == 0 || bytes.Trim(v, "0123456789") != nil && len(bytes.Trim(v, "0123456789")) > 0 {
		return nil
	}
	n, _ := new(big.Int).SetString(string(v), 10)
	return n
}

// FuzzPack packs arbitrary records. Properties:
//
//  1. Everything comes back as it was, null and empty apart.
//  2. The allocation is exact.
//  3. Forwarded and dead-lettered, key, value and every header that is not ours are
//     the record's, in order.
func FuzzPack(f *testing.F) {
	f.Add([]byte("key"), []byte("value"), []byte("name"), []byte("content"), byte(0), base, int32(1), int32(1), "detail")
	f.Add([]byte{}, []byte{}, []byte("delay-ms"), []byte{}, byte(0xff), int64(-1), int32(0), int32(-1), "")
	f.Add([]byte{0}, bytes.Repeat([]byte{1}, 70_000), []byte("original-topic"), []byte{2}, byte(0x55), int64(0), int32(1<<30), int32(0), "a\nb")
	f.Fuzz(func(t *testing.T, key, value, name, content []byte, bits byte, ts int64, attempt, hops int32, detail string) {
		rec := &delay.Record{Topic: "a-delay", Timestamp: ts, Key: key, Value: value}
		if bits&1 != 0 {
			rec.Key = nil
		}
		if bits&2 != 0 {
			rec.Value = nil
		}
		for i := range int(bits >> 4) {
			h := delay.Header{Key: name, Value: content}
			if i%3 == 1 {
				h.Value = nil
			}
			rec.Headers = append(rec.Headers, h)
		}
		var ref *delay.Refusal
		if bits&4 != 0 {
			ref = &delay.Refusal{Reason: delay.ReasonLoop, Detail: detail, FromRules: bits&8 != 0}
		}
		m := delay.Pack(rec, &delay.Request{Attempt: attempt, Hops: hops}, ref)
		requireSame(t, rec, m)
		require.Equal(t, attempt, m.Attempt())
		require.Equal(t, hops, m.Hops())
		require.Equal(t, ref != nil, m.Refused())
		if ref != nil {
			require.Equal(t, ref.Reason, m.Refusal().Reason)
			require.Equal(t, ref.FromRules, m.Refusal().FromRules)
			require.LessOrEqual(t, len(m.Refusal().Detail), 512)
		}
		verdict := delay.Refusal{Reason: delay.ReasonLoop, Detail: detail}
		for _, out := range []delay.Outgoing{
			m.Forward(delayRules(), origin, "a", nil), m.DeadLetter(origin, "a-dlq", verdict, now, nil),
		} {
			require.Equal(t, rec.Key, out.Key)
			require.Equal(t, rec.Value, out.Value)
			require.Equal(t, foreign(rec.Headers), foreign(out.Headers))
			require.LessOrEqual(t, len(out.Headers), len(rec.Headers)+delay.AddedHeaders)
		}
	})
}

// foreign leaves out the headers that this package writes or consumes.
func foreign(hs []delay.Header) []delay.Header {
	var out []delay.Header
	for _, h := range hs {
		switch string(h.Key) {
		case "target-topic", "delay-ms", "next-retry-time", "deliver-at", "delay-id", "delay-due", "delay-hops", "retry-attempt",
			"dlq-reason", "dlq-detail", "dlq-time", "dlq-pointer", "original-topic", "original-partition", "original-offset":
		default:
			out = append(out, h)
		}
	}
	return out
}
