package preflight

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func request() TopicRequest {
	return TopicRequest{
		Topic: "orders", Delay: "orders-delay", Retry: "orders-retry", DeadLetters: []string{"orders-dlq"},
		Partitions: 12, Replication: 3, MaxDelay: 7 * day, Brokers: 3, DefaultSize: 1_000_000,
	}
}

// made is the cluster after a plan was carried out.
func made(p TopicPlan) map[string]ExistingTopic {
	there := map[string]ExistingTopic{}
	for _, t := range p.Topics {
		there[t.Name] = ExistingTopic{Partitions: t.Partitions, Replication: t.Replication, Configs: t.Configs}
	}
	return there
}

func TestPlanHasTheTopicsWithTheirSettings(t *testing.T) {
	r := request()
	r.Redelivery = "orders-billing-redelivery"
	p, err := PlanTopics(r)
	require.NoError(t, err)
	require.Equal(t, []PlannedTopic{
		{Name: "orders", Role: "business", Partitions: 12, Replication: 3, Configs: map[string]string{"min.insync.replicas": "2"}},
		{Name: "orders-delay", Role: "delay", Partitions: 12, Replication: 3, Configs: map[string]string{
			"message.timestamp.type": "LogAppendTime", "retention.ms": "1209600000", "cleanup.policy": "delete", "max.message.bytes": "1065536", "min.insync.replicas": "2",
		}},
		{Name: "orders-retry", Role: "retry", Partitions: 12, Replication: 3, Configs: map[string]string{
			"message.timestamp.type": "LogAppendTime", "retention.ms": "1209600000", "cleanup.policy": "delete", "max.message.bytes": "1065536", "min.insync.replicas": "2",
		}},
		{Name: "orders-dlq", Role: "dead letters", Partitions: 12, Replication: 3, Configs: map[string]string{
			"retention.ms": "2419200000", "cleanup.policy": "delete", "max.message.bytes": "1131072", "min.insync.replicas": "2",
		}},
		{Name: "orders-billing-redelivery", Role: "redelivery", Partitions: 12, Replication: 3, Configs: map[string]string{
			"cleanup.policy": "delete", "max.message.bytes": "1065536", "min.insync.replicas": "2",
		}},
	}, p.Topics)
	require.Len(t, p.Missing(), 5)
}

func TestPlanThatWasCarriedOutFindsNothingToDo(t *testing.T) {
	r := request()
	p, err := PlanTopics(r)
	require.NoError(t, err)
	r.Existing = made(p)
	r.Partitions, r.Replication = 0, 0
	again, err := PlanTopics(r)
	require.NoError(t, err)
	require.Empty(t, again.Missing())
	all, _ := again.Drifts()
	require.Zero(t, all, "%+v", again)
}

func TestExistingBusinessTopicDictates(t *testing.T) {
	r := request()
	r.Partitions, r.Replication = 0, 0
	r.Existing = map[string]ExistingTopic{"orders": {Partitions: 5, Replication: 2, Configs: map[string]string{keySize: "4000000", keyRetention: "1000"}}}
	p, err := PlanTopics(r)
	require.NoError(t, err)
	require.Empty(t, p.Topics[0].Drift) // its settings are its owner's affair
	require.EqualValues(t, 5, p.Topics[1].Partitions)
	require.EqualValues(t, 2, p.Topics[1].Replication)
	require.Equal(t, "1", p.Topics[1].Configs[keyMinInSync])
	require.Equal(t, "4065536", p.Topics[1].Configs[keySize])
	require.Equal(t, "4131072", p.Topics[3].Configs[keySize])
}

func TestPlanReportsDriftAndKnowsWhatSettingsMend(t *testing.T) {
	p, err := PlanTopics(request())
	require.NoError(t, err)
	there := made(p)
	drifted := there["orders-delay"]
	drifted.Configs = map[string]string{
		keyTimestamp: "CreateTime", keyRetention: "604800000", keyCleanup: "compact", keySize: "1000", keyMinInSync: "1",
	}
	drifted.Partitions, drifted.Replication = 6, 3
	there["orders-delay"] = drifted
	more := there["orders-retry"]
	more.Configs = map[string]string{
		keyTimestamp: "LogAppendTime", keyRetention: "-1", keyCleanup: "delete", keySize: "9000000", keyMinInSync: "3",
	}
	more.Partitions, more.Replication = 24, 1
	there["orders-retry"] = more
	r := request()
	r.Existing = there
	p, err = PlanTopics(r)
	require.NoError(t, err)
	settings := map[string]string{}
	for _, d := range p.Topics[1].Drift {
		settings[d.Setting] = d.Is + " " + d.Want
		require.NotEmpty(t, d.Do)
	}
	require.Equal(t, map[string]string{
		"partitions": "6 12", keyTimestamp: "CreateTime LogAppendTime", keyRetention: "604800000 1209600000", keyCleanup: "compact delete",
		keySize: "1000 1065536", keyMinInSync: "1 2",
	}, settings)
	require.Len(t, p.Topics[1].Fixes(), 5)
	require.Len(t, p.Topics[2].Drift, 2, "%+v", p.Topics[2].Drift) // more of a limit is no drift
	require.Empty(t, p.Topics[2].Fixes())
	// What a source takes decides what its dead letters need.
	require.Equal(t, "9065536", p.Topics[3].Fixes()[keySize])
	all, fixable := p.Drifts()
	require.Equal(t, 9, all)
	require.Equal(t, 6, fixable)
}

func TestSettingsThatCannotBeReadAreNoDriftAndAreSaid(t *testing.T) {
	r := request()
	r.Existing = map[string]ExistingTopic{"orders-delay": {Partitions: 12, Replication: 3}}
	p, err := PlanTopics(r)
	require.NoError(t, err)
	require.Empty(t, p.Topics[1].Drift)
	require.Len(t, p.Notes, 1)
	require.Contains(t, p.Notes[0], "orders-delay")
}

func TestPlanRefusesWhatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *TopicRequest)
		want   string
	}{
		"name":        {func(r *TopicRequest) { r.Topic = "or ders" }, `"or ders" is no name of a topic`},
		"group":       {func(r *TopicRequest) { r.Redelivery = "orders-a/b-redelivery" }, "redelivery topic has the group in its name"},
		"partitions":  {func(r *TopicRequest) { r.Partitions = 0 }, "give --partitions"},
		"negative":    {func(r *TopicRequest) { r.Partitions = -1 }, "give --partitions"},
		"replication": {func(r *TopicRequest) { r.Replication = 0 }, "give --replication"},
		"brokers":     {func(r *TopicRequest) { r.Brokers = 2 }, "the replication is 3 and there are 2 brokers"},
		"delay":       {func(r *TopicRequest) { r.MaxDelay = 0 }, "must be positive"},
	} {
		t.Run(name, func(t *testing.T) {
			r := request()
			c.change(&r)
			_, err := PlanTopics(r)
			require.ErrorContains(t, err, c.want)
		})
	}
}
