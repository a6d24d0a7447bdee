package kafka

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"delay-scheduler/internal/testkafka"
	"delay-scheduler/scheduler"
)

// staysIn fails if the member is assigned anything anew while it heartbeats a few times.
func staysIn(t testing.TB, m *member) {
	t.Helper()
	s, n := m.generation()
	require.Never(t, func() bool { _, k := m.generation(); return k != n || m.held() == nil }, 2500*time.Millisecond, 20*time.Millisecond,
		"the generation should go on")
	now, _ := m.generation()
	require.Same(t, s, now)
}

func TestADeletedTopicDisturbsNobody(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		kept, deleted := testkafka.UniqueName(t), testkafka.UniqueName(t)
		b.CreateTopic(kept, 2, nil)
		b.CreateTopic(deleted, 2, nil)
		o := groupOptions(b, kept, kept, deleted)
		o.MetadataRefresh = 200 * time.Millisecond
		m := startMember(t, o)
		m.awaitClaims(4)
		b.DeleteTopic(deleted)
		staysIn(t, m)
		s, _ := m.generation()
		require.NoError(t, commitOne(t, s, kept, 0, 1, ""))

		second := startMember(t, o)
		awaitOwners(t, 2, m, second)
		require.Empty(t, m.group.Status().LastError)
	})
}

func TestATopicMadeAgainIsClaimedUnderItsNewID(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		topic := testkafka.UniqueName(t)
		b.CreateTopic(topic, 1, nil)
		o := groupOptions(b, topic, topic)
		o.MetadataRefresh = 200 * time.Millisecond
		m := startMember(t, o)
		m.awaitClaims(1)
		id := m.held()[place{topic, 0}].TopicID
		s, _ := m.generation()
		require.NoError(t, commitOne(t, s, topic, 0, 5, "of the first"))
		b.DeleteTopic(topic)
		require.Eventually(t, func() bool {
			states, err := m.group.client.lookup.topics(t.Context(), topic)
			return err == nil && states[topic].Err != nil
		}, patience, 20*time.Millisecond)
		b.CreateTopic(topic, 1, nil)
		m.awaitAssign(2)
		claim := m.held()[place{topic, 0}]
		require.NotEqual(t, id, claim.TopicID)
		require.NotZero(t, claim.TopicID)
	})
}

func TestADroppedHeartbeatConnectionIsMadeAgain(t *testing.T) {
	b := testkafka.Fake(t)
	m, s, topic := joinedMember(t, b, 2)
	_, assigns := m.generation()
	dropped := make(chan struct{}, 10)
	for range 5 {
		b.ControlKey(int16(keyHeartbeat), func(kmsg.Request) (kmsg.Response, error, bool) {
			dropped <- struct{}{}
			return nil, errors.New("cut the connection"), true
		})
	}
	for range 5 {
		<-dropped
	}
	beats := watchKeys(b, keyHeartbeat)
	require.Eventually(t, func() bool { return beats.Hits() > 1 }, patience, 10*time.Millisecond)
	_, now := m.generation()
	require.Equal(t, assigns, now)
	require.NoError(t, commitOne(t, s, topic, 0, 1, ""))
}

// blockedPair starts two members, and makes the second's Release last until the
// returned function is called: while it does, every join waits.
func blockedPair(t *testing.T, b testkafka.Broker, change ...func(*recorder)) (first, second *member, topic string, open func()) {
	t.Helper()
	topic = testkafka.UniqueName(t)
	b.CreateTopic(topic, 4, nil)
	o := groupOptions(b, topic, topic)
	o.RebalanceDrain = 14 * time.Second
	gate := make(chan struct{})
	first = startMember(t, o, change...)
	first.awaitClaims(4)
	second = startMember(t, o, func(r *recorder) {
		r.release = func(ctx context.Context, _ scheduler.Session, _ []scheduler.Claim) {
			select {
			case <-gate:
			case <-ctx.Done():
			}
		}
	})
	awaitOwners(t, 4, first, second)
	closed := false
	open = func() {
		if !closed {
			close(gate)
			closed = true
		}
	}
	t.Cleanup(open) // before the members are stopped
	return first, second, topic, open
}

func TestTheOldGenerationMayCommitWhileTheGroupWaitsForAnother(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		first, second, topic, open := blockedPair(t, b)
		old, assigns := first.generation()
		var mine place
		for mine = range first.held() {
			break
		}
		o := groupOptions(b, topic, topic)
		third := startMember(t, o)
		require.Eventually(t, func() bool { return first.held() == nil && second.held() == nil }, patience, 5*time.Millisecond)
		// The first waits in its join now, or is about to. Its old generation is good all the time.
		for i := range int64(20) {
			require.NoError(t, commitOne(t, old, topic, mine.partition, i, "old"))
		}
		open()
		awaitOwners(t, 4, first, second, third)
		_, now := first.generation()
		require.Equal(t, assigns+1, now)
		require.ErrorIs(t, commitOne(t, old, topic, mine.partition, 99, ""), scheduler.ErrFenced)
		require.Equal(t, "old", testkafka.Committed(t, b, topic, topic)[mine.partition].Metadata)
	})
}

