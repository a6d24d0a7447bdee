package kafka

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"delay-scheduler/internal/testkafka"
	"delay-scheduler/offset"
)

func startAdmin(t testing.TB, b testkafka.Endpoint) *Admin {
	t.Helper()
	a, err := NewAdmin(Options{Brokers: b.Addrs()})
	require.NoError(t, err)
	t.Cleanup(a.Close)
	return a
}

func TestAdminMakesDescribesAndDeletesTopics(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		a, topic := startAdmin(t, b), testkafka.UniqueName(t)
		require.NoError(t, a.CreateTopic(t.Context(), topic, 3, -1, map[string]string{"retention.ms": "86400000"}))
		require.ErrorIs(t, a.CreateTopic(t.Context(), topic, 3, -1, nil), ErrTopicExists)

		topics, err := a.Topics(t.Context())
		require.NoError(t, err)
		var made TopicInfo
		for _, info := range topics {
			if info.Name == topic {
				made = info
			}
		}
		require.NotEqual(t, offset.TopicID{}, made.ID)
		require.Equal(t, TopicInfo{Name: topic, ID: made.ID, Partitions: 3}, made)

		configs, err := a.TopicConfigs(t.Context(), topic)
		require.NoError(t, err)
		require.Equal(t, ConfigValue{Value: "86400000", Own: true}, configs[topic]["retention.ms"])
		require.False(t, configs[topic]["cleanup.policy"].Own)

		bounds, err := a.Bounds(t.Context(), topic)
		require.NoError(t, err)
		require.Equal(t, map[int32]Bounds{0: {}, 1: {}, 2: {}}, bounds)

		require.NoError(t, a.DeleteTopic(t.Context(), topic))
		require.Eventually(t, func() bool {
			_, err := a.Bounds(t.Context(), topic)
			return err != nil
		}, patience, 10*time.Millisecond)
		_, err = a.Bounds(t.Context(), topic)
		require.ErrorIs(t, err, ErrUnknownTopic)
		_, err = a.TopicConfigs(t.Context(), topic)
		require.ErrorIs(t, err, ErrUnknownTopic)
		require.ErrorIs(t, a.DeleteTopic(t.Context(), topic), ErrUnknownTopic)
	})
}

func TestAdminReadsOneRecord(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		a, topic := startAdmin(t, b), testkafka.UniqueName(t)
		b.CreateTopic(topic, 1, nil)
		w := newTransactions(t, b, topic)
		w.begin()
		w.write(0)
		w.end(kgo.TryCommit)
		require.Eventually(t, func() bool { // a real broker writes the marker in its own time
			bounds, err := a.Bounds(t.Context(), topic)
			return err == nil && bounds[0] == Bounds{End: 2, Stable: 2}
		}, patience, 10*time.Millisecond)
		produceTo(t, b, numbered(topic, 0, 2, 5)...)
		deleteRecords(t, b, topic, 0)

		for _, at := range []int64{0, 2, 4, 6} {
			r, err := a.ReadRecord(t.Context(), topic, 0, at)
			require.NoError(t, err)
			require.Equal(t, at, r.Offset)
			require.Equal(t, fmt.Sprint(at), string(r.Value))
		}
		_, err := a.ReadRecord(t.Context(), topic, 0, 1)
		require.ErrorIs(t, err, ErrNoRecord)
		require.ErrorContains(t, err, "transaction marker")
		_, err = a.ReadRecord(t.Context(), topic, 0, 7)
		require.ErrorIs(t, err, ErrNoRecord)
		require.ErrorContains(t, err, "the log has offsets 0 to 6")
		_, err = a.ReadRecord(t.Context(), topic, 1, 0)
		require.ErrorContains(t, err, "the topic has 1 partition")
		_, err = a.ReadRecord(t.Context(), topic+"-none", 0, 0)
		require.ErrorIs(t, err, ErrUnknownTopic)
	})
}

