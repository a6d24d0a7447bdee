package devbroker_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"delay-scheduler/devbroker"
)

func start(t *testing.T, o devbroker.Options) *devbroker.Broker {
	t.Helper()
	broker, err := devbroker.Start(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, broker.Close()) })
	return broker
}

func connect(t *testing.T, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addr)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// read returns the values of the first n records of the topic.
func read(t *testing.T, addr, topic string, n int) []string {
	t.Helper()
	client := connect(t, addr, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	var values []string
	for ctx := within(t, 10*time.Second); len(values) < n; {
		fetches := client.PollFetches(ctx)
		require.NoError(t, ctx.Err(), "read %d of %d records of %s", len(values), n, topic)
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values
}

func produce(t *testing.T, client *kgo.Client, topic string, n int) (values []string) {
	t.Helper()
	for i := range n {
		value := fmt.Sprintf("%s-%d", topic, i)
		record := &kgo.Record{Topic: topic, Value: []byte(value), Headers: []kgo.RecordHeader{{Key: "delay-ms", Value: []byte("1")}}}
		require.NoError(t, client.ProduceSync(within(t, 10*time.Second), record).FirstErr())
		values = append(values, value)
	}
	return values
}

func TestStartMakesTheTopicsItIsGiven(t *testing.T) {
	broker := start(t, devbroker.Options{
		Topics:     []devbroker.Topic{{Name: "a-delay", Partitions: 7}, {Name: "b-delay"}},
		Partitions: 2,
	})

	topics, err := kadm.NewClient(connect(t, broker.Addr())).ListTopics(t.Context())

	require.NoError(t, err)
	require.Len(t, topics["a-delay"].Partitions, 7)
	require.Len(t, topics["b-delay"].Partitions, 2)
}

func TestCreateTopicLeavesAnExistingTopicAsItIs(t *testing.T) {
	broker := start(t, devbroker.Options{Topics: []devbroker.Topic{{Name: "a", Partitions: 3}}})

	require.NoError(t, broker.CreateTopic("a", 9))

	topics, err := kadm.NewClient(connect(t, broker.Addr())).ListTopics(t.Context(), "a")
	require.NoError(t, err)
	require.Len(t, topics["a"].Partitions, 3)
}

func TestCreateTopicNamesWhatItCouldNotMake(t *testing.T) {
	broker := start(t, devbroker.Options{})

	err := broker.CreateTopic("not/a/topic", 1)

	require.ErrorIs(t, err, kerr.InvalidTopicException)
	require.ErrorContains(t, err, "not/a/topic")
}

func TestMissingTopicIsMadeOnFirstUse(t *testing.T) {
	broker := start(t, devbroker.Options{AutoCreate: true, Partitions: 3})
	client := connect(t, broker.Addr(), kgo.AllowAutoTopicCreation())

	want := produce(t, client, "orders", 3)

	require.ElementsMatch(t, want, read(t, broker.Addr(), "orders", 3))
	topics, err := kadm.NewClient(client).ListTopics(t.Context(), "orders")
	require.NoError(t, err)
	require.Len(t, topics["orders"].Partitions, 3)
}

func TestMissingTopicIsNotMadeForWhoDoesNotAsk(t *testing.T) {
	for name, o := range map[string]devbroker.Options{
		"broker with creation":    {AutoCreate: true},
		"broker without creation": {},
	} {
		t.Run(name, func(t *testing.T) {
			broker := start(t, o)
			client := connect(t, broker.Addr())

			topics, err := kadm.NewClient(client).ListTopics(t.Context(), "orders")

			require.NoError(t, err)
			require.ErrorIs(t, topics["orders"].Err, kerr.UnknownTopicOrPartition)
		})
	}
}

func TestMissingTopicIsMadeForWhoDoesNotAskIfTheBrokerIsToldSo(t *testing.T) {
	broker := start(t, devbroker.Options{AutoCreateAlways: true, Partitions: 3})

	topics, err := kadm.NewClient(connect(t, broker.Addr())).ListTopics(t.Context(), "orders")

	require.NoError(t, err)
	require.Len(t, topics["orders"].Partitions, 3)
}

func TestUnusableTopicNameIsAnsweredNotMade(t *testing.T) {
	broker := start(t, devbroker.Options{AutoCreate: true})
	client := connect(t, broker.Addr(), kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(1))

	err := client.ProduceSync(within(t, 10*time.Second), &kgo.Record{Topic: "no/topic"}).FirstErr()

	require.Error(t, err)
}

func TestPortInUseSaysWhichAndWhatToDo(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()

	_, err = devbroker.Start(devbroker.Options{Listen: listener.Addr().String()})

	require.ErrorContains(t, err, listener.Addr().String())
	require.ErrorContains(t, err, "in use")
	require.ErrorContains(t, err, "--listen 127.0.0.1:PORT")
}

func TestUnusableAddressSaysWhatToDo(t *testing.T) {
	for address, what := range map[string]string{
		"9092":             "want host:port",
		"127.0.0.1:kafka?": "is no port",
		"127.0.0.1:70000":  "is no port",
		"203.0.113.7:9092": "--listen 127.0.0.1:PORT",
	} {
		_, err := devbroker.Start(devbroker.Options{Listen: address})
		require.ErrorContains(t, err, what, address)
		require.ErrorContains(t, err, address)
	}
}

func TestEveryInterfaceIsAdvertisedAsThisMachine(t *testing.T) {
	broker := start(t, devbroker.Options{Listen: "0.0.0.0:0", Topics: []devbroker.Topic{{Name: "a", Partitions: 1}}})

	host, _, err := net.SplitHostPort(broker.Addr())

	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", host)
	want := produce(t, connect(t, broker.Addr()), "a", 1)
	require.Equal(t, want, read(t, broker.Addr(), "a", 1))
}

func TestUnwritableDataDirectoryIsNamedWithTheReason(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))

	for _, dir := range []string{file, filepath.Join(file, "data")} {
		_, err := devbroker.Start(devbroker.Options{DataDir: dir})
		require.ErrorContains(t, err, "data directory "+dir)
		require.ErrorContains(t, err, "not a directory")
		require.ErrorContains(t, err, "--data DIR")
	}
}

