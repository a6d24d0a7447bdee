package delay_test

import (
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"delay-scheduler/delay"
)

func TestTargetsThatAreRefused(t *testing.T) {
	r := delayRules()
	r.Allow, r.Deny = []string{"orders*", "__*", "*-delay"}, []string{"orders-secret", "orders.internal.*"}
	for target, detail := range map[string]string{
		"":                       `target-topic "" is not a legal topic name`,
		".":                      "is not a legal topic name",
		"..":                     "is not a legal topic name",
		"orders/eu":              "is not a legal topic name",
		"orders eu":              "is not a legal topic name",
		"orders\n":               "target-topic 0x6f72646572730a is not a legal topic name",
		strings.Repeat("o", 250): "... (250 bytes) is not a legal topic name",
		"__consumer_offsets":     "is an internal topic",
		"__":                     "is an internal topic",
		"payments":               "matches nothing in targets.allow",
		"orders-secret":          "is refused by targets.deny orders-secret",
		"orders.internal.x":      "is refused by targets.deny orders.internal.*",
		"a-delay":                "is itself a source, and targets.allow_sources is off",
	} {
		t.Run(target[:min(len(target), 20)], func(t *testing.T) {
			rec := record("a-delay", headers("delay-ms", "5", "target-topic", "orders", "target-topic", target))
			p := delay.NewParser("a-delay", r)
			for range 3 { // the first verdict and the remembered ones
				_, ref := p.Parse(rec)
				require.NotNil(t, ref)
				require.Equal(t, delay.ReasonTargetRefused, ref.Reason)
				require.Contains(t, ref.Detail, detail)
				require.True(t, ref.FromRules)
				requireOneLine(t, ref.Detail)
			}
		})
	}
	require.Equal(t, "orders-eu", accept(t, r, record("a-delay", headers("delay-ms", "5", "target-topic", "orders-eu"))).Target)
}

func TestANullTargetIsNoTopicName(t *testing.T) {
	hs := append(headers("delay-ms", "5", "target-topic", "a"), delay.Header{Key: []byte("target-topic")})
	ref := refuse(t, delayRules(), record("a-delay", hs))
	require.Equal(t, delay.ReasonTargetRefused, ref.Reason)
	require.Equal(t, "target-topic null is not a legal topic name", ref.Detail)
}

func TestNoPatternsAllowAll(t *testing.T) {
	r := delayRules()
	r.Allow, r.IsSource = nil, nil
	require.Equal(t, "b-delay", accept(t, r, record("a-delay", headers("delay-ms", "5", "target-topic", "b-delay"))).Target)
}

func TestHopsFromSourceToSourceEndInALoop(t *testing.T) {
	r := delayRules()
	r.AllowSources, r.MaxHops = true, 3
	for hops, want := range map[string]int32{"-": 1, "0": 1, "1": 2, "2": 3} {
		hs := headers("delay-ms", "5", "target-topic", "b-delay")
		if hops != "-" {
			hs = append(hs, headers("delay-hops", hops)...)
		}
		require.Equal(t, want, accept(t, r, record("a-delay", hs)).Hops)
	}
	for _, hops := range []string{"3", "4", "2147483647", "2147483648", "9223372036854775808"} {
		ref := refuse(t, r, record("a-delay", headers("delay-ms", "5", "target-topic", "b-delay", "delay-hops", hops)))
		require.Equal(t, delay.ReasonLoop, ref.Reason)
		require.Contains(t, ref.Detail, "targets.max_hops 3")
		require.Contains(t, ref.Detail, "b-delay")
		require.True(t, ref.FromRules)
	}
	ref := refuse(t, r, record("a-delay", headers("delay-ms", "5", "target-topic", "b-delay", "delay-hops", "-1")))
	require.Equal(t, delay.ReasonMalformedHeader, ref.Reason)
	require.True(t, ref.FromRules)

	t.Run("not counted towards other targets", func(t *testing.T) {
		for _, hops := range []string{"9", "x"} {
			q := accept(t, r, record("a-delay", headers("delay-ms", "5", "target-topic", "b", "delay-hops", hops)))
			require.Zero(t, q.Hops)
		}
	})
}