func TestStoppingWhileAJoinIsAwaitedIsQuickAndLeaves(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		released := make(chan error, 16)
		first, second, topic, open := blockedPair(t, b, func(r *recorder) {
			r.release = func(_ context.Context, s scheduler.Session, claims []scheduler.Claim) {
				for _, c := range claims {
					released <- commitOne(r.t, s, c.Topic, c.Partition, 1, "the last")
				}
			}
		})
		held := len(first.held())
		for len(released) > 0 {
			require.NoError(t, <-released) // when the second joined
		}
		third := startMember(t, groupOptions(b, topic, topic))
		require.Eventually(t, func() bool { return len(released) == held }, patience, 5*time.Millisecond)

		began := time.Now()
		third.stop()
		require.NoError(t, third.err)
		require.Less(t, time.Since(began), 2*time.Second, "one that never had anything")
		began = time.Now()
		first.stop()
		require.NoError(t, first.err)
		require.Less(t, time.Since(began), 2*time.Second, "one that had a generation")
		require.Len(t, released, 2*held, "what was done meanwhile is committed again before it leaves")
		for range 2 * held {
			require.NoError(t, <-released)
		}

		open()
		began = time.Now()
		second.awaitClaims(4)
		require.Less(t, time.Since(began), 4*time.Second, "nobody waits for sessions of those who left")
	})
}

func TestStoppingNeverWaitsForBrokersThatAreGone(t *testing.T) {
	for name, tc := range map[string]func(t *testing.T, b *testkafka.FakeCluster, m *member){
		"closed": func(_ *testing.T, b *testkafka.FakeCluster, _ *member) { b.Close() },
		"closed for long": func(t *testing.T, b *testkafka.FakeCluster, m *member) {
			b.Close()
			require.Eventually(t, func() bool { return m.group.Status().LastError != "" }, patience, 5*time.Millisecond)
		},
		"silent": func(t *testing.T, b *testkafka.FakeCluster, m *member) {
			silent := make(chan struct{}, 100)
			b.Control(func(kmsg.Request) (kmsg.Response, error, bool) {
				b.KeepControl()
				select {
				case silent <- struct{}{}:
				default:
				}
				return nil, nil, true
			})
			<-silent
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := testkafka.Fake(t)
			m, _, _ := joinedMember(t, b, 2)
			tc(t, b, m)
			began := time.Now()
			m.stop()
			require.NoError(t, m.err)
			require.Less(t, time.Since(began), 3*time.Second)
		})
	}
}

func TestStoppingBeforeAnyBrokerWasReachedIsQuick(t *testing.T) {
	o := groupOptions(endpoint{"127.0.0.1:1"}, "g", "t")
	m := startMember(t, o)
	require.Eventually(t, func() bool { return m.group.Status().LastError != "" }, patience, 5*time.Millisecond)
	began := time.Now()
	m.stop()
	require.NoError(t, m.err)
	require.Less(t, time.Since(began), time.Second)
}

type endpoint []string

// Addrs implements testkafka.Endpoint.
func (e endpoint) Addrs() []string { return e }

func TestAFailedSetUpOfClaimsIsTriedAgainWhileTheSessionLasts(t *testing.T) {
	b := testkafka.Fake(t)
	topic := testkafka.UniqueName(t)
	b.CreateTopic(topic, 2, nil)
	stable := func(r kmsg.Request) bool { return r.(*kmsg.OffsetFetchRequest).RequireStable }
	var faults []*kfake.FaultHandle
	for _, err := range unstable {
		faults = append(faults, b.Fault(kfake.Fault{Keys: []kmsg.Key{keyOffsetFetch}, Group: topic, Err: err, Count: 2, When: stable}))
	}
	m := startMember(t, groupOptions(b, topic, topic))
	m.awaitClaims(2)
	for i, f := range faults {
		require.Positive(t, f.Hits(), unstable[i])
	}
	require.Equal(t, []string{"quiesce", "assign"}, m.history(), "no other join was needed")
}

func TestAFencedMemberJoinsAgain(t *testing.T) {
	b := testkafka.Fake(t)
	topic := testkafka.UniqueName(t)
	b.CreateTopic(topic, 2, nil)
	o := groupOptions(b, topic, topic)
	o.SessionTimeout = 1500 * time.Millisecond
	net := &frozenDialer{}
	o.Dialer = net
	m := startMember(t, o)
	m.awaitClaims(2)
	old, _ := m.generation()

	net.freeze()
	second := startMember(t, groupOptions(b, topic, topic))
	second.awaitClaims(2)
	net.thaw()
	require.Eventually(t, func() bool { return errors.Is(commitOne(t, old, topic, 0, 1, ""), scheduler.ErrFenced) }, patience, 50*time.Millisecond)
	awaitOwners(t, 2, m, second)
	require.NoError(t, m.err)
}

func TestACrashOfOneMemberLeavesTheOthersTheirGenerationWhileTheGroupWaits(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		topic := testkafka.UniqueName(t)
		b.CreateTopic(topic, 4, nil)
		o := groupOptions(b, topic, topic)
		survivor := startMember(t, o)
		survivor.awaitClaims(4)
		crashed := o
		network := &frozenDialer{}
		crashed.Dialer = network
		dead := startMember(t, crashed)
		awaitOwners(t, 4, survivor, dead)
		old, assigns := survivor.generation()
		var mine place
		for mine = range survivor.held() {
			break
		}
		network.freeze()
		t.Cleanup(network.thaw)

		replacement := startMember(t, o)
		var longest time.Duration
		last, commits := time.Now(), 0
		require.Eventually(t, func() bool {
			err := commitOne(t, old, topic, mine.partition, int64(commits), "")
			if err == nil {
				commits++
				longest = max(longest, time.Since(last))
				last = time.Now()
			} else {
				require.ErrorIs(t, err, scheduler.ErrFenced)
			}
			_, n := survivor.generation()
			return n > assigns
		}, patience, 20*time.Millisecond)
		awaitOwners(t, 4, survivor, replacement)
		longest = max(longest, time.Since(last))
		require.Less(t, longest, 2*time.Second)
		require.Greater(t, commits, 20, "the group should have waited for the dead one's session")
	})
}
