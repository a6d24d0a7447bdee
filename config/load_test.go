package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func writeFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "scheduler.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// load reads a file that must be right.
func load(t testing.TB, text string) *Config {
	t.Helper()
	c, err := Load(writeFile(t, text), nil)
	require.NoError(t, err)
	return c
}

// refused reads a file that must be wrong, and gives what is said of it without the
// folder of the file.
func refused(t testing.TB, text string, overrides map[string]string) []string {
	t.Helper()
	path := writeFile(t, text)
	_, err := Load(path, overrides)
	require.Error(t, err, text)
	return strings.Split(strings.ReplaceAll(err.Error(), filepath.Dir(path)+"/", ""), "\n")
}

func TestNothingAtAllIsTheDefault(t *testing.T) {
	c, err := Load("", nil)
	require.NoError(t, err)
	require.Equal(t, Default(), c)
	require.NoError(t, c.Validate())
	for _, text := range []string{"", "\n# nothing\n", "---\n", "{}", "kafka:\ngroup: ~\nsources: null\n"} {
		require.Equal(t, Default(), load(t, text), text)
	}
}

func TestTheDefaultFileIsTheDefault(t *testing.T) {
	require.Equal(t, Default(), load(t, DefaultYAML()))
}

func TestWhatIsShownCanBeLoadedAgain(t *testing.T) {
	c := load(t, `
kafka: {brokers: ["a:1", "[::1]:2"], client_id: "null", version: "3.9"}
group: {id: "it's: a \"group\" #1", instance_id: "17"}
sources:
  - {topics: ["*"], delay: 1d, targets: {allow: [a, "b*"]}}
  - {topics: [x.retry], max_delay: 36h, dead_letter_topic: x-dlq, retry: {steps: [30s, 1h30m], jitter: 0.25, max_age: 1d}}
`[1:])
	require.Equal(t, c, load(t, c.Show()), c.Show())
	require.Equal(t, Default(), load(t, Default().Show()))
}

func TestEveryKeyOfTheFileArrives(t *testing.T) {
	c := load(t, `
kafka: {brokers: [a:9092, b:9093], client_id: me, version: 3.7.2, metadata_refresh: 5s}
group: {id: g, instance_id: i-0, session_timeout: 45s, rebalance_timeout: 2m, rebalance_drain: 500ms}
sources:
  - topics: [a-delay, "b*"]
    delay: 30s
    base: origin-time
    targets: {allow: [x*], deny: [xy]}
    max_delay: 365d
    dead_letter_topic: dead
  - topics: ["*-retry"]
    retry: {accept_bare: true, initial: 2s, multiplier: 1.5, max_interval: 10m, jitter: 0, max_attempts: 7, max_age: 1d12h}
targets: {allow: [orders], deny: ["secret*"], allow_sources: true, max_hops: 3}
memory: {budget: 2GiB, max_in_flight: 67108864}
forward: {timestamp: source, give_up_after: 1m, max_lanes: 5, compression: lz4, linger: 0s}
commit: {interval: 250ms, metadata_limit: 8192}
clock: {max_skew: 10s, on_jump: send}
http: {listen: ":9999", pprof: true}
log: {level: debug, format: console}
shutdown: {drain_timeout: 3s}
`)
	require.Equal(t, Kafka{Brokers: []string{"a:9092", "b:9093"}, ClientID: "me", Version: "3.7.2", MetadataRefresh: 5 * time.Second, SASL: SASL{Mechanism: "none"}}, c.Kafka)
	require.Equal(t, Group{ID: "g", InstanceID: "i-0", SessionTimeout: 45 * time.Second, RebalanceTimeout: 2 * time.Minute, RebalanceDrain: 500 * time.Millisecond}, c.Group)
	require.Equal(t, []Source{
		{
			Topics: []string{"a-delay", "b*"}, Delay: 30 * time.Second, Base: "origin-time", MaxDelay: 365 * day, DeadLetterTopic: "dead",
			Targets: TargetRules{Allow: []string{"x*"}, Deny: []string{"xy"}},
		},
		{Topics: []string{"*-retry"}, Base: "timestamp", MaxDelay: 90 * day, Retry: &Retry{
			AcceptBare: true, Initial: 2 * time.Second, Multiplier: 1.5, MaxInterval: 10 * time.Minute, MaxAttempts: 7, MaxAge: 36 * time.Hour,
		}},
	}, c.Sources)
	require.Equal(t, Targets{Allow: []string{"orders"}, Deny: []string{"secret*"}, AllowSources: true, MaxHops: 3}, c.Targets)
	require.Equal(t, Memory{Budget: 2 * gib, MaxInFlight: 64 * mib}, c.Memory)
	require.Equal(t, Forward{Timestamp: "source", GiveUpAfter: time.Minute, MaxLanes: 5, Compression: "lz4"}, c.Forward)
	require.Equal(t, Commit{Interval: 250 * time.Millisecond, MetadataLimit: 8192}, c.Commit)
	require.Equal(t, Clock{MaxSkew: 10 * time.Second, OnJump: "send"}, c.Clock)
	require.Equal(t, HTTP{Listen: ":9999", PProf: true}, c.HTTP)
	require.Equal(t, Log{Level: "debug", Format: "console"}, c.Log)
	require.Equal(t, Shutdown{DrainTimeout: 3 * time.Second}, c.Shutdown)
	require.Len(t, c.Warnings(), 1, "http.listen is not this machine's alone")
}

