package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"delay-scheduler/app"
	"delay-scheduler/delay"
)

// client is another program's.
func client(t *testing.T, brokers string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(brokers))...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// readUntil reads a topic from its start until a record is found.
func readUntil(t *testing.T, brokers, topic string, found func(*kgo.Record) bool) *kgo.Record {
	t.Helper()
	c := client(t, brokers, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		fetches := c.PollFetches(ctx)
		require.NoError(t, ctx.Err(), "no such record in %s", topic)
		for _, r := range fetches.Records() {
			if found(r) {
				return r
			}
		}
	}
}

func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

func TestARecordSentToDevArrivesAndIsShown(t *testing.T) {
	t.Parallel()
	_, brokers, url := dev(t, t.TempDir())

	sent := parse[app.SendResult](t, requireOK(t, scheduler(t, "send", "--brokers", brokers, "--topic", "orders-delay", "--target", "orders",
		"--delay", "300ms", "--key", "order-1", "--header", "trace=abc", "--wait", "-o", "json", "hello")))

	require.Equal(t, 1, sent.Arrived)
	require.Zero(t, sent.Missing+sent.Early+sent.Duplicates+sent.DeadLettered)
	one := sent.Records[0]
	require.Equal(t, 300*time.Millisecond, one.Due.Sub(one.Written))
	require.Equal(t, "orders", one.Arrival.Topic)
	require.GreaterOrEqual(t, one.Arrival.Late, time.Duration(0))
	r := readUntil(t, brokers, "orders", func(*kgo.Record) bool { return true })
	require.Equal(t, "order-1", string(r.Key))
	require.Equal(t, "hello", string(r.Value))
	require.Equal(t, "abc", header(r, "trace"))
	require.Equal(t, one.ID, header(r, delay.HeaderDelayID))

	place := "orders-delay/" + strconv.Itoa(int(one.Partition)) + "/" + strconv.FormatInt(one.Offset, 10)
	e := parse[app.Explanation](t, requireOK(t, scheduler(t, "explain", "--brokers", brokers, "-o", "json", place)))
	require.Equal(t, one.ID, e.DelayID)
	require.Equal(t, one.Due.UnixMilli(), e.DueMS)
	require.Equal(t, "orders", e.Target)

	require.Equal(t, "ready\n", requireOK(t, scheduler(t, "health", "--url", url, "--strict")).out)
	require.True(t, parse[app.Health](t, requireOK(t, scheduler(t, "health", "--url", url, "-o", "json"))).Ready)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/status", nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&app.Status{}))
}

func TestPendingRecordsAreSeenAndOutliveDev(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	first, brokers, _ := dev(t, data)
	send := func(wait string, more ...string) app.SendResult {
		args := []string{"send", "--brokers", brokers, "--topic", "orders-delay", "--target", "orders", "--key", "one-partition", "--delay", wait, "-o", "json", wait}
		return parse[app.SendResult](t, requireOK(t, scheduler(t, append(args, more...)...)))
	}
	late := send("5s").Records[0]
	require.Equal(t, 10, send("100ms", "--count", "10", "--wait").Arrived)

	// What is done above the pending record is known once it is committed.
	mine := func() app.PartitionOffsets {
		all := parse[[]app.PartitionOffsets](t, requireOK(t, scheduler(t, "offsets", "show", "--brokers", brokers, "--topic", "orders-delay", "-o", "json")))
		return all[late.Partition]
	}
	require.Eventually(t, func() bool { n, exact, _ := new(mine()).Estimate(); return exact && n == 1 }, 10*time.Second, 100*time.Millisecond)
	p := mine()
	require.Equal(t, late.Offset, *p.Committed)
	require.EqualValues(t, 11, p.Lag)
	require.NotNil(t, p.Horizon)
	require.Empty(t, p.Problem)
	require.Equal(t, late.Due.UnixMilli(), p.Counted.NextDue.UnixMilli())
	require.Contains(t, requireOK(t, scheduler(t, "offsets", "show", "--brokers", brokers)).out, "orders-delay/"+strconv.Itoa(int(late.Partition)))

	require.Equal(t, exitOK, first.stop(), first.errOut.String())
	require.Contains(t, first.out.String(), "stopped")
	_, brokers, _ = dev(t, data)

	r := readUntil(t, brokers, "orders", func(r *kgo.Record) bool { return string(r.Value) == "5s" })
	require.Equal(t, late.ID, header(r, delay.HeaderDelayID))
	require.GreaterOrEqual(t, r.Timestamp.UnixMilli(), late.Due.UnixMilli())
}

