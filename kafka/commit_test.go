package kafka

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"delay-scheduler/internal/testkafka"
	"delay-scheduler/scheduler"
)

// commitAll commits partitions in one call and gives the answers by partition.
func commitAll(t testing.TB, s scheduler.Session, commits ...scheduler.Commit) map[place]error {
	t.Helper()
	type answer struct {
		place
		err error
	}
	answers := make(chan answer, len(commits)+1)
	for i, c := range commits {
		commits[i].Done = func(err error) { answers <- answer{place{c.Topic, c.Partition}, err} }
	}
	s.Commit(commits)
	got := map[place]error{}
	timeout := time.After(patience)
	for range commits {
		select {
		case a := <-answers:
			got[a.place] = a.err
		case <-timeout:
			require.FailNow(t, "a commit was never answered")
		}
	}
	require.Empty(t, answers, "an answer came twice")
	return got
}

// joinedMember starts a member of its own group that holds n partitions of a topic
// named like the group.
func joinedMember(t testing.TB, b testkafka.Broker, n int, change ...func(*GroupOptions)) (*member, scheduler.Session, string) {
	t.Helper()
	topic := testkafka.UniqueName(t)
	b.CreateTopic(topic, n, nil)
	o := groupOptions(b, topic, topic)
	for _, c := range change {
		c(&o)
	}
	m := startMember(t, o)
	m.awaitClaims(n)
	s, _ := m.generation()
	return m, s, topic
}

func TestManyPartitionsWithLongMetadataAreCommittedInChunks(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		const partitions = 200
		var largest atomic.Int64
		var seen *kfake.FaultHandle
		if f, ok := b.(*testkafka.FakeCluster); ok {
			seen = f.Fault(kfake.Fault{Keys: []kmsg.Key{keyOffsetCommit}, Count: -1, Observe: true, When: func(r kmsg.Request) bool {
				largest.Store(max(largest.Load(), int64(len(r.AppendTo(nil)))))
				return true
			}})
		}
		_, s, topic := joinedMember(t, b, partitions, func(o *GroupOptions) { o.SessionTimeout = 30 * time.Second })
		metadata := strings.Repeat("m", 4000)
		commits := make([]scheduler.Commit, partitions)
		for i := range commits {
			commits[i] = scheduler.Commit{Topic: topic, Partition: int32(i), Offset: int64(i), Metadata: metadata}
		}
		for p, err := range commitAll(t, s, commits...) {
			require.NoError(t, err, p)
		}
		stored := testkafka.Committed(t, b, topic, topic)
		require.Len(t, stored, partitions)
		for p, c := range stored {
			require.Equal(t, testkafka.Commit{Offset: int64(p), Metadata: metadata}, c)
		}
		if seen != nil {
			require.GreaterOrEqual(t, seen.Hits(), 4)
			require.LessOrEqual(t, largest.Load(), int64(commitRequestSize)+1024)
		}
	})
}

func TestWhatIsCommittedAtTheSameMomentSharesARequest(t *testing.T) {
	b := testkafka.Fake(t)
	m, s, topic := joinedMember(t, b, 100)
	// Whatever is under way when they come holds them back a little.
	before := gathered(t, m.group.metrics.commitRequests)
	answers := make(chan error, 100)
	for p := range 100 {
		s.Commit([]scheduler.Commit{{Topic: topic, Partition: int32(p), Offset: 1, Done: func(err error) { answers <- err }}})
	}
	for range 100 {
		require.NoError(t, <-answers)
	}
	require.LessOrEqual(t, gathered(t, m.group.metrics.commitRequests)-before, 20.0)
}

func TestCommitsOfOnePartitionAreStoredInTheOrderGiven(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		_, s, topic := joinedMember(t, b, 1)
		type answer struct {
			offset int64
			err    error
		}
		answers := make(chan answer, 20)
		for o := range int64(20) {
			s.Commit([]scheduler.Commit{{Topic: topic, Offset: o, Metadata: fmt.Sprint(o), Done: func(err error) { answers <- answer{o, err} }}})
		}
		for o := range int64(20) {
			require.Equal(t, answer{o, nil}, <-answers)
		}
		require.Equal(t, testkafka.Commit{Offset: 19, Metadata: "19"}, testkafka.Committed(t, b, topic, topic)[0])
	})
}

