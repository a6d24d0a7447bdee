package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSyntaxErrorsNameTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"kafka:\n  brokers: [a:1\n":              "read scheduler.yaml: yaml: ",
		"kafka:\n\tbrokers: a\n":                 "line 2",
		"group: {}\n---\ngroup: {}\n":            "read scheduler.yaml: there is more than one document",
		"group: *nowhere\n":                      "unknown anchor",
		"kafka: {client_id: \"\x00\"}":           "control characters are not allowed",
		"- a\n- b\n":                             "the file (scheduler.yaml:1): want a mapping of keys to values",
		"just words":                             `the file is "just words" (scheduler.yaml:1): want a mapping of keys to values`,
		"kafka: {brokers: [a:1]}\n  group: {}\n": "line ",
	} {
		require.Contains(t, strings.Join(refused(t, text, nil), "\n"), want, text)
	}
}

func TestUnknownKeysNameTheirPathAndTheNearestKnownKey(t *testing.T) {
	for text, want := range map[string]string{
		"kafak: {}":                                         "kafak (scheduler.yaml:1): unknown key, the nearest known one is kafka",
		"kafka:\n  Brokers: []":                             "kafka.Brokers (scheduler.yaml:2): unknown key, the nearest known one is kafka.brokers",
		"brokers: [a:1]":                                    "brokers (scheduler.yaml:1): unknown key, the nearest known one is kafka.brokers",
		"kafka: {linger: 5ms}":                              "kafka.linger (scheduler.yaml:1): unknown key, the nearest known one is forward.linger",
		"sources:\n- topics: [a]\n  retries: {}":            "sources[0].retries (scheduler.yaml:3): unknown key, the nearest known one is sources[0].retry",
		"sources:\n- topics: [a]\n  targets: {alow: []}":    "sources[0].targets.alow (scheduler.yaml:3): unknown key, the nearest known one is sources[0].targets.allow",
		"sources:\n- topics: [a]\n  max_attempts: 3":        "sources[0].max_attempts (scheduler.yaml:3): unknown key, the nearest known one is sources[].retry.max_attempts",
		"kafka: {tls: {ca_fil: x}}":                         "kafka.tls.ca_fil (scheduler.yaml:1): unknown key, the nearest known one is kafka.tls.ca_file",
		"kafka: {sasl: {user: x}}":                          "kafka.sasl.user (scheduler.yaml:1): unknown key, the nearest known one is kafka.sasl.username",
		"delivery: exactly-once":                            "delivery (scheduler.yaml:1): unknown key, the nearest known one is ",
		"transaction: {}":                                   "transaction (scheduler.yaml:1): unknown key, the nearest known one is ",
		"sources: [{topics: [a], fixed: true}]":             "sources[0].fixed (scheduler.yaml:1): unknown key, the nearest known one is ",
		"sources: [{topics: [a], dialect: dotted}]":         "sources[0].dialect (scheduler.yaml:1): unknown key, the nearest known one is ",
		"base: &b {id: x}\ngroup:\n  <<: *b":                "group.<< (scheduler.yaml:3): unknown key",
		strings.Repeat("x", 100) + ": 1":                    "unknown key",
		"group: {id: a}\nhttp: {}\nlog: {}\ngroup: {id: b}": "group (scheduler.yaml:4): the key is there twice",
	} {
		require.Contains(t, strings.Join(refused(t, text, nil), "\n"), want, text)
	}
}

func TestValuesOfTheWrongShape(t *testing.T) {
	for text, want := range map[string]string{
		"kafka: localhost:9092":                       `kafka is "localhost:9092" (scheduler.yaml:1): want a mapping of keys to values`,
		"kafka: [a]":                                  "kafka (scheduler.yaml:1): want a mapping of keys to values",
		"kafka: {brokers: {a: 1}}":                    "kafka.brokers (scheduler.yaml:1): want a list, such as [a, b]",
		"kafka: {brokers: [[a]]}":                     "kafka.brokers[0] (scheduler.yaml:1): want a single value",
		"kafka: {brokers: [a:1, ]}\ngroup: {id: [a]}": "group.id (scheduler.yaml:2): want a single value",
		"kafka: {brokers: [a:1, ~, b:1]}":             "kafka.brokers[1] (scheduler.yaml:1): the item is empty",
		"sources: {topics: [a]}":                      "sources (scheduler.yaml:1): want a list of objects, each beginning with -",
		"sources: [a-delay]":                          `sources[0] is "a-delay" (scheduler.yaml:1): want a mapping of keys to values`,
		"sources:\n- topics: [a]\n-\n":                "sources[1] (scheduler.yaml:3): the item is empty",
		"sources: [{topics: [a], retry: true}]":       `sources[0].retry is "true" (scheduler.yaml:1): want a mapping of keys to values`,
	} {
		require.Equal(t, []string{want}, refused(t, text, nil), text)
	}
}

func TestLaterItemsKeepTheirNumberBehindABrokenOne(t *testing.T) {
	require.Equal(t, []string{
		`sources[0] is "oops" (scheduler.yaml:2): want a mapping of keys to values`,
		`sources[1].base is "now" (scheduler.yaml:4): want timestamp or origin-time`,
	}, refused(t, "sources:\n- oops\n- topics: [a]\n  base: now\n", nil))
}

func TestAnEmptyRetryBlockMakesARetrySource(t *testing.T) {
	c := load(t, "sources:\n- topics: [a]\n  retry: {}\n- topics: [b]\n")
	want := defaultRetry()
	want.MaxAttempts = 5
	require.Equal(t, &want, c.Sources[0].Retry)
	require.Nil(t, c.Sources[1].Retry)
}

func TestAliasesAreFollowedButCannotExplode(t *testing.T) {
	c := load(t, `
sources:
- topics: [a]
  targets: &t {allow: [x]}
- topics: [b]
  targets: *t
`)
	require.Equal(t, []string{"x"}, c.Sources[1].Targets.Allow)

	var b strings.Builder
	b.WriteString("sources:\n- topics: &big [" + strings.Repeat("a,", 1000) + "a]\n")
	for range 1000 {
		b.WriteString("- topics: *big\n")
	}
	require.Equal(t, []string{"read scheduler.yaml: it unfolds to more than 100000 values"}, refused(t, b.String(), nil))
}

func TestAFileFullOfMistakesIsNotReportedWhole(t *testing.T) {
	require.Len(t, refused(t, strings.Repeat("x: 1\n", 50)+strings.Repeat("y: 1\n", 500), nil), maxProblems)
}

// FuzzLoad: whatever a file holds, Load
//   - does not panic, and comes back soon;
//   - gives either a configuration or an error that says something;
//   - gives only what Validate accepts and Show writes so that it loads the same again.
func FuzzLoad(f *testing.F) {
	f.Add(DefaultYAML())
	f.Add("kafka: &a [*a]")
	f.Add("sources: [{topics: [a], retry: {steps: [1s, -1s, 1e9h], jitter: .nan, multiplier: .inf}}]")
	f.Add("memory: {budget: 99999999999999999999MiB, max_in_flight: -1}\nhttp: {listen: \"[::1\"}")
	f.Add("sources: [{topics: [\"***\", \"\"], delay: 0, dead_letter_topic: a}, {topics: ~}]")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := build("fuzz.yaml", []byte(text), nil)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		require.NoError(t, c.Validate())
		c.Warnings()
		again, err := build("fuzz.yaml", []byte(c.Show()), nil)
		require.NoError(t, err, c.Show())
		require.Equal(t, c, again)
	})
}
