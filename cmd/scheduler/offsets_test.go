package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"delay-scheduler/app"
	"delay-scheduler/offset"
)

// commit stores metadata for partitions of a group that nobody is in.
func commit(t *testing.T, brokers, group string, commits ...kadm.Offset) {
	t.Helper()
	all := kadm.Offsets{}
	for _, c := range commits {
		c.LeaderEpoch = -1
		all.Add(c)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, kadm.NewClient(client(t, brokers)).CommitAllOffsets(ctx, group, all))
}

func topicID(t *testing.T, brokers, topic string) offset.TopicID {
	t.Helper()
	topics, err := kadm.NewClient(client(t, brokers)).ListTopics(t.Context(), topic)
	require.NoError(t, err)
	return offset.TopicID(topics[topic].ID)
}

func TestMetadataThatIsNotOursIsSaidPlainly(t *testing.T) {
	t.Parallel()
	brokers := broker(t, "orders-delay", "paid-delay")
	tracker := offset.New(offset.Options{TopicID: topicID(t, brokers, "paid-delay")})
	tracker.Read(0, 10, 1, false)
	tracker.Read(1, 5, 1, false)
	tracker.Due(1, 5, 1)
	tracker.Complete(1, 5, 1)
	ours := tracker.Encode(4096).Metadata
	commit(t, brokers, "g",
		kadm.Offset{Topic: "orders-delay", Partition: 0, Metadata: "checkpoint of somebody else"},
		kadm.Offset{Topic: "orders-delay", Partition: 1, Metadata: ours},
		kadm.Offset{Topic: "paid-delay", Partition: 0, Metadata: ours[:20]})

	r := requireOK(t, scheduler(t, "offsets", "show", "--brokers", brokers, "--group", "g"))

	require.Contains(t, r.out, "orders-delay/0: the metadata is another program's")
	require.Contains(t, r.out, "orders-delay/1: the commit is of a topic that was deleted and made again")
	require.Contains(t, r.out, "paid-delay/0: damaged commit metadata")
	require.Contains(t, r.out, "paid-delay/1: no commit")
	require.Equal(t, exitFailure, scheduler(t, "offsets", "show", "--brokers", brokers, "--topic", "nope").code)
}

// The committed set says that all is done but what goes to one target.
func TestATargetThatLagsBehindIsNamed(t *testing.T) {
	t.Parallel()
	const records = 200
	brokers := broker(t, "orders-delay")
	c := client(t, brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	tracker := offset.New(offset.Options{TopicID: topicID(t, brokers, "orders-delay")})
	base := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	targetOf := func(i int64) string { return []string{"slow", "fast"}[i%2] }
	due := func(i int64) int64 { return base.UnixMilli() + i + 1000 }
	for i := range int64(records) {
		require.NoError(t, c.ProduceSync(t.Context(), &kgo.Record{
			Topic: "orders-delay", Timestamp: base.Add(time.Duration(i) * time.Millisecond),
			Headers: []kgo.RecordHeader{{Key: "target-topic", Value: []byte(targetOf(i))}, {Key: "delay-ms", Value: []byte("1000")}},
		}).FirstErr())
		tracker.Read(i, due(i), offset.LaneOf(targetOf(i)), false)
	}
	for i := range int64(records) {
		tracker.Due(i, due(i), offset.LaneOf(targetOf(i)))
		if targetOf(i) == "fast" || i < records/2 {
			tracker.Complete(i, due(i), offset.LaneOf(targetOf(i)))
		}
	}
	e := tracker.Encode(4096)
	commit(t, brokers, "g", kadm.Offset{Topic: "orders-delay", Partition: 0, At: e.Offset, Metadata: e.Metadata})

	args := []string{"offsets", "show", "--brokers", brokers, "--group", "g"}
	all := parse[[]app.PartitionOffsets](t, requireOK(t, scheduler(t, append(args, "-o", "json")...)))
	text := requireOK(t, scheduler(t, args...)).out
	few := parse[[]app.PartitionOffsets](t, requireOK(t, scheduler(t, append(args, "--read", "51", "-o", "json")...)))
	none := parse[[]app.PartitionOffsets](t, requireOK(t, scheduler(t, append(args, "--read", "0", "-o", "json")...)))

	require.EqualValues(t, 100, all[0].Lag)
	require.Equal(t, app.Counted{Read: 100, Pending: 50, Done: 50, All: true, NextDue: all[0].Counted.NextDue, LastDue: all[0].Counted.LastDue}, *all[0].Counted)
	require.Equal(t, due(100), all[0].Counted.NextDue.UnixMilli())
	require.Len(t, all[0].Lanes, 1)
	require.Equal(t, "slow", all[0].Lanes[0].Target)
	require.Contains(t, text, "orders-delay/0: slow lags behind, done up to ")
	require.True(t, strings.HasPrefix(text, "group g\n"), text)
	n, exact, known := few[0].Estimate()
	require.True(t, known)
	require.False(t, exact)
	require.InDelta(t, 50, n, 2)
	require.Nil(t, none[0].Counted)
}

func TestNothingToShowIsSaid(t *testing.T) {
	t.Parallel()

	r := requireOK(t, scheduler(t, "offsets", "show", "--brokers", broker(t, "orders")))

	require.Contains(t, r.out, "there is no topic that a source matches")
}
