package kafka

import (
	"math"
	"net"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"delay-scheduler/internal/testkafka"
)

func testClient(t testing.TB, b testkafka.Endpoint) *groupClient {
	t.Helper()
	o := groupOptions(b, "g", "t")
	c, err := newGroupClient(o.Options, o.groupConfig(), o.ID, func(error) {}, func() {})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func TestTheGroupsClientAnswersFromWhatIsKnown(t *testing.T) {
	b := testkafka.Fake(t)
	b.CreateTopic("there", 3, nil)
	c := testClient(t, b)

	require.NoError(t, c.RefreshMetadata("there", "not-there"))
	partitions, err := c.Partitions("there")
	require.NoError(t, err)
	require.Equal(t, []int32{0, 1, 2}, partitions)
	partitions, err = c.Partitions("not-there")
	require.NoError(t, err, "the library would fail the whole join")
	require.Empty(t, partitions)

	b.DeleteTopic("there")
	require.NoError(t, c.RefreshMetadata("there"))
	partitions, err = c.Partitions("there")
	require.NoError(t, err)
	require.Empty(t, partitions)
}

func TestTheGroupsClientSharesOutNothingItHasNeverHeardOf(t *testing.T) {
	b := testkafka.Fake(t)
	b.CreateTopic("there", 3, nil)
	c := testClient(t, b)
	require.NoError(t, c.RefreshMetadata("there"))
	b.Close()
	require.NoError(t, c.RefreshMetadata("there"), "what was known is good enough")
	partitions, err := c.Partitions("there")
	require.NoError(t, err)
	require.Len(t, partitions, 3)
	require.ErrorContains(t, c.RefreshMetadata("there", "other"), `"other"`)
}

func TestTheGroupsClientNeverLetsAnythingBeRead(t *testing.T) {
	c := testClient(t, endpoint{"127.0.0.1:1"})
	require.True(t, c.PartitionNotReadable("t", 0))
	oldest, err := c.GetOffset("t", 0, sarama.OffsetOldest)
	require.NoError(t, err)
	newest, err := c.GetOffset("t", 0, sarama.OffsetNewest)
	require.NoError(t, err)
	require.Equal(t, []int64{0, math.MaxInt64}, []int64{oldest, newest}, "every committed offset is in range")
	leader, _, err := c.LeaderAndEpoch("t", 0)
	require.NoError(t, err)
	_, err = leader.Fetch(&sarama.FetchRequest{})
	require.ErrorIs(t, err, sarama.ErrNotConnected)
}

func TestAnInterruptEndsTheSearchForTheCoordinator(t *testing.T) {
	c := testClient(t, endpoint{"127.0.0.1:1"})
	ended := make(chan error)
	go func() {
		_, err := c.Coordinator("g")
		ended <- err
	}()
	c.interrupt()
	select {
	case err := <-ended:
		require.Error(t, err)
	case <-time.After(coordinatorPatience - time.Second):
		require.FailNow(t, "the search should end")
	}
}

func TestACoordinatorThatDiesSilentlyDoesNotHoldAJoinForTheWholeRebalanceTimeout(t *testing.T) {
	b := testkafka.Fake(t)
	topic := testkafka.UniqueName(t)
	b.CreateTopic(topic, 1, nil)
	swallowed := make(chan struct{})
	b.ControlKey(int16(keyJoinGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
		close(swallowed)
		return nil, nil, true
	})
	o := groupOptions(b, topic, topic)
	o.RebalanceTimeout = 5 * time.Minute
	m := startMember(t, o)
	<-swallowed
	node := b.Coordinator(topic)
	b.Freeze(node)
	require.Eventually(t, func() bool { return m.group.Status().LastError != "" }, patience, 5*time.Millisecond)
	b.Thaw(node)
	m.awaitClaims(1)
}

func TestALookupIsNotHeldUpByBrokersThatSayNothing(t *testing.T) {
	b := testkafka.Fake(t)
	addrs := []string{silentAddr(t), silentAddr(t), "127.0.0.1:1"}
	o := Options{Brokers: append(addrs, b.Addrs()...)}
	l := newLookup(o.config("test"), o.Brokers)
	defer l.close()
	began := time.Now()
	addr, err := l.coordinator(t.Context(), "g")
	require.NoError(t, err)
	require.Equal(t, b.Addrs()[0], addr)
	require.Less(t, time.Since(began), connectTimeout)
}

func TestALookupThatIsClosedEndsAtOnce(t *testing.T) {
	o := Options{Brokers: []string{silentAddr(t)}}
	l := newLookup(o.config("test"), o.Brokers)
	ended := make(chan error)
	go func() {
		_, err := l.coordinator(t.Context(), "g")
		ended <- err
	}()
	l.close()
	select {
	case err := <-ended:
		require.Error(t, err)
	case <-time.After(connectTimeout / 2):
		require.FailNow(t, "the question should end")
	}
}

// silentAddr is where connections are taken and nothing is ever said.
func silentAddr(t testing.TB) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, listener.Close()) })
	return listener.Addr().String()
}
