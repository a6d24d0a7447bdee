package delay_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"delay-scheduler/delay"
)

func TestARetryRecordWithoutADueTimeIsLeftToThePolicy(t *testing.T) {
	q := accept(t, retryRules(), record("a-retry", headers("retry-count", "2", "first-failure-time", "1789999999000")))
	require.Equal(t, delay.Request{Base: base, Target: "a", Attempt: 2, FirstFailure: 1_789_999_999_000, FromRules: true}, q)
}

func TestARetryRecordThatNamesItsDueTimeKeepsIt(t *testing.T) {
	for _, hs := range [][]delay.Header{headers("delay-ms", "250"), headers("next-retry-time", itoa(base+250))} {
		q := accept(t, retryRules(), record("a-retry", append(hs, headers("original-topic", "orders")...)))
		require.Equal(t, delay.Request{Due: base + 250, HasDue: true, Base: base, Target: "orders", Attempt: 1}, q)
	}
}

func TestARetrySourceWithAFixedDelayUsesIt(t *testing.T) {
	r := retryRules()
	r.Delay, r.HasDelay = 30e9, true
	q := accept(t, r, record("payments.retry.30s", headers("retry-count", "1")))
	require.Equal(t, delay.Request{Due: base + 30_000, HasDue: true, Base: base, Target: "payments", Attempt: 1, FromRules: true}, q)
}

func TestTheAttemptIsTheHigherCount(t *testing.T) {
	for _, tt := range []struct {
		name           string
		count, attempt string
		want           int32
	}{
		{"neither", "-", "-", 1},
		{"first failure", "1", "-", 1},
		{"count of zero", "0", "-", 1},
		{"count alone", "7", "-", 7},
		{"attempt alone", "-", "7", 8},
		{"a consumer that does not count", "1", "4", 5},
		{"a consumer that counts", "5", "4", 5},
		{"a consumer ahead of us", "9", "4", 9},
		{"F-45: no wrap at a byte", "128", "127", 128},
		{"binary", be32(200), be64(199), 200},
		{"the most", "2147483647", "-", math.MaxInt32},
		{"beyond an int32 is above any limit", "2147483648", "-", math.MaxInt32},
		{"beyond an int64 too", "9223372036854775808", "-", math.MaxInt32},
		{"the attempt does not wrap", "-", "2147483647", math.MaxInt32},
		{"nor beyond", "-", "99999999999999999999", math.MaxInt32},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hs := headers("origin-time", "1")
			if tt.count != "-" {
				hs = append(hs, headers("retry-count", "x", "retry-count", tt.count)...)
			}
			if tt.attempt != "-" {
				hs = append(hs, headers("retry-attempt", tt.attempt)...)
			}
			require.Equal(t, tt.want, accept(t, retryRules(), record("a-retry", hs)).Attempt)
		})
	}
}

func TestMalformedRetryHeadersCondemnOnRetrySourcesOnly(t *testing.T) {
	for _, tt := range []struct{ name, value, detail string }{
		{"retry-count", "x", `retry-count "x" is not decimal digits`},
		{"retry-count", "", `retry-count "" is no integer`},
		{"retry-count", "\x80", "retry-count 0x80 is neither decimal digits"},
		{"retry-count", be32(-1), "retry-count -1 is negative"},
		{"retry-count", "-1", `retry-count "-1" is not decimal digits`},
		{"retry-attempt", "x", `retry-attempt "x"`},
		{"retry-attempt", be32(-7), "retry-attempt -7 is negative"},
		{"first-failure-time", "yesterday", `first-failure-time "yesterday"`},
		{"first-failure-time", "1790000000", "first-failure-time 1790000000 is below 10^12"},
		{"first-failure-time", "9223372036854775808", "is beyond 2^63-1"},
		{"target-group", "", `target-group "" cannot be part of a topic name`},
		{"target-group", "my group", `target-group "my group" cannot`},
		{"target-group", "a/b", `target-group "a/b" cannot`},
		{"target-group", "größe", `target-group 0x6772c3b6c39f65 cannot`},
	} {
		t.Run(tt.name+"="+tt.value, func(t *testing.T) {
			hs := headers("delay-ms", "5", "target-topic", "a", tt.name, tt.value)
			ref := refuse(t, retryRules(), record("a-retry", hs))
			require.Equal(t, delay.ReasonMalformedHeader, ref.Reason)
			require.Contains(t, ref.Detail, tt.detail)
			require.True(t, ref.FromRules, "a delay source takes it")
			q := accept(t, delayRules(), record("a-delay", hs))
			require.Zero(t, q.Attempt)
		})
	}
}

