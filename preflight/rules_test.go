package preflight

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPatternsBecomeResourcesWhereThereAreSome(t *testing.T) {
	for pattern, want := range map[string]Resource{
		"orders":    {"topic", "orders", "literal"},
		"orders-*":  {"topic", "orders-", "prefixed"},
		"orders-**": {"topic", "orders-", "prefixed"},
		"*":         {"topic", "*", "literal"},
	} {
		got, ok := TopicResource(pattern)
		require.True(t, ok, pattern)
		require.Equal(t, want, got, pattern)
	}
	for _, pattern := range []string{"*-delay", "a*b", "a?", "?*"} {
		_, ok := TopicResource(pattern)
		require.False(t, ok, pattern)
	}
}

func resources(patterns ...string) (all []Resource) {
	for _, p := range patterns {
		r, _ := TopicResource(p)
		all = append(all, r)
	}
	return all
}

func said(rules []AccessRule) (all []string) {
	for _, r := range rules {
		all = append(all, r.Operation+" "+r.Type+" "+r.Name+" "+r.Pattern)
	}
	return all
}

func TestAccessIsTheLeast(t *testing.T) {
	r := AccessRequest{
		Group: "g", Sources: resources("orders-delay", "orders-retry"), DeadLetters: resources("orders-dlq", "orders-dlq"),
		Targets: resources("orders"),
	}
	require.Equal(t, []string{
		"Read group g literal", "Read topic orders-delay literal", "Read topic orders-retry literal",
		"Write topic orders literal", "Write topic orders-dlq literal",
	}, said(Access(r)))
	r.Targets = resources("orders*", "orders-x*")
	require.Equal(t, []string{
		"Read group g literal", "Read topic orders-delay literal", "Read topic orders-retry literal", "Write topic orders prefixed",
	}, said(Access(r)), "a prefix covers what begins with it")
	r.Targets = resources("*", "orders")
	require.Contains(t, said(Access(r)), "Write topic * literal")
	require.Len(t, Access(r), 4)
}

func TestAccessForOldBrokersAndForChecksIsMore(t *testing.T) {
	r := AccessRequest{Group: "g", Sources: resources("a-delay"), DeadLetters: resources("a-dlq"), Old: true, Checks: true, Decisions: "g-accepted"}
	require.Equal(t, []string{
		"Read group g literal", "Read topic a-delay literal", "Write topic a-dlq literal", "IdempotentWrite cluster kafka-cluster literal",
		"DescribeConfigs topic a-delay literal", "DescribeConfigs topic a-dlq literal", "DescribeConfigs cluster kafka-cluster literal",
		"Read group g-accepted literal",
	}, said(Access(r)))
}

func TestCommandsCanBePasted(t *testing.T) {
	group := AccessRule{Resource{"group", "it's; rm -rf", "literal"}, "Read", ""}
	require.Equal(t, `kafka-acls.sh --bootstrap-server a:9092,b:9092 --add --allow-principal 'User:O=x y' --operation Read --group 'it'\''s; rm -rf' --resource-pattern-type literal`,
		group.Command("a:9092,b:9092", "", "User:O=x y"))
	require.Contains(t, AccessRule{Resource{"topic", "*", "literal"}, "Write", ""}.Command("a:1", "", "User:x"), "--topic '*' ")
	require.Contains(t, AccessRule{Resource{"cluster", "kafka-cluster", "literal"}, "IdempotentWrite", ""}.Command("a:1", "admin.properties", "User:x"), "a:1 --command-config admin.properties --add --allow-principal User:x --operation IdempotentWrite --cluster")
}