func TestWhatABrokersAnswerMeansForACommit(t *testing.T) {
	for name, tc := range map[string]struct {
		code  *kerr.Error
		times int
		want  error // nil: stored in the end
	}{
		"illegal generation":         {kerr.IllegalGeneration, 1, scheduler.ErrFenced},
		"unknown member":             {kerr.UnknownMemberID, 1, scheduler.ErrFenced},
		"fenced instance":            {kerr.FencedInstanceID, 1, scheduler.ErrFenced},
		"rebalance in progress":      {kerr.RebalanceInProgress, 1, scheduler.ErrFenced},
		"topic not heard of yet":     {kerr.UnknownTopicOrPartition, 2, nil},
		"metadata too large":         {kerr.OffsetMetadataTooLarge, 1, scheduler.ErrMetadataTooLarge},
		"alone and still too large":  {kerr.InvalidCommitOffsetSize, 1, scheduler.ErrMetadataTooLarge},
		"not authorised":             {kerr.TopicAuthorizationFailed, 1, scheduler.ErrUnavailable},
		"group not authorised":       {kerr.GroupAuthorizationFailed, 1, scheduler.ErrUnavailable},
		"loading":                    {kerr.CoordinatorLoadInProgress, 2, nil},
		"coordinator not available":  {kerr.CoordinatorNotAvailable, 2, nil},
		"not the coordinator":        {kerr.NotCoordinator, 2, nil},
		"timed out":                  {kerr.RequestTimedOut, 1, nil},
		"an error without a meaning": {kerr.UnknownServerError, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := testkafka.Fake(t)
			m, s, topic := joinedMember(t, b, 1)
			fault := b.Fault(kfake.Fault{Keys: []kmsg.Key{keyOffsetCommit}, Topic: topic, Err: tc.code, Count: tc.times})
			err := commitOne(t, s, topic, 0, 5, "x")
			require.Equal(t, tc.times, fault.Hits())
			if tc.want == nil {
				require.NoError(t, err)
				require.Equal(t, testkafka.Commit{Offset: 5, Metadata: "x"}, testkafka.Committed(t, b, topic, topic)[0])
				return
			}
			require.ErrorIs(t, err, tc.want)
			var code sarama.KError
			require.True(t, errors.As(err, &code), "the answer should say the broker's code")
			require.Equal(t, tc.code.Code, int16(code))
			require.Equal(t, errors.Is(tc.want, scheduler.ErrFenced), s.(*session).Lost())
			if s.(*session).Lost() {
				hits := watchKeys(b, keyOffsetCommit)
				require.ErrorIs(t, commitOne(t, s, topic, 0, 6, ""), scheduler.ErrFenced)
				require.Zero(t, hits.Hits(), "a lost session asks nobody")
			}
			_ = m
		})
	}
}

func TestOnePartitionsTroubleDoesNotTouchTheOthersOfARequest(t *testing.T) {
	b := testkafka.Fake(t)
	_, s, topic := joinedMember(t, b, 5)
	fault := b.Fault(
		kfake.Fault{Keys: []kmsg.Key{keyOffsetCommit}, Topic: topic, Partitions: []int32{1}, Err: kerr.TopicAuthorizationFailed},
		kfake.Fault{Keys: []kmsg.Key{keyOffsetCommit}, Topic: topic, Partitions: []int32{2}, Err: kerr.OffsetMetadataTooLarge},
		kfake.Fault{Keys: []kmsg.Key{keyOffsetCommit}, Topic: topic, Partitions: []int32{3}, Err: kerr.CoordinatorLoadInProgress, Count: 3},
	)
	var commits []scheduler.Commit
	for p := range int32(5) {
		commits = append(commits, scheduler.Commit{Topic: topic, Partition: p, Offset: 9})
	}
	got := commitAll(t, s, commits...)
	require.Equal(t, 5, fault.Hits())
	require.NoError(t, got[place{topic, 0}])
	require.ErrorIs(t, got[place{topic, 1}], scheduler.ErrUnavailable)
	require.ErrorIs(t, got[place{topic, 2}], scheduler.ErrMetadataTooLarge)
	require.NoError(t, got[place{topic, 3}])
	require.NoError(t, got[place{topic, 4}])
	require.NoError(t, commitOne(t, s, topic, 2, 10, ""))
}

