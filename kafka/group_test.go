package kafka

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"delay-scheduler/internal/testkafka"
	"delay-scheduler/scheduler"
)

func TestTwoMembersShareThePartitionsAndTakeOverWhenOneLeaves(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		topic := testkafka.UniqueName(t)
		b.CreateTopic(topic, 6, nil)
		o := groupOptions(b, topic, topic)

		first := startMember(t, o)
		first.awaitClaims(6)
		require.Equal(t, []string{"quiesce", "assign"}, first.history())

		second := startMember(t, o)
		awaitOwners(t, 6, first, second)
		require.Len(t, first.held(), 3)
		require.Equal(t, []string{"quiesce", "assign", "release", "quiesce", "assign"}, first.history())

		began := time.Now()
		second.stop()
		require.NoError(t, second.err)
		require.Equal(t, "release", second.history()[len(second.history())-1])
		first.awaitClaims(6)
		require.Less(t, time.Since(began), 4*time.Second, "a member that leaves says so")
	})
}

func TestClaimsCarryTheTopicIDAndWhatTheGroupHasStored(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		topic := testkafka.UniqueName(t)
		b.CreateTopic(topic, 2, nil)
		o := groupOptions(b, topic, topic)

		m := startMember(t, o)
		m.awaitClaims(2)
		claim := m.held()[place{topic, 1}]
		require.Equal(t, int64(-1), claim.Committed)
		require.Equal(t, 7*24*time.Hour, claim.KeptFor, "the brokers' default")
		require.NotZero(t, claim.TopicID)

		s, _ := m.generation()
		require.NoError(t, commitOne(t, s, topic, 1, 42, "what is done"))
		require.Equal(t, testkafka.Commit{Offset: 42, Metadata: "what is done"}, testkafka.Committed(t, b, topic, topic)[1])
		m.stop()

		again := startMember(t, o)
		again.awaitClaims(2)
		require.Equal(t, scheduler.Claim{Topic: topic, Partition: 1, TopicID: claim.TopicID, Committed: 42, Metadata: "what is done"}, again.held()[place{topic, 1}])
		require.Equal(t, int64(-1), again.held()[place{topic, 0}].Committed)
	})
}

func TestAStaticMemberThatComesBackKeepsItsPartitionsAndGeneration(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		topic := testkafka.UniqueName(t)
		b.CreateTopic(topic, 4, nil)
		a, z := groupOptions(b, topic, topic), groupOptions(b, topic, topic)
		a.InstanceID, z.InstanceID = "a", "z"

		first, other := startMember(t, a), startMember(t, z)
		awaitOwners(t, 4, first, other)
		before, assigns := other.generation()
		had, generation := first.held(), first.group.Status().Generation

		first.stop()
		require.NoError(t, first.err)
		back := startMember(t, a)
		back.awaitClaims(len(had))
		require.Equal(t, had, back.held())
		if b.Real() {
			// The embedded broker compares what the members subscribed with, too.
			require.Equal(t, generation, back.group.Status().Generation)
			now, n := other.generation()
			require.Equal(t, assigns, n, "the other member should not notice")
			require.Same(t, before, now)
		}
	})
}

func TestASecondProcessWithTheSameInstanceIDEndsTheFirst(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		topic := testkafka.UniqueName(t)
		b.CreateTopic(topic, 2, nil)
		o := groupOptions(b, topic, topic)
		o.InstanceID = "the-one"

		first := startMember(t, o)
		first.awaitClaims(2)
		s, _ := first.generation()
		second := startMember(t, o)
		second.awaitClaims(2)

		require.ErrorIs(t, commitOne(t, s, topic, 0, 1, ""), scheduler.ErrFenced)
		select {
		case <-first.done:
		case <-time.After(patience):
			require.FailNow(t, "the fenced process should end")
		}
		require.ErrorIs(t, first.err, ErrFencedInstance)
		require.ErrorContains(t, first.err, "group.instance_id")
		require.ErrorContains(t, first.err, "the-one")
		require.Len(t, second.held(), 2)
		require.NoError(t, func() error { s, _ := second.generation(); return commitOne(t, s, topic, 0, 1, "") }())
	})
}

