package delay_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"delay-scheduler/delay"
)

func TestDueIsTheFirstHeaderByPrecedence(t *testing.T) {
	const next, deliver = "1790000100000", "1790000200000"
	for _, tt := range []struct {
		name string
		hs   []delay.Header
		due  int64
	}{
		{"delay", headers("delay-ms", "1500"), base + 1500},
		{"no delay at all", headers("delay-ms", "0"), base},
		{"leading zeros", headers("delay-ms", "000000000000000000001500"), base + 1500},
		{"exactly max_delay", headers("delay-ms", "7776000000"), base + 7_776_000_000},
		{"deliver-at", headers("deliver-at", deliver), 1_790_000_200_000},
		{"next-retry-time", headers("next-retry-time", next), 1_790_000_100_000},
		{"deliver-at before delay-ms", headers("delay-ms", "1500", "deliver-at", deliver), 1_790_000_200_000},
		{"next-retry-time before deliver-at", headers("deliver-at", deliver, "next-retry-time", next), 1_790_000_100_000},
		{"next-retry-time before all", headers("delay-ms", "1", "deliver-at", deliver, "next-retry-time", next), 1_790_000_100_000},
		{"the last of a name wins", headers("delay-ms", "x", "delay-ms", "7"), base + 7},
		{"absolute exactly max_delay ahead", headers("deliver-at", "1797776000000"), base + 7_776_000_000},
		{"the least absolute time", headers("deliver-at", "1000000000000"), 1_000_000_000_000},
		{"a loser out of range does not condemn", headers("delay-ms", "9223372036854775808", "deliver-at", deliver), 1_790_000_200_000},
		{"names are case sensitive", headers("Delay-Ms", "x", "DELAY-MS", "5", "delay-ms", "7"), base + 7},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := accept(t, delayRules(), record("a-delay", append(tt.hs, headers("target-topic", "a")...)))
			require.Equal(t, delay.Request{Due: tt.due, HasDue: true, Base: base, Target: "a"}, q)
		})
	}
}

func TestPastDueTimesAreKeptAsTheyAre(t *testing.T) {
	// F-19: what is overdue on arrival is due, not refused; due stays the record's.
	for _, due := range []int64{base - 5000, base, base + 1} {
		q := accept(t, delayRules(), record("a-delay", headers("next-retry-time", itoa(due), "target-topic", "a")))
		require.Equal(t, due, q.Due)
	}
}

func TestF05BaseIsTheRecordsTimestampWhicheverKindItIs(t *testing.T) {
	rec := record("a-delay", headers("delay-ms", "30000", "target-topic", "a"))
	rec.AppendTime = true
	require.Equal(t, base+30000, accept(t, delayRules(), rec).Due)
	rec.AppendTime = false
	require.Equal(t, base+30000, accept(t, delayRules(), rec).Due)
}

func TestF07HugeDelaysAreHeldOrRefusedNeverWrapped(t *testing.T) {
	year := delayRules()
	year.MaxDelay = 366 * 24 * time.Hour
	most := delayRules()
	most.MaxDelay = math.MaxInt64 // 9223372036854 ms and a bit
	for _, tt := range []struct {
		ms     string
		rules  *delay.Rules
		due    int64 // 0: out of range
		detail string
	}{
		{"2147483648", delayRules(), base + 2147483648, ""},
		{"4294967296", delayRules(), base + 4294967296, ""},
		{"31536000000", delayRules(), 0, "delay-ms 31536000000 is above max_delay 2160h0m0s"},
		{"31536000000", year, base + 31536000000, ""},
		{"9223372036854", year, 0, "delay-ms 9223372036854 is above max_delay 8784h0m0s"},
		{"9223372036854", most, base + 9223372036854, ""},
		{"9223372036855", most, 0, "delay-ms 9223372036855 is above max_delay"},
		{"9223372036854775807", most, 0, "delay-ms 9223372036854775807 is above max_delay"},
		{"9223372036854775808", most, 0, `delay-ms "9223372036854775808" is beyond 2^63-1`},
		{"99999999999999999999999999", most, 0, `delay-ms "99999999999999999999999999" is beyond 2^63-1`},
	} {
		t.Run(tt.ms, func(t *testing.T) {
			rec := record("a-delay", headers("delay-ms", tt.ms, "target-topic", "a"))
			if tt.due != 0 {
				require.Equal(t, tt.due, accept(t, tt.rules, rec).Due)
				return
			}
			ref := refuse(t, tt.rules, rec)
			require.Equal(t, delay.ReasonDelayOutOfRange, ref.Reason)
			require.Contains(t, ref.Detail, tt.detail)
			require.True(t, ref.FromRules)
		})
	}
}