func TestAdminReadsCommittedOffsetsWithMetadata(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		a, topic, group := startAdmin(t, b), testkafka.UniqueName(t), testkafka.UniqueName(t)
		b.CreateTopic(topic, 2, nil)
		none, err := a.Committed(t.Context(), group, topic)
		require.NoError(t, err)
		require.Equal(t, map[int32]Committed{0: {Offset: -1}, 1: {Offset: -1}}, none[topic])

		var offsets kadm.Offsets
		offsets.Add(kadm.Offset{Topic: topic, Partition: 1, At: 7, LeaderEpoch: -1, Metadata: "what else is done"})
		require.NoError(t, testkafka.Admin(t, b).CommitAllOffsets(t.Context(), group, offsets))
		some, err := a.Committed(t.Context(), group, topic)
		require.NoError(t, err)
		require.Equal(t, map[int32]Committed{0: {Offset: -1}, 1: {Offset: 7, Metadata: "what else is done"}}, some[topic])

		_, err = a.Committed(t.Context(), group, topic+"-none")
		require.ErrorIs(t, err, ErrUnknownTopic)
	})
}

func TestAdminReadsTheBrokersMetadataLimit(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		limit, err := startAdmin(t, b).MetadataLimit(t.Context())
		if !b.Real() && err != nil {
			require.ErrorContains(t, err, "does not tell")
			return
		}
		require.NoError(t, err)
		require.Equal(t, 4096, limit)
	})
}

func TestAdminDescribesTheClusterWithBrokersThatCannotBeReached(t *testing.T) {
	fake := testkafka.Fake(t, kfake.NumBrokers(3))
	a := startAdmin(t, fake)
	info, err := a.Cluster(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, info.ID)
	require.Len(t, info.Brokers, 3)
	for _, b := range info.Brokers {
		require.NoError(t, b.Err)
	}

	fake.Proxy(2).Refuse()
	info, err = startAdmin(t, endpoint{fake.Addrs()[0]}).Cluster(t.Context())
	require.NoError(t, err)
	require.NoError(t, info.Brokers[0].Err)
	require.Error(t, info.Brokers[2].Err)
}

func TestAdminSaysWhatToDoWhenNoBrokerAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())

	_, err = startAdmin(t, endpoint{addr}).Topics(t.Context())
	require.EqualError(t, err, "list topics: connect to broker "+addr+": connection refused: check kafka.brokers")
}

func TestAdminCommitsForAGroupWithoutMembersOnly(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		a, topic := startAdmin(t, b), testkafka.UniqueName(t)
		b.CreateTopic(topic, 2, nil)
		commits := map[string]map[int32]Committed{topic: {1: {Offset: 7, Metadata: "decided"}}}
		require.NoError(t, a.Commit(t.Context(), topic+"-accepted", commits))
		some, err := a.Committed(t.Context(), topic+"-accepted", topic)
		require.NoError(t, err)
		require.Equal(t, map[int32]Committed{0: {Offset: -1}, 1: {Offset: 7, Metadata: "decided"}}, some[topic])

		m := startMember(t, groupOptions(b, topic, topic))
		m.awaitClaims(2)
		require.Error(t, a.Commit(t.Context(), topic, commits))
	})
}

func TestAdminRemovesAStaticMemberByItsName(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		a, topic := startAdmin(t, b), testkafka.UniqueName(t)
		b.CreateTopic(topic, 2, nil)
		o := groupOptions(b, topic, topic)
		o.InstanceID, o.SessionTimeout = "gone", time.Minute
		m := startMember(t, o)
		m.awaitClaims(2)
		m.stop() // It keeps its place.

		require.ErrorIs(t, a.RemoveInstance(t.Context(), topic, "another"), ErrNoInstance)
		require.NoError(t, a.RemoveInstance(t.Context(), topic, "gone"))
		next := startMember(t, groupOptions(b, topic, topic))
		next.awaitClaims(2)
		require.ErrorIs(t, a.RemoveInstance(t.Context(), topic, "gone"), ErrNoInstance)
	})
}
