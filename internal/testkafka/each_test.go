package testkafka

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestTopicsAreMadeGrownAndDeleted(t *testing.T) {
	Each(t, func(t *testing.T, b Broker) {
		topic := UniqueName(t)
		describe := func() kadm.TopicDetail {
			topics, err := Admin(t, b).ListTopics(t.Context(), topic)
			require.NoError(t, err)
			return topics[topic]
		}

		b.CreateTopic(topic, 2, map[string]string{"retention.ms": "1234567"})
		first := describe()
		require.Len(t, first.Partitions, 2)

		b.AddPartitions(topic, 5)
		require.Len(t, describe().Partitions, 5)

		b.DeleteTopic(topic)
		require.Error(t, describe().Err)

		b.CreateTopic(topic, 1, nil)
		again := describe()
		require.Len(t, again.Partitions, 1)
		require.NotEqual(t, first.ID, again.ID)
	})
}

func TestRecordsComeBackByteForByte(t *testing.T) {
	Each(t, func(t *testing.T, b Broker) {
		topic := UniqueName(t)
		b.CreateTopic(topic, 3, nil)
		sent := ProduceTo(t, b,
			&kgo.Record{Topic: topic, Partition: 2, Key: nil, Value: []byte{}},
			&kgo.Record{Topic: topic, Partition: 0, Key: []byte{}, Value: nil, Headers: []kgo.RecordHeader{
				{Key: "h", Value: []byte{0, 255}}, {Key: "h", Value: nil}, {Key: "", Value: []byte{}},
			}},
			&kgo.Record{Topic: topic, Partition: 2, Value: make([]byte, 900<<10)},
		)

		got := ReadAll(t, b, topic, 3, clientPatience)

		require.Len(t, got, 3)
		for i, want := range []*kgo.Record{sent[1], sent[0], sent[2]} {
			require.Equal(t, want.Partition, got[i].Partition)
			require.Equal(t, want.Offset, got[i].Offset)
			require.Equal(t, want.Key, got[i].Key)
			require.Equal(t, want.Value, got[i].Value)
			require.Equal(t, want.Headers, got[i].Headers)
		}
	})
}

func TestReadAllReturnsWhatThereIsAtTheDeadline(t *testing.T) {
	Each(t, func(t *testing.T, b Broker) {
		topic := UniqueName(t)
		b.CreateTopic(topic, 1, nil)
		Produce(t, b, &kgo.Record{Topic: topic})

		require.Len(t, ReadAll(t, b, topic, 2, time.Second), 1)
	})
}

func TestCommittedOffsetsHaveTheirMetadata(t *testing.T) {
	Each(t, func(t *testing.T, b Broker) {
		topic, group := UniqueName(t), UniqueName(t)
		b.CreateTopic(topic, 3, nil)
		require.Empty(t, Committed(t, b, group, topic))
		offsets := make(kadm.Offsets)
		offsets.Add(kadm.Offset{Topic: topic, Partition: 1, At: 7, LeaderEpoch: -1, Metadata: "v1:abc"})
		offsets.Add(kadm.Offset{Topic: topic, Partition: 2, At: 0, LeaderEpoch: -1})
		require.NoError(t, Admin(t, b).CommitAllOffsets(t.Context(), group, offsets))

		require.Equal(t, map[int32]Commit{1: {7, "v1:abc"}, 2: {0, ""}}, Committed(t, b, group, topic))
	})
}

func TestNodesAreHurtOneAtATime(t *testing.T) {
	Each(t, func(t *testing.T, b Broker) {
		nodes := b.(Nodes)
		require.ElementsMatch(t, []int32{0, 1, 2}, nodes.NodeIDs())
		t.Run("placement", func(t *testing.T) { testPlacement(t, nodes) })
		t.Run("coordinator", func(t *testing.T) { testCoordinatorMoves(t, nodes) })
		t.Run("frozen", func(t *testing.T) { testFrozenNode(t, nodes) })
		t.Run("leaderless", func(t *testing.T) { testLeaderless(t, nodes) })
	}, WithBrokers(3))
}

// onePerNode makes a topic with one partition on each node.
func onePerNode(t *testing.T, nodes Nodes) (topic string) {
	t.Helper()
	topic = UniqueName(t)
	nodes.CreateTopicOn(topic, [][]int32{{0}, {1}, {2}}, nil)
	return topic
}

func testPlacement(t *testing.T, nodes Nodes) {
	topic := onePerNode(t, nodes)
	for id := range int32(3) {
		require.Equal(t, id, nodes.Leader(topic, id))
	}
	require.EqualValues(t, -1, nodes.Leader(topic, 3))
}

func testCoordinatorMoves(t *testing.T, nodes Nodes) {
	topic, group := onePerNode(t, nodes), UniqueName(t)
	offsets := make(kadm.Offsets)
	offsets.AddOffset(topic, 0, 5, -1)
	require.NoError(t, Admin(t, nodes).CommitAllOffsets(t.Context(), group, offsets))
	before := nodes.Coordinator(group)
	require.GreaterOrEqual(t, before, int32(0))

	nodes.MoveCoordinator(group)

	require.NotEqual(t, before, nodes.Coordinator(group))
	require.Eventually(t, func() bool { return Committed(t, nodes, group, topic)[0].Offset == 5 }, clientPatience, pollPause)
}

func testFrozenNode(t *testing.T, nodes Nodes) {
	topic := onePerNode(t, nodes)
	client := Client(t, nodes, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	send := func(partition int32) <-chan error {
		acked := make(chan error, 1)
		client.Produce(t.Context(), &kgo.Record{Topic: topic, Partition: partition}, func(_ *kgo.Record, err error) { acked <- err })
		return acked
	}
	for id := range int32(3) {
		require.NoError(t, <-send(id))
	}

	nodes.Freeze(1)
	frozen := send(1)
	require.NoError(t, <-send(0))
	require.NoError(t, <-send(2))
	requireNothing(t, frozen)

	nodes.Thaw(1)
	require.NoError(t, <-frozen)
}

// requireNothing waits a little: that nothing comes cannot be seen faster.
func requireNothing(t *testing.T, acked <-chan error) {
	t.Helper()
	select {
	case err := <-acked:
		t.Fatalf("an answer came: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
}

func testLeaderless(t *testing.T, nodes Nodes) {
	topic := onePerNode(t, nodes)
	undo := nodes.Leaderless(topic, 1)
	topics, err := Admin(t, nodes).ListTopics(t.Context(), topic)
	require.NoError(t, err)
	require.Error(t, topics[topic].Partitions[1].Err)
	ProduceTo(t, nodes, &kgo.Record{Topic: topic, Partition: 0}, &kgo.Record{Topic: topic, Partition: 2})

	undo()

	ProduceTo(t, nodes, &kgo.Record{Topic: topic, Partition: 1})
}