func TestARequestThatIsTooLargeIsHalvedUntilItIsTaken(t *testing.T) {
	b := testkafka.Fake(t)
	m, s, topic := joinedMember(t, b, 64)
	refuse := b.Fault(kfake.Fault{Keys: []kmsg.Key{keyOffsetCommit}, Topic: topic, Err: kerr.InvalidCommitOffsetSize, Count: -1, When: func(r kmsg.Request) bool {
		return len(r.(*kmsg.OffsetCommitRequest).Topics[0].Partitions) > 10
	}})
	var commits []scheduler.Commit
	for p := range int32(64) {
		commits = append(commits, scheduler.Commit{Topic: topic, Partition: p, Offset: 1, Metadata: strings.Repeat("m", 100)})
	}
	for p, err := range commitAll(t, s, commits...) {
		require.NoError(t, err, p)
	}
	require.Len(t, testkafka.Committed(t, b, topic, topic), 64)
	hits := refuse.Hits()
	require.Positive(t, hits)

	// The lesson is kept: the next round starts with requests of that size.
	for p, err := range commitAll(t, s, commits...) {
		require.NoError(t, err, p)
	}
	require.Equal(t, hits, refuse.Hits())
	require.NotNil(t, m)
}

func TestACommitThatWasStoredWithoutAnAnswerIsFoundStored(t *testing.T) {
	b := testkafka.Fake(t)
	_, s, topic := joinedMember(t, b, 1)
	// This code comes after the offsets are stored.
	fault := b.Fault(kfake.Fault{Keys: []kmsg.Key{keyOffsetCommit}, Topic: topic, Err: kerr.RequestTimedOut, Count: -1})
	require.NoError(t, commitOne(t, s, topic, 0, 5, "x"))
	require.Greater(t, fault.Hits(), 1, "it should have been tried again")
}

func TestACommitThatIsNeverTakenEndsInTimeAndLaterOnesAreStored(t *testing.T) {
	b := testkafka.Fake(t)
	m, s, topic := joinedMember(t, b, 2)
	fault := b.Fault(kfake.Fault{Keys: []kmsg.Key{keyOffsetCommit}, Topic: topic, Err: kerr.CoordinatorNotAvailable, Count: -1})
	began := time.Now()
	got := commitAll(t, s, scheduler.Commit{Topic: topic, Offset: 5}, scheduler.Commit{Topic: topic, Partition: 1, Offset: 5})
	require.Less(t, time.Since(began), m.group.opts.commitTime())
	require.ErrorIs(t, got[place{topic, 0}], scheduler.ErrUnavailable)
	require.ErrorIs(t, got[place{topic, 1}], sarama.ErrConsumerCoordinatorNotAvailable)
	require.Greater(t, fault.Hits(), 1)
	require.False(t, s.(*session).Lost())
	fault.Remove()
	require.NoError(t, commitOne(t, s, topic, 0, 5, ""))
}

func TestADroppedConnectionCostsACommitNothingButTime(t *testing.T) {
	b := testkafka.Fake(t)
	_, s, topic := joinedMember(t, b, 1)
	dropped := make(chan struct{})
	b.ControlKey(int16(keyOffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
		close(dropped)
		return nil, errors.New("cut the connection"), true
	})
	require.NoError(t, commitOne(t, s, topic, 0, 5, "x"))
	<-dropped
	require.Equal(t, int64(5), testkafka.Committed(t, b, topic, topic)[0].Offset)
}

func TestABrokerThatNeverAnswersACommitIsLeftForAnotherTry(t *testing.T) {
	b := testkafka.Fake(t)
	_, s, topic := joinedMember(t, b, 1)
	silent := make(chan struct{})
	b.ControlKey(int16(keyOffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
		close(silent)
		return nil, nil, true
	})
	require.NoError(t, commitOne(t, s, topic, 0, 5, "x"))
	<-silent
}