func TestDevMakesWhatIsNamed(t *testing.T) {
	t.Parallel()
	_, brokers, _ := dev(t, t.TempDir(), "--topic", "payments-delay")

	for _, topic := range []string{"payments-delay", "never-heard-of-delay"} {
		target := "made-for-" + strings.TrimSuffix(topic, "-delay")
		r := parse[app.SendResult](t, requireOK(t, scheduler(t, "send", "--brokers", brokers, "--topic", topic, "--target", target,
			"--delay", "10ms", "--wait", "-o", "json", "x")))
		require.Equal(t, target, r.Records[0].Arrival.Topic)
	}
}

func TestWhatIsRefusedComesOutInTheDeadLetterTopicWithItsReason(t *testing.T) {
	t.Parallel()
	_, brokers, _ := dev(t, t.TempDir())

	r := scheduler(t, "send", "--brokers", brokers, "--topic", "orders-delay", "--target", "orders", "--header", "delay-ms=50ms", "--wait", "x")

	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.errOut, "warning: this will be refused: MALFORMED_HEADER")
	require.Contains(t, r.out, "orders-dlq/0/0, MALFORMED_HEADER: delay-ms \"50ms\"")
}

func TestARetryComesBackWhenItsPolicySays(t *testing.T) {
	t.Parallel()
	_, brokers, _ := dev(t, t.TempDir())

	r := parse[app.SendResult](t, requireOK(t, scheduler(t, "send", "--brokers", brokers, "--topic", "orders-retry",
		"--header", "retry-count=1", "--wait", "-o", "json", "x")))

	one := r.Records[0]
	require.Equal(t, "orders", one.Arrival.Topic)
	e := parse[app.Explanation](t, requireOK(t, scheduler(t, "explain", "--brokers", brokers, "-o", "json", "orders-retry",
		strconv.Itoa(int(one.Partition)), strconv.FormatInt(one.Offset, 10))))
	require.Equal(t, one.Due.UnixMilli(), e.DueMS, "what explain says is what the service did, jitter included")
	require.EqualValues(t, 1, e.Attempt)
}

func TestPortOfTheBrokerInUseNamesTheFlag(t *testing.T) {
	t.Parallel()
	_, brokers, url := dev(t, t.TempDir())

	r := scheduler(t, "dev", "--data", t.TempDir(), "--listen", brokers, "--http", "127.0.0.1:0")
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.errOut, brokers)
	require.Contains(t, r.errOut, "--listen 127.0.0.1:PORT")

	address := url[len("http://"):]
	r = scheduler(t, "dev", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--http", address)
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.errOut, address)
	require.Contains(t, r.errOut, "--http 127.0.0.1:0")

	r = scheduler(t, "run", "--brokers", brokers, "--http-listen", address)
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.errOut, address)
	require.Contains(t, r.errOut, "http.listen")
}

func TestDataDirectoryThatCannotBeWrittenIsNamed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(file(t, "file", ""), "data")

	r := scheduler(t, "dev", "--data", dir, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")

	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.errOut, dir)
	require.Contains(t, r.errOut, "--data DIR")
}

func TestDevHasOneDirectoryForEachUser(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_DATA_HOME", home)

	dir, err := app.DevData()

	require.NoError(t, err)
	require.Equal(t, filepath.Join(home, "delay-scheduler", "dev"), dir)
	require.NoDirExists(t, dir)
	again, err := app.DevData()
	require.NoError(t, err)
	require.Equal(t, dir, again)
	_, err = os.Stat(home)
	require.NoError(t, err)
}
