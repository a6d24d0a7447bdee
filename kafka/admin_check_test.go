package kafka

import (
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"delay-scheduler/internal/testkafka"
)

func TestAdminDescribesTopicsWithWhatIsAllowed(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		a, topic := startAdmin(t, b), testkafka.UniqueName(t)
		b.CreateTopic(topic, 3, nil)
		states, err := a.DescribeTopics(t.Context(), topic, topic+"-none")
		require.NoError(t, err)
		require.ErrorIs(t, states[topic+"-none"].Err, ErrUnknownTopic)
		s := states[topic]
		require.NoError(t, s.Err)
		require.Len(t, s.Partitions, 3)
		for i, p := range s.Partitions {
			require.EqualValues(t, i, p.ID)
			require.GreaterOrEqual(t, p.Leader, int32(0))
			require.Positive(t, p.Replicas)
			require.Positive(t, p.InSync)
		}
		require.Contains(t, s.Operations, "READ")
		require.Contains(t, s.Operations, "DESCRIBE_CONFIGS")
		none, err := a.DescribeTopics(t.Context())
		require.NoError(t, err)
		require.Empty(t, none)
	})
}

func TestAdminSeesAPartitionWithoutALeader(t *testing.T) {
	fake := testkafka.Fake(t)
	fake.CreateTopic("a", 2, nil)
	defer fake.Leaderless("a", 1)()
	states, err := startAdmin(t, fake).DescribeTopics(t.Context(), "a")
	require.NoError(t, err)
	require.NoError(t, states["a"].Err)
	require.EqualValues(t, 0, states["a"].Partitions[0].Leader)
	require.EqualValues(t, -1, states["a"].Partitions[1].Leader)
}

func TestTopicWithoutSomeLeadersCanBeDescribed(t *testing.T) {
	s := stateOf(&sarama.TopicMetadata{Err: sarama.ErrLeaderNotAvailable, Partitions: []*sarama.PartitionMetadata{
		{ID: 1, Leader: 7}, {ID: 0, Leader: 7, Err: sarama.ErrLeaderNotAvailable},
	}})
	require.NoError(t, s.Err)
	require.Equal(t, []PartitionState{{ID: 0, Leader: -1}, {ID: 1, Leader: 7}}, s.Partitions)
	require.Error(t, stateOf(&sarama.TopicMetadata{Err: sarama.ErrLeaderNotAvailable}).Err)
}

func TestAdminAsksBrokersWhatTheyOfferAndHowTheyAreSet(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		a := startAdmin(t, b)
		info, err := a.Cluster(t.Context())
		require.NoError(t, err)
		offers, err := a.Offers(t.Context(), info.Brokers[0].Addr)
		require.NoError(t, err)
		for _, o := range offers {
			require.True(t, o.Offered, o.Name)
			require.GreaterOrEqual(t, o.Most, o.Need, o.Name)
			require.LessOrEqual(t, o.Least, o.Speak, o.Name)
		}
		ops, err := a.ClusterOperations(t.Context())
		require.NoError(t, err)
		require.NotEmpty(t, ops)
		configs, err := a.BrokerConfigs(t.Context(), info.Brokers[0], "offsets.retention.minutes", "no.such.setting")
		require.NoError(t, err)
		require.NotContains(t, configs, "no.such.setting")
		if b.Real() {
			require.NotEmpty(t, configs["offsets.retention.minutes"])
		}
	})
}

func TestAdminDescribesAGroup(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		a, topic, group := startAdmin(t, b), testkafka.UniqueName(t), testkafka.UniqueName(t)
		b.CreateTopic(topic, 1, nil)
		none, err := a.DescribeGroup(t.Context(), group)
		require.NoError(t, err)
		require.Contains(t, []string{"", "Dead"}, none.State)
		require.False(t, none.Next)

		client, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
			kgo.InstanceID("one"), kgo.ClientID("stranger"))
		require.NoError(t, err)
		defer client.Close()
		require.Eventually(t, func() bool {
			s, err := a.DescribeGroup(t.Context(), group)
			return err == nil && s.State == "Stable" && len(s.Members) == 1
		}, patience, 10*time.Millisecond)
		s, err := a.DescribeGroup(t.Context(), group)
		require.NoError(t, err)
		require.Equal(t, "consumer", s.Type)
		require.Equal(t, "one", s.Members[0].InstanceID)
		require.Equal(t, "stranger", s.Members[0].ClientID)
	})
}

func TestAdminReadsTheFirstRecordsFromOffsets(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		a, topic := startAdmin(t, b), testkafka.UniqueName(t)
		b.CreateTopic(topic, 3, nil)
		w := newTransactions(t, b, topic)
		w.begin()
		aborted := &kgo.Record{Topic: topic}
		if b.Real() {
			// More than one fetch takes, so that the first one has nothing to give. The embedded
			// broker tells of an aborted batch only together with its marker.
			aborted.Value = make([]byte, 2*explainBytes)
		}
		require.NoError(t, w.client.ProduceSync(t.Context(), aborted).FirstErr())
		w.end(kgo.TryAbort)
		require.Eventually(t, func() bool {
			bounds, err := a.Bounds(t.Context(), topic)
			return err == nil && bounds[0] == Bounds{End: 2, Stable: 2}
		}, patience, 10*time.Millisecond)
		produceTo(t, b, numbered(topic, 0, 2, 5)...)
		produceTo(t, b, numbered(topic, 1, 0, 3)...)
		found, err := a.FirstRecords(t.Context(), topic, map[int32]int64{0: 0, 1: 1, 2: 0})
		require.NoError(t, err)
		require.Len(t, found, 2)
		require.EqualValues(t, 2, found[0].Offset) // what was aborted is no record
		require.EqualValues(t, 1, found[1].Offset)
		require.Positive(t, found[1].Timestamp)
		_, err = a.FirstRecords(t.Context(), topic+"-none", map[int32]int64{0: 0})
		require.ErrorIs(t, err, ErrUnknownTopic)
	})
}

func TestAdminChangesSettingsOfATopicAndLeavesTheOthers(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		a, topic := startAdmin(t, b), testkafka.UniqueName(t)
		b.CreateTopic(topic, 1, map[string]string{"retention.ms": "1000000", "max.message.bytes": "2000000"})
		require.NoError(t, a.AlterTopic(t.Context(), topic, map[string]string{"retention.ms": "2000000"}))
		require.Eventually(t, func() bool {
			configs, err := a.TopicConfigs(t.Context(), topic)
			return err == nil && configs[topic]["retention.ms"].Value == "2000000" && configs[topic]["max.message.bytes"].Value == "2000000"
		}, patience, 10*time.Millisecond)
	})
}

func TestAdminNamesWhatItIsNotAllowedTo(t *testing.T) {
	fake := testkafka.Fake(t)
	fake.ControlKey(int16(kmsg.DescribeConfigs), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		r := req.(*kmsg.DescribeConfigsRequest)
		resp := r.ResponseKind().(*kmsg.DescribeConfigsResponse)
		for _, asked := range r.Resources {
			rr := kmsg.NewDescribeConfigsResponseResource()
			rr.ResourceType, rr.ResourceName, rr.ErrorCode = asked.ResourceType, asked.ResourceName, kerr.ClusterAuthorizationFailed.Code
			resp.Resources = append(resp.Resources, rr)
		}
		return resp, nil, true
	})
	a := startAdmin(t, fake)
	info, err := a.Cluster(t.Context())
	require.NoError(t, err)
	_, err = a.BrokerConfigs(t.Context(), info.Brokers[0], "offsets.retention.minutes")
	require.ErrorIs(t, err, ErrForbidden)
}