func TestABareRecordIsMalformedUnlessTheSourceAcceptsIt(t *testing.T) {
	for name, hs := range map[string][]delay.Header{
		"no header":          nil,
		"a stranger's":       headers("trace-id", "1", "Retry-Count", "1"),
		"only our own marks": headers("delay-id", "a/0/0/1", "delay-due", "1", "delay-hops", "1"),
	} {
		t.Run(name, func(t *testing.T) {
			ref := refuse(t, retryRules(), record("a-retry", hs))
			require.Equal(t, delay.ReasonMalformedHeader, ref.Reason)
			require.Contains(t, ref.Detail, "accept_bare")
			require.True(t, ref.FromRules)
			r := retryRules()
			r.AcceptBare = true
			q := accept(t, r, record("a-retry", hs))
			require.Equal(t, delay.Request{Base: base, Target: "a", Attempt: 1, FromRules: true}, q)
		})
	}
	for _, name := range []string{
		"origin-time", "last-error-class", "last-error-msg", "error-stack", "initial-offset",
		"original-partition", "original-offset", "previous-topic",
	} {
		t.Run("not bare with "+name, func(t *testing.T) {
			accept(t, retryRules(), record("a-retry", headers(name, "x")))
		})
	}
}

func TestTheTargetOfARetryIsNamedOrDerived(t *testing.T) {
	for _, tt := range []struct {
		name, topic string
		hs          []delay.Header
		want        string
		fromRules   bool
	}{
		{"named", "a-retry", headers("target-topic", "t", "original-topic", "o", "target-group", "g"), "t", false},
		{"original topic", "a-retry", headers("original-topic", "o"), "o", false},
		{"one group", "a-retry", headers("original-topic", "o", "target-group", "g.1"), "o-g.1-redelivery", false},
		{"one group, born here", "a-retry", headers("target-group", "g"), "a-g-redelivery", true},
		{"the name without its suffix", "order-auto-close-retry", nil, "order-auto-close", true},
		{"a delay topic as a retry source", "a-delay", nil, "a", true},
		{"a ladder", "X.retry.30s", nil, "X", true},
		{"a ladder of hours", "a.b.retry.1h30m", nil, "a.b", true},
		{"a numbered ladder", "a.retry.3", nil, "a", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := accept(t, retryRules(), record(tt.topic, append(tt.hs, headers("delay-ms", "1")...)))
			require.Equal(t, tt.want, q.Target)
			require.Equal(t, tt.fromRules, q.FromRules)
		})
	}
	t.Run("nothing to derive from", func(t *testing.T) {
		for _, topic := range []string{"failures", "-retry", "a.retry.soon", "a.retry."} {
			ref := refuse(t, retryRules(), record(topic, headers("retry-count", "1")))
			require.Equal(t, delay.ReasonMalformedHeader, ref.Reason)
			require.Contains(t, ref.Detail, "no target-topic and no original-topic")
			require.True(t, ref.FromRules)
		}
	})
	t.Run("an explicit suffix", func(t *testing.T) {
		r := retryRules()
		r.Suffix = ".failed"
		require.Equal(t, "a", accept(t, r, record("a.failed", headers("retry-count", "1"))).Target)
	})
	t.Run("on a delay source nothing is derived", func(t *testing.T) {
		ref := refuse(t, delayRules(), record("a-delay", headers("delay-ms", "1", "original-topic", "o", "target-group", "g")))
		require.Equal(t, "the record has no target-topic", ref.Detail)
	})
}

func TestDerivedTargetsAreJudgedLikeNamedOnes(t *testing.T) {
	r := retryRules()
	r.Deny = []string{"*-redelivery", "secret*"}
	for _, tt := range []struct {
		topic  string
		hs     []delay.Header
		detail string
	}{
		{"secret-retry", headers("retry-count", "1"), `the derived target "secret" is refused by targets.deny secret*`},
		{"a-retry", headers("original-topic", "secrets"), `original-topic "secrets" is refused by targets.deny`},
		{"a-retry", headers("original-topic", ""), `original-topic "" is not a legal topic name`},
		{"a-retry", headers("original-topic", "o", "target-group", "g"), `the target of original-topic and target-group "o-g-redelivery" is refused`},
	} {
		ref := refuse(t, r, record(tt.topic, tt.hs))
		require.Equal(t, delay.ReasonTargetRefused, ref.Reason)
		require.Contains(t, ref.Detail, tt.detail)
	}
}
