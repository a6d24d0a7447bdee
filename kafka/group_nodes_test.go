package kafka

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"delay-scheduler/internal/testkafka"
	"delay-scheduler/scheduler"
)

// One cluster of three brokers serves all that hurts a single one of them.
func TestTroubleOfOneBrokerIsNotTheGroups(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		for _, tc := range []struct {
			name string
			run  func(*testing.T, testkafka.Nodes)
		}{
			{"a silent broker holds up nobody", silentBroker},
			{"the generation goes on when the coordinator moves", coordinatorMoves},
			{"the generation goes on when the coordinator is silent for a while", coordinatorSilent},
			{"the generation goes on when the coordinator is killed", coordinatorKilled},
			{"a partition without a leader disturbs nobody and is shared out like any other", leaderless},
		} {
			t.Run(tc.name, func(t *testing.T) { tc.run(t, b.(testkafka.Nodes)) })
		}
	}, testkafka.WithBrokers(3))
}

// spread creates a topic with a partition for each node and one more each.
func spread(b testkafka.Nodes, topic string) (partitions int) {
	var replicas [][]int32
	for range 2 {
		for _, id := range b.NodeIDs() {
			replicas = append(replicas, []int32{id})
		}
	}
	b.CreateTopicOn(topic, replicas, nil)
	return len(replicas)
}

func leaderless(t *testing.T, b testkafka.Nodes) {
	topic := testkafka.UniqueName(t)
	n := spread(b, topic)
	o := groupOptions(b, topic, topic)
	o.MetadataRefresh = 500 * time.Millisecond
	m := startMember(t, o)
	m.awaitClaims(n)
	undo := b.Leaderless(topic, 1)
	defer undo()
	staysIn(t, m)
	second := startMember(t, o)
	awaitOwners(t, n, m, second)
	require.Contains(t, owners(m, second), place{topic, 1})
	s, _ := second.generation()
	require.NoError(t, commitOne(t, s, topic, 1, 1, ""))
}

// other gives a node that does not coordinate the group.
func other(b testkafka.Nodes, group string) int32 {
	for _, id := range b.NodeIDs() {
		if id != b.Coordinator(group) {
			return id
		}
	}
	panic("one node only")
}

func silentBroker(t *testing.T, b testkafka.Nodes) {
	topic := testkafka.UniqueName(t)
	n := spread(b, topic)
	o := groupOptions(b, topic, topic)
	o.MetadataRefresh = 500 * time.Millisecond
	m := startMember(t, o)
	m.awaitClaims(n)
	silent := other(b, topic)
	b.Freeze(silent)
	defer b.Thaw(silent)
	staysIn(t, m)
	s, _ := m.generation()
	// The broker stores a commit when the replicas have it, of which one is silent, until
	// it is no longer counted.
	require.Eventually(t, func() bool { return commitOne(t, s, topic, 0, 1, "") == nil }, patience, 50*time.Millisecond)

	began := time.Now()
	second := startMember(t, o)
	awaitOwners(t, n, m, second)
	require.Less(t, time.Since(began), o.SessionTimeout+4*time.Second)
	second.stop()
	m.awaitClaims(n)
}

func coordinatorMoves(t *testing.T, b testkafka.Nodes) {
	topic := testkafka.UniqueName(t)
	n := spread(b, topic)
	m := startMember(t, groupOptions(b, topic, topic))
	m.awaitClaims(n)
	s, assigns := m.generation()
	b.MoveCoordinator(topic)
	require.Eventually(t, func() bool { return commitOne(t, s, topic, 0, 1, "after") == nil }, patience, 50*time.Millisecond)
	staysIn(t, m)
	_, now := m.generation()
	require.Equal(t, assigns, now)
	require.True(t, m.group.Status().Joined)
}

func coordinatorSilent(t *testing.T, b testkafka.Nodes) {
	topic := testkafka.UniqueName(t)
	n := spread(b, topic)
	o := groupOptions(b, topic, topic)
	m := startMember(t, o)
	m.awaitClaims(n)
	s, assigns := m.generation()
	node := b.Coordinator(topic)
	b.Freeze(node)
	require.ErrorIs(t, commitOne(t, s, topic, 0, 1, ""), scheduler.ErrUnavailable)
	b.Thaw(node)
	require.Eventually(t, func() bool { return commitOne(t, s, topic, 0, 2, "") == nil }, patience, 50*time.Millisecond)
	_, now := m.generation()
	require.Equal(t, assigns, now, "the generation should go on")
}

func coordinatorKilled(t *testing.T, b testkafka.Nodes) {
	cluster, ok := b.(*testkafka.Cluster)
	if !ok {
		t.Skip("the embedded brokers die together")
	}
	topic := testkafka.UniqueName(t)
	n := spread(b, topic)
	m := startMember(t, groupOptions(b, topic, topic))
	m.awaitClaims(n)
	s, assigns := m.generation()
	node := b.Coordinator(topic)
	cluster.Kill(node)
	defer cluster.Restart(node)
	began := time.Now()
	require.Eventually(t, func() bool { return commitOne(t, s, topic, 0, 2, "") == nil }, 2*patience, 50*time.Millisecond)
	t.Logf("commits were taken again after %v", time.Since(began))
	staysIn(t, m)
	_, now := m.generation()
	require.Equal(t, assigns, now, "the generation should go on")
}
