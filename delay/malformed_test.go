package delay_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"delay-scheduler/delay"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func TestEveryMalformedFormHasItsDetail(t *testing.T) {
	const neither = "is neither decimal digits nor a big-endian integer of 4 or 8 bytes"
	for _, tt := range []struct{ name, value, detail string }{
		{"delay-ms", "", "delay-ms \"\" is no integer"},
		{"delay-ms", `""`, `delay-ms """" is not decimal digits`},
		{"delay-ms", `"`, `delay-ms """ is not decimal digits`},
		{"delay-ms", `"5000`, `is not decimal digits`},
		{"delay-ms", `5000"`, `is not decimal digits`},
		{"delay-ms", `"5 000"`, `is not decimal digits`},
		{"delay-ms", `'5000'`, `is not decimal digits`},
		{"delay-ms", "-100", `delay-ms "-100" is not decimal digits, and four printable bytes are never read as a binary integer: send text or 8 bytes`},
		{"delay-ms", "1e30", "send text or 8 bytes"},
		{"delay-ms", "10.5", "send text or 8 bytes"},
		{"delay-ms", "50ms", "send text or 8 bytes"},
		{"delay-ms", `"5a"`, "send text or 8 bytes"},
		{"delay-ms", "    ", "send text or 8 bytes"},
		{"delay-ms", "+5000", `delay-ms "+5000" is not decimal digits`},
		{"delay-ms", " 5000", "is not decimal digits"},
		{"delay-ms", "5000 ", "is not decimal digits"},
		{"delay-ms", "5_000", "is not decimal digits"},
		{"delay-ms", "0x1388", "is not decimal digits"},
		{"delay-ms", "-1", "is not decimal digits"},
		{"delay-ms", "5000.000", "is not decimal digits"},
		{"delay-ms", "12345678901234567890123x", "is not decimal digits"},
		{"delay-ms", "PT30M", "is not decimal digits"},
		{"delay-ms", "5000\n", `delay-ms 0x353030300a ` + neither},
		{"delay-ms", "\x80", "delay-ms 0x80 " + neither},
		{"delay-ms", "\x00\x01", neither},
		{"delay-ms", "\x00\x00\x13", neither},
		{"delay-ms", "\x00\x00\x00\x00\x13\x88\x00\x00\x00\x00\x00\x00", neither},
		{"delay-ms", "５０００", neither},
		{"delay-ms", be32(-1), "delay-ms -1 is negative"},
		{"delay-ms", be64(-9_000_000_000), "delay-ms -9000000000 is negative"},
		{"delay-ms", strings.Repeat("9", 10_000) + "x", "... (10001 bytes) is not decimal digits"},
		{"deliver-at", "1790000000", "deliver-at 1790000000 is below 10^12: expected are epoch milliseconds, not seconds"},
		{"deliver-at", "999999999999", "is below 10^12"},
		{"deliver-at", "0", "is below 10^12"},
		{"deliver-at", be32(1_790_000_000), "deliver-at 1790000000 is below 10^12"},
		{"deliver-at", be64(-1), "deliver-at -1 is negative"},
		{"deliver-at", "2026-09-21T00:00:00Z", "deliver-at \"2026-09-21T00:00:00Z\" is not decimal digits"},
		{"next-retry-time", "soon", "send text or 8 bytes"},
		{"next-retry-time", "", "next-retry-time \"\" is no integer"},
		{"next-retry-time", "1790000000", "next-retry-time 1790000000 is below 10^12"},
		{"next-retry-time", "1790000000000.5", "is not decimal digits"},
	} {
		t.Run(tt.name+"="+tt.value[:min(len(tt.value), 20)], func(t *testing.T) {
			for _, r := range []*delay.Rules{delayRules(), retryRules()} {
				ref := refuse(t, r, record("a-delay", headers(tt.name, tt.value, "target-topic", "a")))
				require.Equal(t, delay.ReasonMalformedHeader, ref.Reason)
				require.Contains(t, ref.Detail, tt.detail)
				require.True(t, strings.HasPrefix(ref.Detail, tt.name))
				require.False(t, ref.FromRules, "no configuration takes it")
			}
		})
	}
}

func TestANullValueIsMalformed(t *testing.T) {
	hs := append(headers("target-topic", "a"), delay.Header{Key: []byte("delay-ms")})
	ref := refuse(t, delayRules(), record("a-delay", hs))
	require.Equal(t, delay.ReasonMalformedHeader, ref.Reason)
	require.Equal(t, "delay-ms null is no integer", ref.Detail)
}

func TestAMalformedDueHeaderCondemnsBesideAValidOne(t *testing.T) {
	const at = "1790000100000"
	for _, hs := range [][]delay.Header{
		headers("next-retry-time", at, "deliver-at", "x"),
		headers("next-retry-time", at, "delay-ms", "x"),
		headers("deliver-at", at, "delay-ms", "-5"),
		headers("next-retry-time", "x", "delay-ms", "5"),
		headers("delay-ms", "5", "delay-ms", "x"), // the last one is looked at
	} {
		ref := refuse(t, delayRules(), record("a-delay", append(hs, headers("target-topic", "a")...)))
		require.Equal(t, delay.ReasonMalformedHeader, ref.Reason)
	}
}

func TestAMissingTimestampIsMalformedWhateverTheRecordAsks(t *testing.T) {
	for _, hs := range [][]delay.Header{headers("delay-ms", "5"), headers("deliver-at", "1790000100000"), nil} {
		rec := record("a-delay", append(hs, headers("target-topic", "a")...))
		rec.Timestamp = -1
		require.Equal(t, delay.Refusal{Reason: delay.ReasonMalformedHeader, Detail: "the record has no timestamp"},
			refuse(t, delayRules(), rec))
	}
}

func TestNoDueHeaderAndNoTargetAreMalformedUnderTheseRules(t *testing.T) {
	ref := refuse(t, delayRules(), record("a-delay", headers("target-topic", "a")))
	require.Equal(t, delay.ReasonMalformedHeader, ref.Reason)
	require.True(t, ref.FromRules, "a fixed delay would take it")
	ref = refuse(t, delayRules(), record("a-delay", headers("delay-ms", "5", "original-topic", "a")))
	require.Equal(t, delay.ReasonMalformedHeader, ref.Reason)
	require.Equal(t, "the record has no target-topic", ref.Detail)
	require.True(t, ref.FromRules, "a retry source would take it")
}

func TestAnAbsoluteTimeFurtherThanMaxDelayIsOutOfRange(t *testing.T) {
	for v, detail := range map[string]string{
		"1797776000001":       "deliver-at 1797776000001 is 7776000001 ms after the base time 1790000000000, above max_delay 2160h0m0s",
		"9223372036854775807": "above max_delay",
		"9223372036854775808": `deliver-at "9223372036854775808" is beyond 2^63-1`,
	} {
		ref := refuse(t, delayRules(), record("a-delay", headers("deliver-at", v, "target-topic", "a")))
		require.Equal(t, delay.ReasonDelayOutOfRange, ref.Reason)
		require.Contains(t, ref.Detail, detail)
	}
}
