package config

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEveryRuleNamesPathValueAndWhatWouldBeRight(t *testing.T) {
	for text, want := range map[string]string{
		"kafka: {brokers: []}":                                              `kafka.brokers is "[]" (scheduler.yaml:1): want at least one address, such as localhost:9092`,
		"kafka: {brokers: [localhost]}":                                     `kafka.brokers[0] is "localhost" (scheduler.yaml:1): want host:port, such as localhost:9092`,
		"kafka: {brokers: [a:1, 'http://b:9092']}":                          `kafka.brokers[1] is "http://b:9092" (scheduler.yaml:1): want host:port, such as localhost:9092`,
		"kafka: {brokers: ['a:0']}":                                         `kafka.brokers[0] is "a:0" (scheduler.yaml:1): want host:port, such as localhost:9092`,
		"kafka: {client_id: a b}":                                           `kafka.client_id is "a b" (scheduler.yaml:1): want 1 to 200 letters, digits, dots, underscores or hyphens`,
		"kafka: {version: 2.7.0}":                                           `kafka.version is "2.7.0" (scheduler.yaml:1): want a version of Kafka from 2.8 on, such as 3.9, or nothing`,
		"kafka: {version: latest}":                                          `kafka.version is "latest" (scheduler.yaml:1): want a version of Kafka from 2.8 on, such as 3.9, or nothing`,
		"kafka: {metadata_refresh: 0s}":                                     `kafka.metadata_refresh is "0s" (scheduler.yaml:1): want 1s to 1h`,
		"group: {id: ''}":                                                   `group.id (scheduler.yaml:1): want 1 to 255 printable characters`,
		"group: {instance_id: a/b}":                                         `group.instance_id is "a/b" (scheduler.yaml:1): want up to 249 letters, digits, dots, underscores or hyphens, or nothing`,
		"group: {session_timeout: 1d}":                                      `group.session_timeout is "1d" (scheduler.yaml:1): want 1s to 30m`,
		"group: {rebalance_drain: 60s}":                                     `group.rebalance_drain is "1m" (scheduler.yaml:1): want less than group.rebalance_timeout (1m)`,
		"group: {rebalance_drain: -1s}":                                     `group.rebalance_drain is "-1s" (scheduler.yaml:1): want 0s to 1h`,
		"sources: []":                                                       `sources is "[]" (scheduler.yaml:1): want at least one source`,
		"sources: [{}]":                                                     `sources[0].topics is "[]" (scheduler.yaml:1): want at least one name or pattern`,
		"sources: [{topics: ['a b']}]":                                      `sources[0].topics[0] is "a b" (scheduler.yaml:1): want a legal topic name, in which * stands for any number of characters and ? for one`,
		"sources: [{topics: [a, 'x-dlq']}]":                                 `sources[0].topics[1] is "x-dlq" (scheduler.yaml:1): a dead-letter topic (*-dlq) is never a source`,
		"sources: [{topics: ['__x']}]":                                      `sources[0].topics[0] is "__x" (scheduler.yaml:1): an internal topic (__*) is never a source`,
		"sources: [{topics: [a], delay: 0s}]":                               `sources[0].delay is "0s" (scheduler.yaml:1): want 1ms to 36500d, or nothing`,
		"sources: [{topics: [a], delay: 91d}]":                              `sources[0].delay is "91d" (scheduler.yaml:1): want at most the source's max_delay (90d)`,
		"sources: [{topics: [a], base: now}]":                               `sources[0].base is "now" (scheduler.yaml:1): want timestamp or origin-time`,
		"sources: [{topics: [a], max_delay: 0s}]":                           `sources[0].max_delay is "0s" (scheduler.yaml:1): want 1s to 36500d`,
		"sources: [{topics: [a], targets: {deny: ['[a]']}}]":                `sources[0].targets.deny[0] is "[a]" (scheduler.yaml:1): want a legal topic name, in which * stands for any number of characters and ? for one`,
		"sources: [{topics: [a], dead_letter_topic: 'a b'}]":                `sources[0].dead_letter_topic is "a b" (scheduler.yaml:1): want a legal topic name that does not begin with __, or nothing`,
		"sources: [{topics: [a], dead_letter_topic: __dead}]":               `sources[0].dead_letter_topic is "__dead" (scheduler.yaml:1): want a legal topic name that does not begin with __, or nothing`,
		"sources: [{topics: [a], dead_letter_topic: bc}, {topics: ['b*']}]": `sources[0].dead_letter_topic is "bc" (scheduler.yaml:1): want a topic that is no source, sources[1].topics[0] (b*) matches it`,
		"sources: [{topics: [a], retry: {steps: [1s, 91d]}}]":               `sources[0].retry.steps[1] is "91d" (scheduler.yaml:1): want at most the source's max_delay (90d)`,
		"sources: [{topics: [a], retry: {steps: [-1s]}}]":                   `sources[0].retry.steps[0] is "-1s" (scheduler.yaml:1): want 0s to 36500d`,
		"sources: [{topics: [a], delay: 30s, retry: {steps: [1s]}}]":        `sources[0].retry.steps is "[1s]" (scheduler.yaml:1): want none, since the source's delay already says when a record comes back`,
		"sources: [{topics: [a], retry: {initial: 0s}}]":                    `sources[0].retry.initial is "0s" (scheduler.yaml:1): want 1ms to 36500d`,
		"sources: [{topics: [a], retry: {initial: 6m}}]":                    `sources[0].retry.max_interval is "5m" (scheduler.yaml:1): want at least initial (6m), or 0s for no cap`,
		"sources: [{topics: [a], retry: {multiplier: 0.5}}]":                `sources[0].retry.multiplier is "0.5" (scheduler.yaml:1): want 1 to 1000`,
		"sources: [{topics: [a], retry: {multiplier: many}}]":               `sources[0].retry.multiplier is "many" (scheduler.yaml:1): want a number`,
		"sources: [{topics: [a], retry: {jitter: NaN}}]":                    `sources[0].retry.jitter is "NaN" (scheduler.yaml:1): want 0 to 1`,
		"sources: [{topics: [a], retry: {max_attempts: -1}}]":               `sources[0].retry.max_attempts is "-1" (scheduler.yaml:1): want 0 to 2147483647`,
		"sources: [{topics: [a], retry: {max_attempts: 1.5}}]":              `sources[0].retry.max_attempts is "1.5" (scheduler.yaml:1): want a whole number`,
		"sources: [{topics: [a], retry: {accept_bare: perhaps}}]":           `sources[0].retry.accept_bare is "perhaps" (scheduler.yaml:1): want true or false`,
		"targets: {allow: []}":                                              `targets.allow is "[]" (scheduler.yaml:1): want at least one pattern, ["*"] for all`,
		"targets: {allow: ['ä']}":                                           `targets.allow[0] is "ä" (scheduler.yaml:1): want a legal topic name, in which * stands for any number of characters and ? for one`,
		"targets: {max_hops: 0}":                                            `targets.max_hops is "0" (scheduler.yaml:1): want 1 to 1000`,
		"memory: {budget: 2TiB}":                                            `memory.budget is "2TiB" (scheduler.yaml:1): want 1 to 1TiB`,
		"memory: {budget: 16MiB}":                                           `memory.max_in_flight is "32MiB" (scheduler.yaml:1): want at most memory.budget (16MiB)`,
		"memory: {budget: 1 GB}":                                            `memory.budget is "1 GB" (scheduler.yaml:1): want a size in bytes or with KiB, MiB or GiB, such as 256MiB`,
		"memory: {budget: 9999999999GiB}":                                   `memory.budget is "9999999999GiB" (scheduler.yaml:1): want a size in bytes or with KiB, MiB or GiB, such as 256MiB`,
		"forward: {timestamp: later}":                                       `forward.timestamp is "later" (scheduler.yaml:1): want now or source`,
		"forward: {compression: zip}":                                       `forward.compression is "zip" (scheduler.yaml:1): want none, lz4, snappy, gzip or zstd`,
		"forward: {linger: 2s}":                                             `forward.linger is "2s" (scheduler.yaml:1): want 0s to 1s`,
		"forward: {max_lanes: 0}":                                           `forward.max_lanes is "0" (scheduler.yaml:1): want 1 to 100000`,
		"forward: {give_up_after: ever}":                                    `forward.give_up_after is "ever" (scheduler.yaml:1): want a duration with a unit, such as 500ms, 30s, 5m, 1h or 90d`,
		"forward:\n  keep_scheduling_headers: true":                         `forward.keep_scheduling_headers is "true" (scheduler.yaml:2): want false, since sources[1] is a retry source, where left-over headers would count as new requests`,
		"commit: {interval: 4s}":                                            `commit.interval is "4s" (scheduler.yaml:1): want at most a third of group.session_timeout (10s)`,
		"commit: {interval: 3s}\ngroup: {rebalance_timeout: 6s}":            `commit.interval is "3s" (scheduler.yaml:1): want at most a third of group.rebalance_timeout (6s)`,
		"commit: {metadata_limit: 100}":                                     `commit.metadata_limit is "100" (scheduler.yaml:1): want 256 to 32767`,
		"clock: {max_skew: 0s}":                                             `clock.max_skew is "0s" (scheduler.yaml:1): want 1s to 1d`,
		"http: {listen: '8080'}":                                            `http.listen is "8080" (scheduler.yaml:1): want host:port, such as 127.0.0.1:8080`,
		"http: {listen: 'a:70000'}":                                         `http.listen is "a:70000" (scheduler.yaml:1): want host:port, such as 127.0.0.1:8080`,
		"log: {format: xml}":                                                `log.format is "xml" (scheduler.yaml:1): want json or console`,
		"shutdown: {drain_timeout: 2h}":                                     `shutdown.drain_timeout is "2h" (scheduler.yaml:1): want 0s to 1h`,
	} {
		require.Equal(t, []string{want}, refused(t, text, nil), text)
	}
}