func TestFlagWinsOverEnvironmentOverFileOverDefault(t *testing.T) {
	path := writeFile(t, "group: {id: from-file}\nforward: {linger: 7ms}\n")
	id := func(overrides map[string]string) string {
		c, err := Load(path, overrides)
		require.NoError(t, err)
		require.Equal(t, 7*time.Millisecond, c.Forward.Linger)
		return c.Group.ID
	}
	require.Equal(t, "from-file", id(nil))
	t.Setenv("SCHEDULER_GROUP_ID", "from-environment")
	require.Equal(t, "from-environment", id(nil))
	require.Equal(t, "from-flag", id(map[string]string{"group.id": "from-flag"}))
	t.Setenv("SCHEDULER_GROUP_ID", "")
	require.Equal(t, "from-file", id(nil), "an empty variable counts as not set")
}

func TestEveryKeyOutsideListsCanBeSetByEnvironment(t *testing.T) {
	for path, value := range map[string]string{
		"kafka.brokers": "a:1, b:2,", "kafka.client_id": "x", "kafka.version": "4.0", "kafka.metadata_refresh": "9s",
		"group.id": "x", "group.instance_id": "x", "group.session_timeout": "9s", "group.rebalance_timeout": "20s", "group.rebalance_drain": "1s",
		"targets.allow": "a*,b", "targets.deny": "c", "targets.allow_sources": "true", "targets.max_hops": "2",
		"memory.budget": "1GiB", "memory.max_in_flight": "1MiB",
		"forward.timestamp": "source", "forward.keep_scheduling_headers": "false", "forward.give_up_after": "1d",
		"forward.max_lanes": "9", "forward.compression": "zstd", "forward.linger": "1ms",
		"commit.interval": "2s", "commit.metadata_limit": "1000", "clock.max_skew": "2s", "clock.on_jump": "send",
		"http.listen": "localhost:1", "http.token": "x", "http.pprof": "true", "log.level": "warn", "log.format": "console", "shutdown.drain_timeout": "1s",
	} {
		t.Run(path, func(t *testing.T) {
			t.Setenv(envName(path), value)
			byEnvironment, err := Load("", nil)
			require.NoError(t, err)
			require.Empty(t, byEnvironment.Warnings())
			t.Setenv(envName(path), "")
			byFlag, err := Load("", map[string]string{path: value})
			require.NoError(t, err)
			require.Equal(t, byFlag, byEnvironment)
			if value != "false" {
				require.NotEqual(t, Default(), byEnvironment)
			}
		})
	}
	require.Len(t, settable(configType, ""), 44, "31 keys above, sources, and 12 in the test of secured settings")
}

func TestListsFromTheEnvironmentAreSeparatedByCommas(t *testing.T) {
	t.Setenv("SCHEDULER_KAFKA_BROKERS", "a:9092, b:9092,")
	c, err := Load("", nil)
	require.NoError(t, err)
	require.Equal(t, []string{"a:9092", "b:9092"}, c.Kafka.Brokers)
}

func TestWhereAWrongValueComesFromIsSaid(t *testing.T) {
	t.Setenv("SCHEDULER_FORWARD_LINGER", "quick")
	t.Setenv("SCHEDULER_SOURCES", "orders-delay")
	require.Equal(t, []string{
		`sources is "orders-delay" (SCHEDULER_SOURCES): a list of objects can be set in the file only`,
		`forward.linger is "quick" (SCHEDULER_FORWARD_LINGER): want a duration with a unit, such as 500ms, 30s, 5m, 1h or 90d`,
		`log.level is "loud" (flag): want debug, info, warn or error`,
		`clock.on_jump is "run" (scheduler.yaml:2): want hold or send`,
	}, sorted(refused(t, "clock:\n  on_jump: run\nforward: {linger: 5ms}\n", map[string]string{"log.level": "loud"}),
		"sources", "forward", "log", "clock"))
}

// sorted puts lines in the order of the sections given.
func sorted(lines []string, sections ...string) []string {
	var out []string
	for _, s := range sections {
		for _, line := range lines {
			if strings.HasPrefix(line, s) {
				out = append(out, line)
			}
		}
	}
	return out
}

