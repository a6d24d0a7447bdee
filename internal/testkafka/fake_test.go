package testkafka

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestFakeHasTheTopicsItIsSeededWith(t *testing.T) {
	f := Fake(t, kfake.SeedTopics(4, "orders"), kfake.SeedTopics(2, "payments"))

	topics, err := Admin(t, f).ListTopics(t.Context())

	require.NoError(t, err)
	require.Len(t, topics["orders"].Partitions, 4)
	require.Len(t, topics["payments"].Partitions, 2)
	require.Equal(t, []int32{0}, f.NodeIDs())
}

func TestFakeTakesFaults(t *testing.T) {
	f := Fake(t, kfake.SeedTopics(1, "orders"))
	fault := f.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.IllegalGeneration})
	offsets := make(kadm.Offsets)
	offsets.AddOffset("orders", 0, 3, -1)

	err := Admin(t, f).CommitAllOffsets(t.Context(), "group", offsets)

	require.ErrorIs(t, err, kerr.IllegalGeneration)
	require.Equal(t, 1, fault.Hits())
}

func TestFakeOnAGivenPortIsThere(t *testing.T) {
	addr, err := freeAddr()
	require.NoError(t, err)
	tcp, err := net.ResolveTCPAddr("tcp", addr)
	require.NoError(t, err)

	f := Fake(t, kfake.Ports(tcp.Port))

	require.Equal(t, []string{addr}, f.Addrs())
}

func TestRemovedNodeOfAFakeRefusesConnections(t *testing.T) {
	f := Fake(t, kfake.NumBrokers(2))
	gone := f.Proxy(1).Addr()

	require.NoError(t, f.RemoveNode(1))

	_, err := net.Dial("tcp", gone)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.Equal(t, []int32{0}, f.NodeIDs())
}

func TestFakeProxyLosesTheAnswerAndNotTheRecord(t *testing.T) {
	f := Fake(t, kfake.SeedTopics(1, "orders"))
	stored := f.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Observe: true, Count: -1})
	client := Client(t, f, kgo.ProduceRequestTimeout(time.Second), kgo.RequestTimeoutOverhead(time.Second))
	require.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("a")}).FirstErr())
	f.Proxy(0).DropResponses()

	acked := make(chan error, 1)
	client.Produce(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("b")}, func(_ *kgo.Record, err error) { acked <- err })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, stored.Wait(ctx, 2))
	require.Empty(t, acked)

	f.Proxy(0).Resume()
	require.NoError(t, <-acked, "an idempotent producer sends again and is told that it is there")
	require.Len(t, ReadAll(t, f, "orders", 3, 500*time.Millisecond), 2)
}
