package kafka

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"delay-scheduler/delay"
	"delay-scheduler/internal/testkafka"
	"delay-scheduler/scheduler"
)

// TestFetchTroubleOfOnePartitionHoldsUpNoOther lets one partition of three brokers
// get into every kind of trouble while the others are written to and read.
func TestFetchTroubleOfOnePartitionHoldsUpNoOther(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		nodes := b.(testkafka.Nodes)
		ids := nodes.NodeIDs()
		placed := [][]int32{{ids[0]}, {ids[1]}, {ids[2]}}

		for _, c := range []struct {
			name    string
			trouble func(t *testing.T, topic string) (undo func())
			heals   bool
			is      error
		}{
			{name: "without a leader", heals: true, trouble: func(_ *testing.T, topic string) func() {
				return nodes.Leaderless(topic, 1)
			}},
			{name: "on a silent broker", heals: true, trouble: func(_ *testing.T, topic string) func() {
				node := nodes.Leader(topic, 1)
				nodes.Freeze(node)
				return func() { nodes.Thaw(node) }
			}},
			{name: "of a deleted topic", is: scheduler.ErrGone, trouble: func(_ *testing.T, topic string) func() {
				b.DeleteTopic(topic)
				return nil
			}},
		} {
			t.Run(c.name, func(t *testing.T) {
				good, bad := testkafka.UniqueName(t), testkafka.UniqueName(t)
				nodes.CreateTopicOn(good, placed, nil)
				nodes.CreateTopicOn(bad, placed, nil)
				f := startFetcher(t, b)
				s := f.Open(bad, 1, 0)
				others := []scheduler.Stream{f.Open(good, 0, 0), f.Open(good, 2, 0)}
				produceTo(t, b, numbered(bad, 1, 0, 1)...)
				readN(t, s, 1)
				for _, o := range others {
					batchUntil(t, o, nil, func(scheduler.Batch) bool { return true })
				}

				undo := c.trouble(t, bad)
				told := make(chan scheduler.Batch, 1)
				go func() {
					for batch := range s.Batches() {
						if batch.Err != nil {
							told <- batch
							return
						}
					}
				}()
				var batch scheduler.Batch
				for round := 0; batch.Err == nil; round++ {
					require.Less(t, round, 200, "the trouble is never told")
					for i, o := range others {
						start := time.Now()
						produceTo(t, b, numbered(good, int32(2*i), round, 1)...)
						require.Equal(t, []int64{int64(round)}, offsetsOf(readN(t, o, 1)))
						require.Less(t, time.Since(start), 5*time.Second)
					}
					select {
					case batch = <-told:
					default:
					}
				}
				t.Log(batch.Err)
				require.Equal(t, int64(1), batch.Next)
				require.Empty(t, batch.Records)
				if c.is != nil {
					require.ErrorIs(t, batch.Err, c.is)
				}
				if !c.heals {
					return
				}
				undo()
				produceTo(t, b, numbered(bad, 1, 1, 1)...)
				var got []delay.Record
				healed := batchUntil(t, s, &got, func(b scheduler.Batch) bool { return len(got) > 0 })
				require.NoError(t, healed.Err)
				require.Equal(t, []int64{1}, offsetsOf(got))
			})
		}
	}, testkafka.WithBrokers(3))
}

func TestFetchFollowsTheLeader(t *testing.T) {
	fake := testkafka.Fake(t)
	_ = fake
}