func TestKeepingSchedulingHeadersIsFineWithoutRetrySources(t *testing.T) {
	c := load(t, "sources: [{topics: ['*-delay']}]\nforward: {keep_scheduling_headers: true}\n")
	require.True(t, c.Forward.KeepSchedulingHeaders)
}

func TestMaxAttemptsIsTheNumberOfStepsUnlessItIsGiven(t *testing.T) {
	attempts := func(retry string) int {
		return load(t, "sources: [{topics: [a], retry: "+retry+"}]").Sources[0].Retry.MaxAttempts
	}
	require.Equal(t, 5, attempts("{}"))
	require.Equal(t, 3, attempts("{steps: [30s, 5m, 1h]}"))
	require.Equal(t, 9, attempts("{steps: [30s, 5m, 1h], max_attempts: 9}"))
	require.Equal(t, 0, attempts("{max_attempts: 0}"))
	require.Equal(t, 0, attempts("{steps: [30s], max_attempts: 0}"))
}

func TestALadderTopicHasADelayAndABudgetOfRetries(t *testing.T) {
	s, ok := load(t, "sources: [{topics: ['*.retry.30s'], delay: 30s, retry: {max_attempts: 3}}]").SourceFor("pay.retry.30s")
	require.True(t, ok)
	require.Equal(t, 30*time.Second, s.Delay)
	require.Equal(t, 3, s.Retry.Attempts())
}

