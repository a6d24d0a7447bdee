package app

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"delay-scheduler/config"
	"delay-scheduler/internal/testkafka"
	"delay-scheduler/kafka"
	"delay-scheduler/preflight"
)

func alterTopic(ctx context.Context, c *config.Config, topic string, configs map[string]string) error {
	admin, err := kafka.NewAdmin(clusterOptions(c))
	if err != nil {
		return err
	}
	defer admin.Close()
	return admin.AlterTopic(ctx, topic, configs)
}

func TestTopicsAreCreatedOnceAndDriftIsReportedAndMended(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		base := testkafka.UniqueName(t)
		c := settings(t, b.Addrs()...)
		o := TopicsOptions{Topic: base, Partitions: 3, Replication: 1, Group: "billing", MaxDelay: 7 * 24 * time.Hour}
		plan, err := PlanTopics(t.Context(), c, o)
		require.NoError(t, err)
		require.Len(t, plan.Missing(), 5)
		require.Len(t, plan.Notes, 1) // max_delay of the configuration is longer
		var told []string
		require.NoError(t, CreateTopics(t.Context(), c, plan, false, func(s string) { told = append(told, s) }))
		require.Len(t, told, 5)
		require.NoError(t, CreateTopics(t.Context(), c, plan, false, func(string) {})) // somebody else was faster

		o.Partitions, o.Replication = 0, 0
		again := func() preflight.TopicPlan {
			t.Helper()
			plan, err := PlanTopics(t.Context(), c, o)
			require.NoError(t, err)
			return plan
		}
		all, _ := again().Drifts()
		require.Zero(t, all, "%+v", again())
		require.Empty(t, again().Missing())

		require.NoError(t, alterTopic(t.Context(), c, base+"-delay", map[string]string{"retention.ms": "1000000"}))
		require.Eventually(t, func() bool { all, fixable := again().Drifts(); return all == 1 && fixable == 1 }, 20*time.Second, 20*time.Millisecond)
		require.NoError(t, CreateTopics(t.Context(), c, again(), false, func(string) {}))
		all, _ = again().Drifts()
		require.Equal(t, 1, all, "it is not mended unasked")
		require.NoError(t, CreateTopics(t.Context(), c, again(), true, func(string) {}))
		require.Eventually(t, func() bool { all, _ := again().Drifts(); return all == 0 }, 20*time.Second, 20*time.Millisecond)
	})
}

func TestTopicsThatTheConfigurationDoesNotReadAreRefused(t *testing.T) {
	c := settings(t, "127.0.0.1:1")
	plan := func(topic string) error {
		_, err := PlanTopics(t.Context(), c, TopicsOptions{Topic: topic, Partitions: 1, Replication: 1})
		return err
	}
	require.ErrorIs(t, plan("orders-delay"), ErrTopics)
	require.ErrorContains(t, plan("orders-delay"), "orders-delay is itself a source")
	require.ErrorIs(t, plan("or ders"), ErrTopics)
	c.Sources[1].Topics = []string{"other-retry"}
	require.ErrorContains(t, plan("orders"), `no source of the configuration matches orders-retry: add a source with topics: ["*-retry"]`)
	c.Sources[1].Topics, c.Sources[1].Retry = []string{"*-retry"}, nil
	require.ErrorContains(t, plan("orders"), "has no retry")
}

func TestAccessOfPatternsThatNoListCanSayIsThatOfTheTopics(t *testing.T) {
	b := testkafka.Fake(t)
	for _, topic := range []string{"a-delay", "b-retry", "a", "a-dlq"} {
		b.CreateTopic(topic, 1, nil)
	}
	c := settings(t, b.Addrs()...)
	c.Targets.Allow = []string{"a", "b-*"}
	rules, notes, err := Access(t.Context(), c, AccessOptions{})
	require.NoError(t, err)
	var said []string
	for _, r := range rules {
		said = append(said, r.Operation+" "+r.Name+" "+r.Pattern)
	}
	// b-dlq is covered by b-*.
	require.Equal(t, []string{"Read " + c.Group.ID + " literal", "Read a-delay literal", "Read b-retry literal", "Write a literal", "Write b- prefixed", "Write a-dlq literal"}, said)
	require.Len(t, notes, 1)
	require.Contains(t, notes[0], "run this again for new ones")

	c.Sources[0].Topics, c.Sources[1].Topics = []string{"a-delay", "pay-*"}, []string{"b-retry"}
	c.Kafka.Brokers = []string{"127.0.0.1:1"} // nobody need be asked
	rules, notes, err = Access(t.Context(), c, AccessOptions{})
	require.NoError(t, err)
	require.Empty(t, notes)
	require.Contains(t, rules, preflight.AccessRule{Resource: preflight.Resource{Type: "topic", Name: "pay-", Pattern: "prefixed"}, Operation: "Read", Why: "delayed and failed records are read"})
}