func TestF09AllEncodingsOfANumberGiveTheSameDue(t *testing.T) {
	for name, v := range map[string]string{
		"text": "5000", "quoted": `"5000"`, "int64": be64(5000), "int32": be32(5000),
	} {
		t.Run(name, func(t *testing.T) {
			q := accept(t, delayRules(), record("a-delay", headers("delay-ms", v, "target-topic", "a")))
			require.Equal(t, base+5000, q.Due)
		})
	}
	t.Run("eight digits are text", func(t *testing.T) {
		q := accept(t, delayRules(), record("a-delay", headers("delay-ms", "12345678", "target-topic", "a")))
		require.Equal(t, base+12_345_678, q.Due)
	})
	t.Run("four digits are text", func(t *testing.T) {
		q := accept(t, delayRules(), record("a-delay", headers("delay-ms", "1234", "target-topic", "a")))
		require.Equal(t, base+1234, q.Due)
	})
	t.Run("binary absolute time", func(t *testing.T) {
		v := "\x00\x00\x01\xa0\xc4\x50\x6c\x00"
		q := accept(t, delayRules(), record("a-delay", headers("next-retry-time", v, "target-topic", "a")))
		require.Equal(t, int64(1_790_000_000_000), q.Due)
	})
	t.Run("UTF-16", func(t *testing.T) {
		ref := refuse(t, delayRules(), record("a-delay", headers("delay-ms", "\xff\xfe5\x000\x000\x000\x00", "target-topic", "a")))
		require.Equal(t, delay.ReasonMalformedHeader, ref.Reason)
		ref = refuse(t, delayRules(), record("a-delay", headers("delay-ms", "\x005\x000\x000\x000", "target-topic", "a")))
		require.Equal(t, delay.ReasonDelayOutOfRange, ref.Reason)
	})
	t.Run("another case is another header", func(t *testing.T) {
		ref := refuse(t, delayRules(), record("a-delay", headers("Delay-Ms", "5000", "target-topic", "a")))
		require.Equal(t, delay.ReasonMalformedHeader, ref.Reason)
		require.Contains(t, ref.Detail, "none of next-retry-time, deliver-at, delay-ms")
	})
}

func TestAFixedDelayServesRecordsThatNameNone(t *testing.T) {
	r := delayRules()
	r.Delay, r.HasDelay = 1500*time.Microsecond, true
	q := accept(t, r, record("a.retry.30s", headers("target-topic", "a")))
	require.Equal(t, delay.Request{Due: base + 2, HasDue: true, Base: base, Target: "a", FromRules: true}, q)
	q = accept(t, r, record("a.retry.30s", headers("target-topic", "a", "delay-ms", "9")))
	require.Equal(t, delay.Request{Due: base + 9, HasDue: true, Base: base, Target: "a"}, q)
	r.Delay = 91 * 24 * time.Hour
	require.Equal(t, delay.ReasonDelayOutOfRange, refuse(t, r, record("a.retry.30s", headers("target-topic", "a"))).Reason)
}

func TestOriginTimeIsTheBaseWhereTheSourceSaysSo(t *testing.T) {
	hs := headers("delay-ms", "1000", "origin-time", "1789999000000", "target-topic", "a")
	require.Equal(t, base+1000, accept(t, delayRules(), record("a-delay", hs)).Due)
	r := delayRules()
	r.OriginTime = true
	q := accept(t, r, record("a-delay", hs))
	require.Equal(t, delay.Request{Due: 1_789_999_001_000, HasDue: true, Base: 1_789_999_000_000, Target: "a", FromRules: true}, q)

	t.Run("elsewhere it is not even read", func(t *testing.T) {
		accept(t, delayRules(), record("a-delay", headers("delay-ms", "1", "origin-time", "yesterday", "target-topic", "a")))
	})
	t.Run("an absolute time needs none", func(t *testing.T) {
		q := accept(t, r, record("a-delay", headers("deliver-at", "1790000000001", "target-topic", "a")))
		require.Equal(t, base+1, q.Due)
	})
	for name, hs := range map[string][]delay.Header{
		"missing": headers("delay-ms", "1", "target-topic", "a"),
		"text":    headers("delay-ms", "1", "target-topic", "a", "origin-time", "yesterday"),
		"seconds": headers("delay-ms", "1", "target-topic", "a", "origin-time", "1790000000"),
	} {
		t.Run(name, func(t *testing.T) {
			ref := refuse(t, r, record("a-delay", hs))
			require.Equal(t, delay.ReasonMalformedHeader, ref.Reason)
			require.Contains(t, ref.Detail, "origin-time")
			require.True(t, ref.FromRules)
		})
	}
	t.Run("overflow", func(t *testing.T) {
		r.MaxDelay = math.MaxInt64
		ref := refuse(t, r, record("a-delay", headers("delay-ms", "8", "target-topic", "a", "origin-time", "9223372036854775800")))
		require.Equal(t, delay.ReasonDelayOutOfRange, ref.Reason)
		require.Contains(t, ref.Detail, "overflows")
		ref = refuse(t, r, record("a-delay", headers("delay-ms", "8", "target-topic", "a", "origin-time", "9223372036854775808")))
		require.Equal(t, delay.ReasonDelayOutOfRange, ref.Reason)
	})
}

func TestAfterRoundsUpAndKeepsToTheBounds(t *testing.T) {
	p := delay.NewParser("a-retry", retryRules())
	q := delay.Request{Base: base}
	require.Nil(t, p.After(&q, 1500*time.Microsecond))
	require.Equal(t, delay.Request{Base: base, Due: base + 2, HasDue: true, FromRules: true}, q)
	require.Nil(t, p.After(&q, maxDelay))
	require.Equal(t, base+7_776_000_000, q.Due)
	require.Nil(t, p.After(&q, -time.Hour))
	require.Equal(t, base, q.Due)

	ref := p.After(&q, maxDelay+1)
	require.NotNil(t, ref)
	require.Equal(t, delay.ReasonDelayOutOfRange, ref.Reason)
	require.Equal(t, base, q.Due, "a refusal changes nothing")
	ref = p.After(&delay.Request{Base: math.MaxInt64 - 1}, 2*time.Millisecond)
	require.NotNil(t, ref)
	require.Equal(t, delay.ReasonDelayOutOfRange, ref.Reason)
}
