package kafka

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"delay-scheduler/internal/testkafka"
	"delay-scheduler/offset"
)

func TestF31_NewPartitionsAndNewTopicsAreClaimedWithinTheRefresh(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		prefix := testkafka.UniqueName(t)
		b.CreateTopic(prefix+"-a-delay", 6, nil)
		b.CreateTopic(prefix+"-a-dlq", 1, nil)
		o := groupOptions(b, prefix)
		o.MetadataRefresh = time.Second
		o.Match = func(topic string) bool {
			return strings.HasPrefix(topic, prefix) && strings.HasSuffix(topic, "-delay")
		}
		first, second := startMember(t, o), startMember(t, o)
		awaitOwners(t, 6, first, second)
		_, before := first.generation()

		b.AddPartitions(prefix+"-a-delay", 12)
		began := time.Now()
		awaitOwners(t, 12, first, second)
		took := time.Since(began)
		for p, claim := range first.held() {
			require.Equal(t, int64(-1), claim.Committed, p)
		}
		b.CreateTopic(prefix+"-b-delay", 2, nil)
		awaitOwners(t, 14, first, second)

		require.Less(t, took, o.MetadataRefresh+3*time.Second)
		_, after := first.generation()
		require.LessOrEqual(t, after-before, 4, "a change costs one join, two if it is seen at different times")
		claimed := owners(first, second)
		require.NotContains(t, claimed, place{prefix + "-a-dlq", 0})
	})
}

func TestNothingNewMeansNoNewGeneration(t *testing.T) {
	b := testkafka.Fake(t)
	topic := testkafka.UniqueName(t)
	b.CreateTopic(topic, 4, nil)
	b.CreateTopic("not-ours", 4, nil)
	o := groupOptions(b, topic, topic)
	o.MetadataRefresh = 100 * time.Millisecond
	first, second := startMember(t, o), startMember(t, o)
	awaitOwners(t, 4, first, second)
	joins, looks := watchKeys(b, keyJoinGroup), watchKeys(b, keyMetadata)
	b.CreateTopic("not-ours-either", 4, nil)
	require.Eventually(t, func() bool { return looks.Hits() > 30 }, patience, 10*time.Millisecond)
	require.Zero(t, joins.Hits())
}

func TestPartitionsAddedWhileAStaticMemberWasAwayAreClaimedWhenItIsBack(t *testing.T) {
	// It gets its old assignment back without anybody looking at the topics again.
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		topic := testkafka.UniqueName(t)
		b.CreateTopic(topic, 2, nil)
		o := groupOptions(b, topic, topic)
		o.InstanceID = "lonely"
		o.MetadataRefresh = time.Minute
		m := startMember(t, o)
		m.awaitClaims(2)
		m.stop()
		b.AddPartitions(topic, 5)
		back := startMember(t, o)
		back.awaitClaims(5)
	})
}

func TestAMemberWithoutTopicsLeavesTheOthersAlone(t *testing.T) {
	b := testkafka.Fake(t)
	topic, late := testkafka.UniqueName(t), testkafka.UniqueName(t)
	b.CreateTopic(topic, 2, nil)
	m := startMember(t, groupOptions(b, topic, topic))
	m.awaitClaims(2)
	idle := startMember(t, groupOptions(b, topic, late))
	require.Eventually(t, func() bool { return strings.Contains(idle.group.Status().LastError, "no topic") }, patience, 5*time.Millisecond)
	staysIn(t, m)
	b.CreateTopic(late, 1, nil)
	idle.awaitClaims(1)
	m.awaitClaims(2)
	require.Contains(t, idle.held(), place{late, 0})
}