func TestReadOnlyDataDirectoryIsNamedWithTheReason(t *testing.T) {
	dir := readOnlyDir(t)

	_, err := devbroker.Start(devbroker.Options{DataDir: dir})

	require.ErrorContains(t, err, "data directory "+dir+" cannot be")
	require.ErrorContains(t, err, "--data DIR")
}

// readOnlyDir is a directory that even root cannot write.
func readOnlyDir(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		dir := t.TempDir()
		require.NoError(t, os.Chmod(dir, 0o500))
		return dir
	}
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("root can write everywhere, and there is no /proc here")
	}
	return "/proc/self/fd"
}

func TestDataDirectoryHasOneBrokerAtATime(t *testing.T) {
	dir := t.TempDir()
	first, err := devbroker.Start(devbroker.Options{DataDir: dir})
	require.NoError(t, err)

	_, err = devbroker.Start(devbroker.Options{DataDir: dir})

	require.ErrorContains(t, err, "data directory "+dir)
	require.ErrorContains(t, err, "in use")
	require.NoError(t, first.Close())
	start(t, devbroker.Options{DataDir: dir})
}

func TestFailedStartLeavesThePortFree(t *testing.T) {
	dir := t.TempDir()
	start(t, devbroker.Options{DataDir: dir})
	free := start(t, devbroker.Options{})
	require.NoError(t, free.Close())

	_, err := devbroker.Start(devbroker.Options{Listen: free.Addr(), DataDir: dir})

	require.Error(t, err)
	start(t, devbroker.Options{Listen: free.Addr()})
}

func TestDamagedDataDirectoryIsNamed(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "meta.json"), []byte("{"), 0o600))

	_, err := devbroker.Start(devbroker.Options{DataDir: dir})

	require.ErrorContains(t, err, dir)
}

func TestCloseMayBeCalledAgain(t *testing.T) {
	broker := start(t, devbroker.Options{})

	require.NoError(t, broker.Close())
	require.NoError(t, broker.Close())
}

func TestCloseWithClientsConnectedEnds(t *testing.T) {
	broker := start(t, devbroker.Options{AutoCreate: true})
	client := connect(t, broker.Addr(), kgo.AllowAutoTopicCreation(), kgo.ConsumeTopics("a", "b"))
	produce(t, client, "a", 1)

	require.NoError(t, broker.Close())
}