func TestTheFirstSourceThatMatchesCounts(t *testing.T) {
	c := load(t, `
sources:
- topics: [orders-delay]
- topics: ["*-delay", "?x"]
  dead_letter_topic: morgue
- topics: ["a*"]
`)
	for topic, want := range map[string]int{
		"orders-delay": 0, "other-delay": 1, "-delay": 1, "yx": 1, "ax": 1, "abc": 2, "a": 2,
		"yyx": -1, "orders": -1, "morgue": -1, "a-dlq": -1, "__a-delay": -1, "": -1, "Orders-Delay": -1,
	} {
		got, ok := c.SourceFor(topic)
		require.Equal(t, want >= 0, ok, topic)
		if ok {
			require.Same(t, &c.Sources[want], got, topic)
		}
	}
}

func TestASourcesOwnTargetRulesReplaceTheGlobalOnes(t *testing.T) {
	c := load(t, `
targets: {allow: [a], deny: [b]}
sources:
- topics: [one]
- topics: [two]
  targets: {deny: [c]}
`)
	require.Equal(t, TargetRules{Allow: []string{"a"}, Deny: []string{"b"}}, c.TargetsOf(&c.Sources[0]))
	require.Equal(t, TargetRules{Deny: []string{"c"}}, c.TargetsOf(&c.Sources[1]))
}

func TestShadowedPatternsAreWarnedOf(t *testing.T) {
	c := load(t, `
sources:
- topics: ["*-delay"]
- topics: [orders-delay, orders-retry, "*-retry"]
- topics: ["x*-retry", "*y"]
`)
	require.Equal(t, []string{
		"sources[1].topics[0] (orders-delay) never decides: the first match wins, and sources[0].topics[0] (*-delay) matches all that it does",
		"sources[2].topics[0] (x*-retry) never decides: the first match wins, and sources[1].topics[2] (*-retry) matches all that it does",
	}, c.Warnings())
}

