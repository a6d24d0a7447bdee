package kafka

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"delay-scheduler/delay"
	"delay-scheduler/internal/testkafka"
	"delay-scheduler/scheduler"
)

// TestFetchTroubleOfOnePartitionHoldsUpNoOther lets a partition get into every kind of
// trouble while others, on other brokers, are written to and read.
func TestFetchTroubleOfOnePartitionHoldsUpNoOther(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		nodes := b.(testkafka.Nodes)
		for _, c := range []struct {
			name    string
			trouble func(topic string) (undo func())
			is      error
		}{
			{name: "without a leader", trouble: func(topic string) func() {
				return nodes.Leaderless(topic, 1)
			}},
			{name: "on a silent broker", is: errSilent, trouble: func(topic string) func() {
				node := nodes.Leader(topic, 1)
				nodes.Freeze(node)
				return func() { nodes.Thaw(node) }
			}},
			{name: "of a deleted topic", is: scheduler.ErrGone, trouble: func(topic string) func() {
				b.DeleteTopic(topic)
				return nil
			}},
		} {
			t.Run(c.name, func(t *testing.T) {
				n := startNeighbours(t, nodes)
				undo := c.trouble(n.bad)
				if undo != nil {
					undo = sync.OnceFunc(undo)
					t.Cleanup(undo)
				}
				err := n.exchangeUntilTold()
				t.Log(err)
				if c.is != nil {
					require.ErrorIs(t, err, c.is)
				}
				if undo != nil {
					undo()
					n.requireHealed()
				}
			})
		}
		if b.Real() {
			t.Run("whose leader is replaced", func(t *testing.T) { requireNewLeaderFollowed(t, nodes) })
		}
	}, testkafka.WithBrokers(3))
}

// requireNewLeaderFollowed stops the leader of a replicated partition. It keeps its
// connections, so nothing but the silence tells.
func requireNewLeaderFollowed(t *testing.T, b testkafka.Nodes) {
	topic, ids := testkafka.UniqueName(t), b.NodeIDs()
	b.CreateTopicOn(topic, [][]int32{{ids[1], ids[2]}}, nil)
	produceTo(t, b, numbered(topic, 0, 0, 3)...)
	s := startFetcher(t, b).Open(topic, 0, 0)
	readN(t, s, 3)

	b.Freeze(ids[1])
	t.Cleanup(func() { b.Thaw(ids[1]) })
	require.Eventually(t, func() bool { return b.Leader(topic, 0) == ids[2] }, time.Minute, 100*time.Millisecond)
	produceTo(t, b, numbered(topic, 0, 3, 2)...)
	var got []delay.Record
	batchUntil(t, s, &got, func(scheduler.Batch) bool { return len(got) == 2 })
	require.Equal(t, []int64{3, 4}, offsetsOf(got))
}

// neighbours are partition 1 of a topic, which gets into trouble, and two partitions of
// another topic on other brokers.
type neighbours struct {
	t         *testing.T
	good, bad string
	writer    writer
	stream    scheduler.Stream
	others    []scheduler.Stream
}

func startNeighbours(t *testing.T, b testkafka.Nodes) *neighbours {
	ids := b.NodeIDs()
	placed := [][]int32{{ids[0]}, {ids[1]}, {ids[2]}}
	n := &neighbours{t: t, good: testkafka.UniqueName(t), bad: testkafka.UniqueName(t), writer: startWriter(t, b)}
	b.CreateTopicOn(n.good, placed, nil)
	b.CreateTopicOn(n.bad, placed, nil)
	f := startFetcher(t, b)
	n.stream = f.Open(n.bad, 1, 0)
	n.others = []scheduler.Stream{f.Open(n.good, 0, 0), f.Open(n.good, 2, 0)}
	n.writer.write(numbered(n.bad, 1, 0, 1)...)
	readN(t, n.stream, 1)
	n.exchange(0)
	return n
}

// exchange writes one record to each of the others and reads it.
func (n *neighbours) exchange(round int) {
	for i, o := range n.others {
		n.writer.write(numbered(n.good, int32(2*i), round, 1)...)
		start := time.Now()
		require.Equal(n.t, []int64{int64(round)}, offsetsOf(readN(n.t, o, 1)))
		require.Less(n.t, time.Since(start), 2*time.Second)
	}
}

// exchangeUntilTold goes on until the stream in trouble says what the matter is.
func (n *neighbours) exchangeUntilTold() error {
	told := make(chan scheduler.Batch, 1)
	n.t.Cleanup(n.stream.Close)
	ctx := n.t.Context()
	go func() {
		for {
			select {
			case b := <-n.stream.Batches():
				if b.Err != nil {
					told <- b
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	deadline := time.Now().Add(patience)
	for round := 1; time.Now().Before(deadline); round++ {
		n.exchange(round)
		select {
		case b := <-told:
			require.Equal(n.t, int64(1), b.Next)
			require.Empty(n.t, b.Records)
			return b.Err
		default:
		}
	}
	require.FailNow(n.t, "the trouble is never told")
	return nil
}

func (n *neighbours) requireHealed() {
	n.writer.write(numbered(n.bad, 1, 1, 1)...)
	var got []delay.Record
	healed := batchUntil(n.t, n.stream, &got, func(scheduler.Batch) bool { return len(got) > 0 })
	require.NoError(n.t, healed.Err)
	require.Equal(n.t, []int64{1}, offsetsOf(got))
}
