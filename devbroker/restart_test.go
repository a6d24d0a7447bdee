package devbroker_test

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"delay-scheduler/devbroker"
)

const group = "scheduler"

// fill leaves records in a named and in an automatic topic, and a commit with metadata,
// and returns the values.
func fill(t *testing.T, addr string) map[string][]string {
	t.Helper()
	client := connect(t, addr, kgo.AllowAutoTopicCreation())
	defer client.Close()
	values := map[string][]string{
		"a-delay": produce(t, client, "a-delay", 20),
		"made":    produce(t, client, "made", 20),
	}
	offsets := make(kadm.Offsets)
	offsets.Add(kadm.Offset{Topic: "a-delay", Partition: 0, At: 5, LeaderEpoch: -1, Metadata: "completed above"})
	require.NoError(t, kadm.NewClient(client).CommitAllOffsets(within(t, 10*time.Second), group, offsets))
	return values
}

func requireFilled(t *testing.T, addr string, values map[string][]string) {
	t.Helper()
	for topic, want := range values {
		require.ElementsMatch(t, want, read(t, addr, topic, len(want)), topic)
	}
	committed, err := kadm.NewClient(connect(t, addr)).FetchOffsets(within(t, 10*time.Second), group)
	require.NoError(t, err)
	commit, ok := committed.Lookup("a-delay", 0)
	require.True(t, ok)
	require.EqualValues(t, 5, commit.At)
	require.Equal(t, "completed above", commit.Metadata)
}

func topicIDs(t *testing.T, addr string) map[string]kadm.TopicID {
	t.Helper()
	topics, err := kadm.NewClient(connect(t, addr)).ListTopics(within(t, 10*time.Second))
	require.NoError(t, err)
	ids := make(map[string]kadm.TopicID)
	for _, topic := range topics {
		ids[topic.Topic] = topic.ID
	}
	return ids
}

func TestDataDirectorySurvivesARestartOnTheSamePort(t *testing.T) {
	o := devbroker.Options{DataDir: t.TempDir(), AutoCreate: true, Topics: []devbroker.Topic{{Name: "a-delay", Partitions: 2}}}
	first := start(t, o)
	values, ids := fill(t, first.Addr()), topicIDs(t, first.Addr())
	require.NoError(t, first.Close())

	o.Listen = first.Addr()
	second := start(t, o)

	requireFilled(t, second.Addr(), values)
	require.Equal(t, ids, topicIDs(t, second.Addr()))
}

func TestDataDirectorySurvivesKill9(t *testing.T) {
	dir := t.TempDir()
	addr, kill := startChild(t, dir)
	values, ids := fill(t, addr), topicIDs(t, addr)
	kill()

	broker := start(t, devbroker.Options{DataDir: dir})

	requireFilled(t, broker.Addr(), values)
	require.Equal(t, ids, topicIDs(t, broker.Addr()))
}

// startChild runs a broker in a process of its own. kill ends it with SIGKILL and waits.
func startChild(t *testing.T, dir string) (addr string, kill func()) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childDir+"="+dir)
	child.Stderr = os.Stderr
	stdout, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	addr, err = bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(addr), func() {
		require.NoError(t, child.Process.Kill())
		require.ErrorContains(t, child.Wait(), "signal: killed")
	}
}
