package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"delay-scheduler/preflight"
)

func TestTopicsAreCreatedAfterAYesAndOnlyOnce(t *testing.T) {
	t.Parallel()
	brokers := broker(t)
	args := []string{"--brokers", brokers, "--topic", "orders", "--partitions", "3", "--replication", "1", "--group", "billing", "--max-delay", "7d"}

	plan := parse[preflight.TopicPlan](t, requireOK(t, scheduler(t, append([]string{"topics", "plan", "-o", "json"}, args...)...)))
	require.Len(t, plan.Missing(), 5)
	require.Equal(t, "1209600000", plan.Topics[1].Configs["retention.ms"])

	// Nobody is there to say yes, and nothing is done.
	asked := scheduler(t, append([]string{"topics", "create"}, args...)...)
	require.Equal(t, exitUsage, asked.code)
	require.Contains(t, asked.errOut, "say --yes")
	require.Len(t, parse[preflight.TopicPlan](t, scheduler(t, append([]string{"topics", "plan", "-o", "json"}, args...)...)).Missing(), 5)

	done := requireOK(t, scheduler(t, append([]string{"topics", "create", "--yes"}, args...)...))
	require.Equal(t, 5, strings.Count(done.out, "\ncreated "), done.out)
	require.Contains(t, done.out, "every topic is there, as it should be")

	// Nothing is to be asked any more.
	again := requireOK(t, scheduler(t, append([]string{"topics", "create", "-o", "json"}, args...)...))
	require.Empty(t, parse[preflight.TopicPlan](t, again).Missing())
	require.NotContains(t, again.errOut, "created")
}

func TestDriftIsReportedAndChangedOnlyOnRequest(t *testing.T) {
	t.Parallel()
	args := []string{"--brokers", broker(t, "orders", "orders-delay"), "--topic", "orders", "--yes"}

	first := scheduler(t, append([]string{"topics", "create"}, args...)...)
	require.Equal(t, exitFailure, first.code, first.out)
	require.Regexp(t, `orders-delay +message.timestamp.type +CreateTime +LogAppendTime +topics create --fix-drift changes it`, first.out)
	require.Contains(t, first.out, "3 settings differ, of which --fix-drift changes 3")
	plan := requireOK(t, scheduler(t, append([]string{"topics", "plan"}, args[:4]...)...))
	require.Contains(t, plan.out, "differs")

	fixed := requireOK(t, scheduler(t, append([]string{"topics", "create", "--fix-drift"}, args...)...))
	require.Contains(t, fixed.out, "changed the settings of orders-delay")
}

func TestTopicsOfAWrongNameAreAUsageError(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"topics", "plan"},
		{"topics", "plan", "--topic", "or ders", "--partitions", "1", "--replication", "1"},
		{"topics", "plan", "--topic", "orders-delay", "--partitions", "1", "--replication", "1"},
		{"topics", "plan", "--topic", "orders", "--max-delay", "soon"},
		{"topics", "plan", "--topic", "orders", "--max-delay", "0s"},
		{"topics", "acls", "--topic", "orders"},
		{"topics", "acls", "--principal", "scheduler", "--topic", "orders"},
		{"topics", "acls", "--principal", "User:x", "--topic", "or ders"},
		{"topics", "nonsense"},
	} {
		r := scheduler(t, args...)
		require.Equal(t, exitUsage, r.code, "%v: %s%s", args, r.out, r.errOut)
		require.NotEmpty(t, r.errOut)
	}
	missing := scheduler(t, "topics", "plan", "--brokers", broker(t), "--topic", "orders")
	require.Equal(t, exitUsage, missing.code)
	require.Contains(t, missing.errOut, "give --partitions")
	require.Contains(t, missing.errOut, "give --replication")
}

func TestAccessListIsReadyToPaste(t *testing.T) {
	t.Parallel()
	args := []string{"topics", "acls", "--brokers", "kafka-1:9092", "--principal", "User:scheduler", "--topic", "orders", "--group", "billing"}

	r := requireOK(t, scheduler(t, args...))
	rules := parse[[]ruleOutput](t, requireOK(t, scheduler(t, append(args, "-o", "json")...)))

	require.Equal(t, `# membership and commits
kafka-acls.sh --bootstrap-server kafka-1:9092 --add --allow-principal User:scheduler --operation Read --group delay-scheduler --resource-pattern-type literal
# delayed and failed records are read
kafka-acls.sh --bootstrap-server kafka-1:9092 --add --allow-principal User:scheduler --operation Read --topic orders-delay --resource-pattern-type literal
kafka-acls.sh --bootstrap-server kafka-1:9092 --add --allow-principal User:scheduler --operation Read --topic orders-retry --resource-pattern-type literal
# records that are due are written
kafka-acls.sh --bootstrap-server kafka-1:9092 --add --allow-principal User:scheduler --operation Write --topic orders-billing-redelivery --resource-pattern-type literal
kafka-acls.sh --bootstrap-server kafka-1:9092 --add --allow-principal User:scheduler --operation Write --topic orders --resource-pattern-type literal
# refused records are written
kafka-acls.sh --bootstrap-server kafka-1:9092 --add --allow-principal User:scheduler --operation Write --topic orders-dlq --resource-pattern-type literal
`, r.out)
	require.Len(t, rules, 6)
	require.Equal(t, "User:scheduler", rules[0].Principal)
	require.Contains(t, r.out, rules[5].Command)
}
