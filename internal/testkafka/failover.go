package testkafka

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// offsetsTopic is where a real broker keeps committed offsets. The leader of a group's
// partition in it is the group's coordinator.
const offsetsTopic = "__consumer_offsets"

// MoveCoordinator gives the group's coordination to another node, by making that the
// preferred leader of the group's partition of committed offsets.
//
// From 4.x on, the new coordinator may answer OffsetFetch for some 100 ms as if the last
// commits had not been made (error 0, offset -1 or an older one): it reads as far as it
// knows its log to be replicated, which it learns only from its followers' next fetch.
// Any write to the group that was acknowledged (a commit, a SyncGroup) ends that.
func (c *Cluster) MoveCoordinator(group string) {
	c.t.Helper()
	require.Greater(c.t, len(c.own().nodes), 1, "one node has nobody to move a coordinator to")
	c.ask(func(ctx context.Context, a *admin) error {
		before, err := a.coordinator(ctx, group)
		if err != nil {
			return err
		}
		if err := a.moveOffsets(ctx, group, before); err != nil {
			return err
		}
		return a.awaitCoordinator(ctx, group, before)
	})
}

// awaitCoordinator waits until every node knows another coordinator than that.
func (a *admin) awaitCoordinator(ctx context.Context, group string, before int32) error {
	err := a.agree(ctx, func(node kmsg.Requestor) error {
		now, err := coordinatorSeenBy(ctx, node, group)
		if err == nil && (now == before || now < 0) {
			err = fmt.Errorf("it is %d", now)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("wait for another coordinator of %s than %d: %w", group, before, err)
	}
	return nil
}

// moveOffsets makes another replica than the one on that node lead the group's partition.
func (a *admin) moveOffsets(ctx context.Context, group string, away int32) error {
	topics, err := a.ListTopicsWithInternal(ctx, offsetsTopic)
	if err != nil {
		return fmt.Errorf("look at %s: %w", offsetsTopic, err)
	}
	partitions := topics[offsetsTopic].Partitions
	if len(partitions) == 0 {
		return fmt.Errorf("%s has no partitions yet", offsetsTopic)
	}
	partition := offsetsPartition(group, len(partitions))
	replicas := slices.Clone(partitions[partition].Replicas)
	slices.SortStableFunc(replicas, func(x, y int32) int {
		return after(x, away, partitions[partition].ISR) - after(y, away, partitions[partition].ISR)
	})
	var request kadm.AlterPartitionAssignmentsReq
	request.Assign(offsetsTopic, partition, replicas)
	if resp, err := a.AlterPartitionAssignments(ctx, request); err != nil {
		return fmt.Errorf("prefer %v for %s/%d: %w", replicas, offsetsTopic, partition, err)
	} else if err := resp.Error(); err != nil {
		return fmt.Errorf("prefer %v for %s/%d: %w", replicas, offsetsTopic, partition, err)
	}
	if err := a.awaitReplicas(ctx, offsetsTopic, partition, replicas); err != nil {
		return err
	}
	set := make(kadm.TopicsSet)
	set.Add(offsetsTopic, partition)
	if _, err := a.ElectLeaders(ctx, kadm.ElectPreferredReplica, set); err != nil {
		return fmt.Errorf("elect a leader for %s/%d: %w", offsetsTopic, partition, err)
	}
	return nil
}

// after ranks replicas: those in sync first, the one that shall lose the leadership last.
func after(replica, away int32, inSync []int32) int {
	switch {
	case replica == away:
		return 2
	case !slices.Contains(inSync, replica):
		return 1
	default:
		return 0
	}
}

func (a *admin) awaitReplicas(ctx context.Context, topic string, partition int32, replicas []int32) error {
	for {
		topics, err := a.ListTopicsWithInternal(ctx, topic)
		if err == nil && slices.Equal(topics[topic].Partitions[partition].Replicas, replicas) {
			return nil
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("wait for the replicas of %s/%d: %w", topic, partition, err)
		}
	}
}

// offsetsPartition is where a real broker keeps a group: the absolute value of Java's hash
// of its name, where the one number that has none counts as 0.
func offsetsPartition(group string, partitions int) int32 {
	var hash int32
	for _, char := range group {
		hash = 31*hash + char
	}
	switch {
	case hash == math.MinInt32:
		hash = 0
	case hash < 0:
		hash = -hash
	}
	return hash % int32(partitions)
}

// Leaderless kills the node that has the partition's only replica (see CreateTopicOn).
// undo starts it again.
func (c *Cluster) Leaderless(topic string, partition int32) (undo func()) {
	c.t.Helper()
	require.Greater(c.t, len(c.own().nodes), 1, "one node has nobody left to say that a leader is missing")
	leader := c.Leader(topic, partition)
	require.GreaterOrEqual(c.t, leader, int32(0), "%s/%d has no leader", topic, partition)
	c.Kill(leader)
	c.ask(func(ctx context.Context, a *admin) error {
		return a.await(ctx, topic, func(seen kmsg.MetadataResponseTopic) bool {
			return slices.ContainsFunc(seen.Partitions, func(p kmsg.MetadataResponseTopicPartition) bool {
				return p.Partition == partition && p.Leader < 0
			})
		})
	})
	return func() { c.Restart(leader) }
}
