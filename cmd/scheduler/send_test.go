package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"delay-scheduler/app"
)

func TestValuesAndHeadersAreWrittenByteForByte(t *testing.T) {
	t.Parallel()
	brokers := broker(t, "orders-delay")
	path := file(t, "value", "from\x00a file\n")
	send := func(stdin string, args ...string) {
		requireOK(t, schedulerWith(t, stdin, append([]string{"send", "--brokers", brokers, "--topic", "orders-delay", "--target", "orders", "--delay", "1h"}, args...)...))
	}
	for name, c := range map[string]struct {
		stdin string
		args  []string
		value []byte
	}{
		"argument":       {args: []string{"hello"}, value: []byte("hello")},
		"file":           {args: []string{"--file", path}, value: []byte("from\x00a file\n")},
		"standard input": {stdin: "from a pipe\n", value: []byte("from a pipe\n")},
		"empty":          {value: []byte{}},
		"null":           {args: []string{"--null-value"}, value: nil},
	} {
		send(c.stdin, append(c.args, "--key", name, "--header", "a=1", "--header", "a=2", "--header", "null", "--header-binary", "b=00ff")...)
		r := readUntil(t, brokers, "orders-delay", func(r *kgo.Record) bool { return string(r.Key) == name })
		require.Equal(t, c.value, r.Value, name)
		require.Equal(t, []kgo.RecordHeader{
			{Key: "target-topic", Value: []byte("orders")},
			{Key: "delay-ms", Value: []byte("3600000")},
			{Key: "a", Value: []byte("1")},
			{Key: "a", Value: []byte("2")},
			{Key: "null"},
			{Key: "b", Value: []byte{0, 0xff}},
		}, r.Headers, name)
	}
	send("", "x")
	require.Nil(t, readUntil(t, brokers, "orders-delay", func(r *kgo.Record) bool { return string(r.Value) == "x" }).Key)
}

func TestAPointInTimeIsAskedForAsSuch(t *testing.T) {
	t.Parallel()
	brokers := broker(t, "orders-delay")

	r := requireOK(t, scheduler(t, "send", "--brokers", brokers, "--topic", "orders-delay", "--target", "orders", "--at", "2100-01-01T00:00:00Z", "x"))

	require.Contains(t, r.errOut, "DELAY_OUT_OF_RANGE", "90 days is the most by default")
	got := readUntil(t, brokers, "orders-delay", func(*kgo.Record) bool { return true })
	require.Equal(t, "4102444800000", header(got, "deliver-at"))
}

func TestRecordsAreWrittenAtTheirRate(t *testing.T) {
	t.Parallel()
	brokers := broker(t, "orders-delay")
	began := time.Now()

	r := parse[app.SendResult](t, requireOK(t, scheduler(t, "send", "--brokers", brokers, "--topic", "orders-delay", "--target", "orders",
		"--delay", "1h", "--count", "21", "--rate", "40", "-o", "json", "x")))

	require.Equal(t, 21, r.Written)
	require.Len(t, r.Records, 21)
	require.GreaterOrEqual(t, time.Since(began), 500*time.Millisecond)
}

func TestUnknownTopicIsNamedWithHowToMakeIt(t *testing.T) {
	t.Parallel()
	brokers := broker(t)

	r := scheduler(t, "send", "--brokers", brokers, "--topic", "orders-delay", "--target", "orders", "--delay", "1s", "x")

	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.errOut, "topic orders-delay: the topic does not exist")
	require.Contains(t, r.errOut, "--create --topic orders-delay")
	require.Contains(t, r.errOut, brokers)
}

func TestWhatDoesNotComeOutIsMissing(t *testing.T) {
	t.Parallel()
	brokers := broker(t, "orders-delay") // nobody reads it

	r := scheduler(t, "send", "--brokers", brokers, "--topic", "orders-delay", "--target", "orders", "--delay", "100ms", "--wait", "--timeout", "200ms", "x")

	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.out, "1 came out neither in orders nor in the dead-letter topic")
}

func TestATopicThatIsNoSourceIsWarnedAbout(t *testing.T) {
	t.Parallel()
	brokers := broker(t, "orders")

	r := requireOK(t, scheduler(t, "send", "--brokers", brokers, "--topic", "orders", "--target", "invoices", "--delay", "1s", "x"))

	require.Contains(t, r.errOut, "no source of the configuration matches")
}

func TestWrongBrokerAddressNamesTheKey(t *testing.T) {
	t.Parallel()
	const nobody = "127.0.0.1:1"
	for _, args := range []string{
		"send --topic a-delay --target a --delay 1s x", "send --topic a-delay --target a --delay 1s --wait x",
		"offsets show", "explain a-delay/0/0",
	} {
		r := scheduler(t, append(strings.Fields(args), "--brokers", nobody)...)
		require.Equal(t, exitFailure, r.code)
		require.Contains(t, r.errOut, nobody, args)
		require.Contains(t, r.errOut, "kafka.brokers", args)
	}

	// The service keeps trying, and says why it is not ready.
	service := start(t, "run", "--brokers", nobody, "--http-listen", "127.0.0.1:0", "--log-format", "console")
	service.await("kafka.brokers")
	require.Equal(t, exitOK, service.stop())
}

func TestExplainSaysWhyARecordIsRefused(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--topic a-delay --header target-topic=a --header delay-ms=1e3":            "MALFORMED_HEADER",
		"--topic a-delay --header target-topic=__a --header delay-ms=1":            "TARGET_REFUSED",
		"--topic a-delay --header target-topic=a --header delay-ms=99999999999999": "DELAY_OUT_OF_RANGE",
		"--topic a-retry --header retry-count=6":                                   "MAX_RETRY_EXCEEDED",
	} {
		r := scheduler(t, append([]string{"explain", "-o", "json"}, strings.Fields(args)...)...)
		require.Equal(t, exitFailure, r.code)
		e := parse[app.Explanation](t, r)
		require.Equal(t, want, e.Refused.Reason)
		require.Equal(t, "a-dlq", e.DeadLetter)
		require.Contains(t, scheduler(t, append([]string{"explain"}, strings.Fields(args)...)...).out, want)
	}
}

func TestExplainFollowsTheConfiguration(t *testing.T) {
	t.Parallel()
	path := file(t, "scheduler.yaml", "sources: [{topics: [a-delay], base: origin-time, delay: 1m, dead_letter_topic: graves}]\n")

	e := parse[app.Explanation](t, requireOK(t, scheduler(t, "explain", "-c", path, "-o", "json", "--topic", "a-delay",
		"--header", "target-topic=a", "--header", "origin-time=1700000000000")))

	require.EqualValues(t, 1_700_000_060_000, e.DueMS)
	require.Equal(t, "graves", e.DeadLetter)
	require.Equal(t, "the header origin-time", e.BaseFrom)
	require.Equal(t, "a-delay/<partition>/<offset>", e.DelayID[:strings.LastIndex(e.DelayID, "/")])
	r := scheduler(t, "explain", "-c", path, "--topic", "b-delay")
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.errOut, "no source of the configuration matches")
}

func TestRecordsThatAreNotThereAreNamed(t *testing.T) {
	t.Parallel()
	brokers := broker(t, "orders-delay")
	for place, want := range map[string]string{
		"orders-delay/0/7": "there is no record", "orders-delay/7/0": "the topic has 2 partitions", "other-delay/0/0": "the topic does not exist",
	} {
		r := scheduler(t, "explain", "--brokers", brokers, place)
		require.Equal(t, exitFailure, r.code)
		require.Contains(t, r.errOut, want)
	}
}
