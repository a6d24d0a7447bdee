package cases

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"delay-scheduler/internal/testkafka"
)

// Three brokers, everything replicated, acks of two: one after the other is killed or
// stopped while two schedulers work, and comes back.
func TestClusterLosesAnyOneBrokerAndNoRecord(t *testing.T) {
	t.Parallel()
	testkafka.Need(t)
	c := testkafka.Start(t, testkafka.WithBrokers(3))
	w := newWorld(t, c)
	const n, partitions = 3000, 6
	replicated := map[string]string{"message.timestamp.type": "LogAppendTime", "min.insync.replicas": "2"}
	w.createWith("delay", partitions, replicated)
	w.createWith("a", 3, replicated)
	w.createWith("dlq", 1, replicated)
	first, second := w.start(), w.start()

	records := make([]*kgo.Record, 0, n)
	for range n {
		records = append(records, w.later("a", rand.Int64N(20_000)))
	}
	w.produce(records...)
	for i, id := range c.NodeIDs() {
		leader := c.Leader(w.topic("a"), int32(i))
		if leader < 0 {
			leader = id
		}
		if i == 1 {
			c.Terminate(leader)
		} else {
			c.Kill(leader)
		}
		c.Restart(leader)
	}

	require.Eventually(t, func() bool {
		return len(copies(testkafka.ReadAll(t, w.broker, w.topic("a"), n, 2*time.Second))) == n
	}, 90*time.Second, 100*time.Millisecond, "lost")
	arrived := testkafka.ReadAll(t, w.broker, w.topic("a"), n+1, 3*time.Second)
	require.Len(t, arrived, n, "no scheduler was killed, so nothing comes twice")
	for _, r := range arrived {
		require.GreaterOrEqual(t, ms(r), number(t, header(r, "delay-due")), "early")
	}
	require.Empty(t, first.status().Health.Why)
	require.Empty(t, second.status().Health.Why)
	first.stop()
	second.stop()
}
