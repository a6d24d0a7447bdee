package delay_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"delay-scheduler/delay"
)

var refused = delay.Refusal{Reason: delay.ReasonTargetRefused, Detail: `target-topic "x" matches nothing in targets.allow`}

const now = base + 123

func TestADeadLetterIsTheRecordPlusTheVerdict(t *testing.T) {
	rec := awkward()
	rec.Headers = append(rec.Headers, headers("delay-ms", "5", "target-topic", "x", "retry-count", "3", "delay-id", "i", "replay-count", "2")...)
	out := delay.Pack(rec, nil, &refused).DeadLetter(origin, "a-dlq", refused, now, nil)
	require.Equal(t, "a-dlq", out.Topic)
	require.Equal(t, rec.Key, out.Key)
	require.Nil(t, out.Value, "F-13: null stays null")
	require.Zero(t, out.Timestamp)
	require.Equal(t, append(rec.Headers, headers(
		"dlq-reason", "TARGET_REFUSED", "dlq-detail", refused.Detail, "dlq-time", "1790000000123",
		"original-topic", "a-delay", "original-partition", "3", "original-offset", "17")...), out.Headers)
}

func TestADeadLetterKeepsWhereTheRecordWasBorn(t *testing.T) {
	for name, hs := range map[string][]delay.Header{
		"all of it":  headers("original-topic", "orders", "original-partition", "1", "original-offset", "99"),
		"part of it": headers("original-topic", "orders"),
	} {
		t.Run(name, func(t *testing.T) {
			out := delay.Pack(record("a-retry", hs), nil, nil).DeadLetter(origin, "a-dlq", refused, now, nil)
			require.Equal(t, append(hs, headers("dlq-reason", "TARGET_REFUSED",
				"dlq-detail", refused.Detail+"; read at a-delay/3/17", "dlq-time", "1790000000123")...), out.Headers)
		})
	}
}

func TestASecondDeathReplacesTheVerdict(t *testing.T) {
	hs := headers("dlq-reason", "LOOP", "x", "1", "dlq-detail", "old", "dlq-time", "1", "dlq-pointer", "a/0/0",
		"replay-count", "1", "replayed-from", "a-dlq/0/4", "replay-time", "2")
	out := delay.Pack(record("a-delay", hs), nil, nil).DeadLetter(origin, "a-dlq", refused, now, nil)
	requireHeader(t, out.Headers, "dlq-reason", "TARGET_REFUSED")
	requireHeader(t, out.Headers, "dlq-detail", refused.Detail)
	requireHeader(t, out.Headers, "dlq-time", "1790000000123")
	requireHeader(t, out.Headers, "replay-count", "1")
	requireHeader(t, out.Headers, "replayed-from", "a-dlq/0/4")
	requireNoHeader(t, out.Headers, "dlq-pointer")
}

func TestTheDetailIsOneBoundedLine(t *testing.T) {
	for _, detail := range []string{
		"broker said:\r\nno\tway\x00\x1b[31m\x7f", "\u2028\u0085\u202e", strings.Repeat("x", 10_000), strings.Repeat("é", 400),
		strings.Repeat("\x80", 2000), "\xff\xfe", strings.Repeat("界\n", 300),
	} {
		ref := delay.Refusal{Reason: delay.ReasonUnknownTopic, Detail: detail}
		long := delay.Origin{Topic: strings.Repeat("t", 249), Partition: 1 << 30, Offset: 1 << 62}
		m := delay.Pack(record("a-delay", headers("original-topic", "o")), nil, nil)
		for _, out := range []delay.Outgoing{
			m.DeadLetter(origin, "a-dlq", ref, now, nil), m.DeadLetter(long, "a-dlq", ref, now, nil),
			m.Pointer(origin, "a-dlq", ref, now), m.Pointer(long, "a-dlq", ref, now),
		} {
			got, _ := value(out.Headers, "dlq-detail")
			requireOneLine(t, got)
			require.NotContains(t, got, "\u2028")
			require.True(t, strings.ToValidUTF8(got, "") == got)
		}
	}
	out := delay.Pack(record("a-delay", nil), nil, nil).DeadLetter(origin, "a-dlq", delay.Refusal{Detail: "größe 5\n"}, now, nil)
	requireHeader(t, out.Headers, "dlq-detail", "größe 5 ")
}

func TestF39APointerIsSmallAndSaysWhereTheRecordIs(t *testing.T) {
	rec := record("a-delay", headers("target-topic", "a", "big", strings.Repeat("x", 500_000), "dlq-reason", "old"))
	for range 100 {
		rec.Headers = append(rec.Headers, headers("many", strings.Repeat("y", 200))...)
	}
	rec.Key, rec.Value = []byte("order-1"), bytes.Repeat([]byte("v"), 900<<10)
	ref := delay.Refusal{Reason: delay.ReasonRecordTooLarge, Detail: "target a takes 1048576 bytes"}
	out := delay.Pack(rec, &delay.Request{}, nil).Pointer(origin, "a-dlq", ref, now)
	require.Equal(t, "order-1", string(out.Key))
	require.Nil(t, out.Value)
	requireHeader(t, out.Headers, "target-topic", "a")
	requireHeader(t, out.Headers, "dlq-reason", "RECORD_TOO_LARGE")
	requireHeader(t, out.Headers, "dlq-detail",
		"target a takes 1048576 bytes; too large for the dead-letter topic (921600 bytes of value), it is at a-delay/3/17")
	requireHeader(t, out.Headers, "dlq-pointer", "a-delay/3/17")
	requireHeader(t, out.Headers, "original-topic", "a-delay")
	requireHeader(t, out.Headers, "original-partition", "3")
	requireHeader(t, out.Headers, "original-offset", "17")
	requireNoHeader(t, out.Headers, "big")
	size := len(out.Key)
	for _, h := range out.Headers {
		size += len(h.Key) + len(h.Value)
	}
	require.Less(t, size, 6<<10)

	t.Run("a big key is left out", func(t *testing.T) {
		rec := &delay.Record{Key: bytes.Repeat([]byte("k"), 2000)}
		require.Nil(t, delay.Pack(rec, nil, nil).Pointer(origin, "a-dlq", ref, now).Key)
	})
	t.Run("the birthplace is not overwritten", func(t *testing.T) {
		hs := headers("original-topic", "o", "original-partition", "1", "original-offset", "2")
		out := delay.Pack(record("a-retry", hs), nil, nil).Pointer(origin, "a-dlq", ref, now)
		requireHeader(t, out.Headers, "original-topic", "o")
		requireHeader(t, out.Headers, "original-offset", "2")
		requireHeader(t, out.Headers, "dlq-pointer", "a-delay/3/17")
	})
}