func TestVerdictsAreRememberedWithinABound(t *testing.T) {
	asked := map[string]int{}
	r := delayRules()
	r.IsSource = func(topic string) bool { asked[topic]++; return false }
	p := delay.NewParser("a-delay", r)
	parse := func(target string) {
		q, ref := p.Parse(record("a-delay", headers("delay-ms", "5", "target-topic", target)))
		require.Nil(t, ref)
		require.Equal(t, target, q.Target)
	}
	for range 10 {
		for _, target := range []string{"a", "b", "c"} {
			parse(target)
		}
	}
	require.Equal(t, map[string]int{"a": 1, "b": 1, "c": 1}, asked)
	for i := range 10_000 {
		parse(fmt.Sprintf("t%d", i))
	}
	parse("a")
	require.Equal(t, 2, asked["a"], "forgotten when the memory was full")
}

func TestGlobs(t *testing.T) {
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "", true},
		{"*", "a", true},
		{"", "", true},
		{"", "a", false},
		{"*-delay", "orders-delay", true},
		{"*-delay", "-delay", true},
		{"*-delay", "orders-delay-2", false},
		{"*-delay", "a-delay-delay", true},
		{"*.retry.*", "a.retry.30s", true},
		{"a?c", "abc", true},
		{"a?c", "ac", false},
		{"a*b*c", "aXbXbc", true},
		{"a*b*c", "acb", false},
		{"**", "abc", true},
		{"a**", "a", true},
		{"*?", "", false},
		{"orders", "orders", true},
		{"orders", "Orders", false},
		{"orders.v1", "ordersxv1", false}, // a dot is a dot
	} {
		require.Equal(t, tt.want, delay.MatchGlob(tt.pattern, tt.name), "%s ~ %s", tt.pattern, tt.name)
	}
}

func TestGlobsMatchAsPathMatchDoes(t *testing.T) {
	// Without slashes and brackets path.Match has the same rules.
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringMatching(`[ab*?]{0,8}`).Draw(t, "pattern")
		name := rapid.StringMatching(`[ab]{0,10}`).Draw(t, "name")
		want, err := path.Match(pattern, name)
		require.NoError(t, err)
		require.Equal(t, want, delay.MatchGlob(pattern, name))
	})
}

func TestValidNamesAndPatterns(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "A.b_c-9": true, "...": true, strings.Repeat("a", 249): true,
		"": false, ".": false, "..": false, "a b": false, "a/b": false, "ä": false, "a*": false, strings.Repeat("a", 250): false,
	} {
		require.Equal(t, want, delay.ValidTopic(name), name)
	}
	for pattern, want := range map[string]bool{
		"*": true, "*-delay": true, "a?": true, "orders": true, ".*": true, "": false, "..": false, "a[bc]": false, "a b": false, "a,b": false, strings.Repeat("*", 250): false,
	} {
		require.Equal(t, want, delay.ValidGlob(pattern), pattern)
	}
}

func TestDeadLetterTopics(t *testing.T) {
	for topic, want := range map[string]string{
		"order-auto-close-retry": "order-auto-close-dlq",
		"a-delay":                "a-dlq",
		"X.retry.30s":            "X-dlq",
		"X.retry.5m":             "X-dlq",
		"a.retry.b.retry.500ms":  "a.retry.b-dlq",
		"orders":                 "orders-dlq",
		"orders.retry":           "orders.retry-dlq",
		"a.retry.30x":            "a.retry.30x-dlq",
		".retry.30s":             ".retry.30s-dlq",
		"-delay":                 "-delay-dlq",
		"a-delay-retry":          "a-delay-dlq",
	} {
		require.Equal(t, want, delayRules().DeadLetter(topic), topic)
	}
	require.Equal(t, "graveyard", (&delay.Rules{DeadLetterTopic: "graveyard"}).DeadLetter("a-delay"))
	require.Equal(t, "a-dlq", (&delay.Rules{Suffix: ".later"}).DeadLetter("a.later"))
	require.Equal(t, "a-dlq", (&delay.Rules{Suffix: ".later"}).DeadLetter("a-retry"))
}