func TestVariablesThatSetNothingAreWarnedOf(t *testing.T) {
	t.Setenv("SCHEDULER_KAFKA_BROKER", "a:1")
	t.Setenv("SCHEDULER_PORT_8080_TCP", "tcp://10.0.0.1:8080")
	t.Setenv("SCHEDULER_SERVICE_HOST", "10.0.0.1")
	c, err := Load("", nil)
	require.NoError(t, err)
	require.Equal(t, []string{"environment variable SCHEDULER_KAFKA_BROKER sets nothing, the nearest known one is SCHEDULER_KAFKA_BROKERS"}, c.Warnings())
}

func TestFlagsOfTheCommonKeysAndSet(t *testing.T) {
	parse := func(args ...string) (map[string]string, error) {
		fs := pflag.NewFlagSet("run", pflag.ContinueOnError)
		given := AddFlags(fs)
		require.NoError(t, fs.Parse(args))
		return given()
	}
	none, err := parse()
	require.NoError(t, err)
	require.Empty(t, none)

	all, err := parse("--brokers", "a:1,b:2", "--group-id=g", "--instance-id=i", "--memory-budget=64MiB", "--http-listen=:1",
		"--log-level=warn", "--log-format=console", "--set", "forward.linger=9ms", "--set", "targets.allow=a,b", "--set", "group.id=loses")
	require.NoError(t, err)
	c, err := Load("", all)
	require.NoError(t, err)
	require.Equal(t, []string{"a:1", "b:2"}, c.Kafka.Brokers)
	require.Equal(t, "g", c.Group.ID)
	require.Equal(t, "i", c.Group.InstanceID)
	require.Equal(t, Bytes(64*mib), c.Memory.Budget)
	require.Equal(t, ":1", c.HTTP.Listen)
	require.Equal(t, Log{Level: "warn", Format: "console"}, c.Log)
	require.Equal(t, 9*time.Millisecond, c.Forward.Linger)
	require.Equal(t, []string{"a", "b"}, c.Targets.Allow)

	_, err = parse("--set", "linger")
	require.EqualError(t, err, `--set is "linger", must be path=value, such as forward.linger=20ms`)
	for _, f := range flagged {
		require.Contains(t, settable(configType, ""), f.path)
	}
}

func TestUnknownFlagPathIsAnError(t *testing.T) {
	require.Equal(t, []string{
		`kafka is "x" (flag): unknown key, the nearest known one is kafka`,
		`kafka.brokr is "a:1" (flag): unknown key, the nearest known one is kafka.brokers`,
	}, refused(t, "", map[string]string{"kafka.brokr": "a:1", "kafka": "x"}))
}

func TestAFileThatIsNotThereOrNoFile(t *testing.T) {
	folder := t.TempDir()
	_, err := Load(filepath.Join(folder, "none.yaml"), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "none.yaml")
	_, err = Load(folder, nil)
	require.ErrorContains(t, err, folder)
	huge := writeFile(t, strings.Repeat("#\n", maxFile))
	_, err = Load(huge, nil)
	require.ErrorContains(t, err, "8MiB is more than a configuration can have")
}

func TestAConfigurationWithFiveMistakesShowsAllFive(t *testing.T) {
	path := writeFile(t, `kafka:
  broker: [a:9092]
group:
  rebalance_drain: 2m
sources:
  - topics: ["*-delay"]
  - topics: ["*-retry"]
    retry:
      max_atempts: 3
      jitter: 1.5
forward:
  linger: 5
`)
	_, err := Load(path, nil)
	require.Error(t, err)
	folder := filepath.Dir(path) + "/"
	require.Equal(t, strings.Split(`kafka.broker (scheduler.yaml:2): unknown key, the nearest known one is kafka.brokers
sources[1].retry.max_atempts (scheduler.yaml:9): unknown key, the nearest known one is sources[1].retry.max_attempts
forward.linger is "5" (scheduler.yaml:12): want a duration with a unit, such as 500ms, 30s, 5m, 1h or 90d
sources[1].retry.jitter is "1.5" (scheduler.yaml:10): want 0 to 1
group.rebalance_drain is "2m" (scheduler.yaml:4): want less than group.rebalance_timeout (1m)`, "\n"),
		strings.Split(strings.ReplaceAll(err.Error(), folder, ""), "\n"))

	var all interface{ Unwrap() []error }
	require.ErrorAs(t, err, &all)
	require.Len(t, all.Unwrap(), 5)
	for _, e := range all.Unwrap() {
		var f *FieldError
		require.True(t, errors.As(e, &f))
		require.NotEmpty(t, f.Path)
		require.NotEmpty(t, f.Want)
		require.NotEmpty(t, f.Where)
	}
}