func TestReleaseMayStillCommitAndIsBounded(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		topic := testkafka.UniqueName(t)
		b.CreateTopic(topic, 2, nil)
		o := groupOptions(b, topic, topic)
		var answers []error // of the last release: a new topic may make the group form twice
		var bound time.Duration

		m := startMember(t, o, func(r *recorder) {
			r.release = func(ctx context.Context, s scheduler.Session, claims []scheduler.Claim) {
				deadline, ok := ctx.Deadline()
				require.True(t, ok)
				bound, answers = time.Until(deadline), nil
				for _, c := range claims {
					answers = append(answers, commitOne(t, s, c.Topic, c.Partition, 7, "the last"))
				}
			}
		})
		m.awaitClaims(2)
		m.stop()
		require.Equal(t, []error{nil, nil}, answers)
		require.LessOrEqual(t, bound, o.RebalanceDrain)
		require.Equal(t, int64(7), testkafka.Committed(t, b, topic, topic)[0].Offset)
	})
}

func TestTheStatusTellsWhatTheMembershipIsDoing(t *testing.T) {
	b := testkafka.Fake(t)
	topic := testkafka.UniqueName(t)
	m := startMember(t, groupOptions(b, topic, topic))

	require.Eventually(t, func() bool { return m.group.Status().LastError == errNoTopic.Error() }, patience, 5*time.Millisecond)
	require.False(t, m.group.Status().Joined)
	b.CreateTopic(topic, 3, nil)
	m.awaitClaims(3)
	s := m.group.Status()
	require.True(t, s.Joined)
	require.Equal(t, 3, s.Claims)
	require.Empty(t, s.LastError)
	session, _ := m.generation()
	require.Equal(t, session.ID(), fmt.Sprintf("%s/%d", s.Member, s.Generation))
	m.stop()
	require.False(t, m.group.Status().Joined)
}

func TestNothingIsFetchedAndNoOffsetIsLookedUp(t *testing.T) {
	// The library's group is there to share out partitions; what it would read of them
	// is lost to the scheduler and pays for memory.
	b := testkafka.Fake(t)
	topic := testkafka.UniqueName(t)
	b.CreateTopic(topic, 8, nil)
	seen := watchKeys(b, keyFetch, keyListOffsets)
	m := startMember(t, groupOptions(b, topic, topic))
	m.awaitClaims(8)
	heartbeats := watchKeys(b, keyHeartbeat)
	require.Eventually(t, func() bool { return heartbeats.Hits() >= 2 }, patience, 5*time.Millisecond)
	require.Zero(t, seen.Hits())
}

func TestTheHandlerIsQuiescedBeforeTheClaimsAreLookedUp(t *testing.T) {
	// The library asks for every claim's offset, one after the other, before it says that
	// there is a new generation. Others have our partitions by then.
	b := testkafka.Fake(t)
	topic := testkafka.UniqueName(t)
	b.CreateTopic(topic, 6, nil)
	o := groupOptions(b, topic, topic)
	fetches := watchKeys(b, keyOffsetFetch)
	atQuiesce := make(chan int, 10)
	first := startMember(t, o, func(r *recorder) { r.quiesce = func() { atQuiesce <- fetches.Hits() } })
	first.awaitClaims(6)
	<-atQuiesce
	before := fetches.Hits()
	second := startMember(t, o)
	awaitOwners(t, 6, first, second)
	require.Equal(t, before, <-atQuiesce)
	require.Greater(t, fetches.Hits(), before)
}

func TestOnlyDynamicMembersSayThatTheyLeave(t *testing.T) {
	b := testkafka.Fake(t)
	topic := testkafka.UniqueName(t)
	b.CreateTopic(topic, 1, nil)
	leaves := watchKeys(b, keyLeaveGroup)
	o := groupOptions(b, topic, topic)
	o.InstanceID = "static"
	static := startMember(t, o)
	static.awaitClaims(1)
	static.stop()
	require.Zero(t, leaves.Hits())
	dynamic, _, _ := joinedMember(t, b, 1)
	dynamic.stop()
	require.Positive(t, leaves.Hits())
}