func TestALongSessionOfADynamicMemberIsWarnedOf(t *testing.T) {
	require.Len(t, load(t, "group: {session_timeout: 5m}").Warnings(), 1)
	require.Empty(t, load(t, "group: {session_timeout: 5m, instance_id: a}").Warnings())
}

func TestCoversComparesPatterns(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, other string
		want           bool
	}{
		{"*", "", true},
		{"*", "*", true},
		{"*", "a?*", true},
		{"a", "a", true},
		{"a", "b", false},
		{"a", "?", false},
		{"?", "a", true},
		{"?", "?", true},
		{"?", "*", false},
		{"?*", "*", false},
		{"?*", "a*", true},
		{"a*", "*", false},
		{"a*c", "abc", true},
		{"a*c", "a*bc", true},
		{"a*c", "a*b", false},
		{"*a*", "bab", true},
		{"", "", true},
		{"", "a", false},
		{"**", "x", true},
		{"a?c", "a*c", false},
	} {
		require.Equal(t, tt.want, covers(tt.pattern, tt.other), "%+v", tt)
	}
}

func TestBytesAreReadAndWritten(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Bytes{
		"0": 0, "1": 1, "1023": 1023, "1KiB": kib, "1536KiB": 1536 * kib, "256MiB": 256 * mib, "3GiB": 3 * gib, "2TiB": 2048 * gib, "-1MiB": -mib,
	} {
		got, err := parseBytes(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got)
		require.Equal(t, text, got.String())
	}
	require.Equal(t, "1MiB", Bytes(1048576).String())
	for _, text := range []string{"", "KiB", "1kb", "1.5GiB", "1 MB", "0x10", "9223372036854775808", "9007199254740992KiB", "1e3", "٣"} {
		_, err := parseBytes(text)
		require.ErrorIs(t, err, errBytes, text)
	}
	spaced, err := parseBytes("64 MiB")
	require.NoError(t, err)
	require.Equal(t, Bytes(64*mib), spaced)
}

func TestDurationsAreReadAndWritten(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0s": 0, "5ms": 5 * time.Millisecond, "1.5s": 1500 * time.Millisecond, "1m": time.Minute, "1m30s": 90 * time.Second,
		"1h": time.Hour, "1h30m": 90 * time.Minute, "1h0m1s": time.Hour + time.Second, "1d": day, "90d": 90 * day, "36500d": 36500 * day, "-5s": -5 * time.Second,
	} {
		got, err := parseDuration(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
		require.Equal(t, text, formatDuration(got))
	}
	for text, want := range map[string]time.Duration{"1d12h": 36 * time.Hour, "-1d12h": -36 * time.Hour, "0d": 0, "1d0s": day, "48h": 2 * day, "0": 0} {
		got, err := parseDuration(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "d", "5", "1.5d", "1d-1h", "1d+1h", "1d1d", "106752d", "106751d24h", "-106752d", "9223372036855000000ms", "1 d", "soon"} {
		_, err := parseDuration(text)
		require.ErrorIs(t, err, errDuration, text)
	}
	for _, d := range []time.Duration{math.MaxInt64, math.MinInt64 + 1, 25 * time.Hour, 1} {
		again, err := parseDuration(formatDuration(d))
		require.NoError(t, err)
		require.Equal(t, d, again)
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	t.Parallel()
	type section struct {
		Password Secret `mapstructure:"password"`
		Empty    Secret `mapstructure:"empty"`
	}
	s := section{Password: "hunter2"}
	require.Equal(t, "hunter2", s.Password.Reveal())
	j, err := json.Marshal(s)
	require.NoError(t, err)
	w := writer{comment: func(reflect.Type, field) string { return "" }}
	w.section(reflect.ValueOf(s), "")
	for _, printed := range []string{fmt.Sprint(s), fmt.Sprintf("%v %+v %#v %s %q", s, s, s, s.Password, s.Password), string(j), w.String()} {
		require.NotContains(t, printed, "hunter2")
	}
	require.Equal(t, "password: \"***\"\nempty: \"\"\n", w.String())
}

func TestALongValueIsCutInAnError(t *testing.T) {
	t.Parallel()
	e := &FieldError{Path: "a", Value: string(make([]byte, 1000)), Want: "want b"}
	require.Less(t, len(e.Error()), 400)
}