func TestMembersStartedAndStoppedAllTheTimeShareEverythingInTheEnd(t *testing.T) {
	b := testkafka.Fake(t)
	topic := testkafka.UniqueName(t)
	b.CreateTopic(topic, 6, nil)
	o := groupOptions(b, topic, topic)
	// Static members are waited for; one that is cut off in the middle of a join counts
	// as a member until the rebalance timeout.
	o.SessionTimeout, o.RebalanceTimeout = 1500*time.Millisecond, 4*time.Second
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			for j := range 5 {
				o := o
				if i%5 == 0 {
					o.InstanceID = fmt.Sprintf("static-%d", i)
				}
				m := startMember(t, o)
				if (i+j)%3 == 0 {
					awaitBriefly(m)
				}
				m.stop()
				if m.err != nil {
					t.Errorf("member %d, round %d: %v", i, j, m.err)
				}
			}
		})
	}
	wg.Wait()
	last := startMember(t, o)
	last.awaitClaims(6)
}

// awaitBriefly gives a member some time to be assigned anything. It may not be: the
// others come and go all the time.
func awaitBriefly(m *member) {
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); runtime.Gosched() {
		if _, n := m.generation(); n > 0 {
			return
		}
	}
}

func TestWhatCountsAsAChangeOfTopics(t *testing.T) {
	state := func(id byte, partitions int) topicState {
		s := topicState{ID: offset.TopicID{id}}
		for p := range int32(partitions) {
			s.Partitions = append(s.Partitions, p)
		}
		return s
	}
	base := map[string]topicBase{"a": {offset.TopicID{1}, 3}, "b": {offset.TopicID{2}, 1}}
	for name, tc := range map[string]struct {
		now  topicView
		want string
	}{
		"the same":          {topicView{"a": state(1, 3), "b": state(2, 1)}, ""},
		"a new topic":       {topicView{"a": state(1, 3), "b": state(2, 1), "c": state(3, 1)}, "topic c is new"},
		"more partitions":   {topicView{"a": state(1, 4), "b": state(2, 1)}, "topic a has more partitions"},
		"made again":        {topicView{"a": state(9, 3), "b": state(2, 1)}, "topic a was deleted and made again"},
		"deleted":           {topicView{"a": state(1, 3)}, ""},
		"seen incompletely": {topicView{"a": state(1, 2), "b": state(2, 1)}, ""},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, changed(base, tc.now)) })
	}
}

func TestTheLeadersOwnCountIsWhatTheGenerationAccountsFor(t *testing.T) {
	// The broker that was asked while sharing out lagged behind the one asked before.
	g := &Group{client: &groupClient{dealt: map[string]int{"a": 2}}}
	g.view = topicView{"a": {Partitions: []int32{0, 1, 2}}, "b": {Partitions: []int32{0}}}
	base := g.baseline(nil, nil)
	require.Equal(t, 2, base["a"].count)
	require.Equal(t, 1, base["b"].count)
	require.NotEmpty(t, changed(base, g.view))
}

func TestGroupOptionsNameWhatIsWrong(t *testing.T) {
	good := groupOptions(endpoint{"127.0.0.1:9092"}, "g", "t")
	require.NoError(t, good.validateGroup())
	for want, change := range map[string]func(*GroupOptions){
		"group.id":                func(o *GroupOptions) { o.ID = "" },
		"group.session_timeout":   func(o *GroupOptions) { o.SessionTimeout = time.Millisecond },
		"group.rebalance_timeout": func(o *GroupOptions) { o.RebalanceTimeout = o.RebalanceDrain },
		"group.rebalance_drain":   func(o *GroupOptions) { o.RebalanceDrain = -1 },
		"kafka.brokers":           func(o *GroupOptions) { o.Brokers = nil },
		"group.instance_id":       func(o *GroupOptions) { o.InstanceID = "not valid!" },
		"source topics":           func(o *GroupOptions) { o.Match = nil },
	} {
		t.Run(want, func(t *testing.T) {
			o := good
			o.Brokers = slices.Clone(good.Brokers)
			change(&o)
			_, err := NewGroup(o, &recorder{t: t}, nil, nil)
			require.ErrorContains(t, err, want)
		})
	}
}