func TestStoppingAnswersEveryCommitThatWaits(t *testing.T) {
	b := testkafka.Fake(t)
	m, s, topic := joinedMember(t, b, 3)
	silent := make(chan struct{}, 100)
	b.ControlKey(int16(keyOffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		silent <- struct{}{}
		return nil, nil, true
	})
	answers := make(chan error, 30)
	for i := range 30 {
		s.Commit([]scheduler.Commit{{Topic: topic, Partition: int32(i % 3), Offset: int64(i), Done: func(err error) { answers <- err }}})
	}
	<-silent
	m.stop()
	require.Len(t, answers, 30)
	for range 30 {
		require.ErrorIs(t, <-answers, scheduler.ErrUnavailable)
	}
	s.Commit([]scheduler.Commit{{Topic: topic, Done: func(err error) { answers <- err }}})
	require.ErrorIs(t, <-answers, scheduler.ErrUnavailable)
}

func TestTheBrokerRefusesCommitsOfAnotherGeneration(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		m, s, topic := joinedMember(t, b, 1)
		now := s.(*session)
		stale := &session{committer: m.group.committer, member: now.member, generation: now.generation - 1}
		require.ErrorIs(t, commitOne(t, stale, topic, 0, 3, ""), scheduler.ErrFenced)
		stranger := &session{committer: m.group.committer, member: "nobody", generation: now.generation}
		require.ErrorIs(t, commitOne(t, stranger, topic, 0, 3, ""), scheduler.ErrFenced)
		require.NoError(t, commitOne(t, s, topic, 0, 2, ""))
		require.Equal(t, int64(2), testkafka.Committed(t, b, topic, topic)[0].Offset)
	})
}

func TestADeletedTopicIsGoneAndTheOthersOfTheRequestAreStored(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		kept, deleted := testkafka.UniqueName(t), testkafka.UniqueName(t)
		b.CreateTopic(kept, 1, nil)
		b.CreateTopic(deleted, 1, nil)
		m := startMember(t, groupOptions(b, kept, kept, deleted))
		m.awaitClaims(2)
		s, _ := m.generation()
		b.DeleteTopic(deleted)
		require.Eventually(t, func() bool {
			got := commitAll(t, s, scheduler.Commit{Topic: kept, Offset: 4}, scheduler.Commit{Topic: deleted, Offset: 4})
			require.NoError(t, got[place{kept, 0}])
			return errors.Is(got[place{deleted, 0}], scheduler.ErrGone)
		}, patience, 50*time.Millisecond)
		require.False(t, s.(*session).Lost())
	})
}

func TestABatchHoldsOneSessionAndEachPartitionOnce(t *testing.T) {
	c := &committer{wake: make(chan struct{}, 1), requestSize: commitRequestSize}
	c.life, c.end = t.Context(), func() {}
	one, two := &session{committer: c}, &session{committer: c}
	var fenced []int64
	add := func(s *session, partition int32, offset int64) {
		c.enqueue(s, []scheduler.Commit{{Topic: "t", Partition: partition, Offset: offset, Done: func(error) { fenced = append(fenced, offset) }}})
	}
	next := func() (offsets []int64) {
		for _, p := range c.next() {
			offsets = append(offsets, p.Offset)
		}
		return offsets
	}
	add(one, 0, 1)
	add(one, 1, 2)
	add(one, 0, 3) // waits for 1
	add(two, 1, 4) // another session
	add(one, 2, 5)
	add(one, 1, 6) // may not overtake 4
	require.Equal(t, []int64{1, 2, 5}, next())
	require.Equal(t, []int64{3}, next())
	require.Equal(t, []int64{4}, next())
	add(two, 0, 7)
	one.lost.Store(true)
	require.Equal(t, []int64{7}, next())
	require.Equal(t, []int64{6}, fenced)
	require.Empty(t, next())
}

func TestEveryCodeHasAMeaning(t *testing.T) {
	want := map[sarama.KError]commitVerdict{
		0: commitStored, 3: commitGone, 12: commitTooLarge, 22: commitFenced, 25: commitFenced, 27: commitFenced,
		28: commitSplit, 29: commitDenied, 30: commitDenied, 82: commitFenced, 24: commitDenied,
		7: commitAgain, 14: commitAgain, 15: commitAgain, 16: commitAgain, -1: commitAgain, 999: commitAgain,
	}
	for code := range maps.Keys(want) {
		require.Equal(t, want[code], judgeCommit(code), code)
	}
}
