package testkafka

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestRealBrokerStampsRecordsWithItsOwnTime(t *testing.T) {
	c := Need(t)
	topic := UniqueName(t)
	c.CreateTopic(topic, 1, LogAppendTime())
	anHourAgo := time.Now().Add(-time.Hour)
	before := time.Now().Truncate(time.Millisecond)
	Produce(t, c, &kgo.Record{Topic: topic, Timestamp: anHourAgo}, &kgo.Record{Topic: topic, Timestamp: anHourAgo})

	got := ReadAll(t, c, topic, 2, clientPatience)

	require.Len(t, got, 2)
	for _, r := range got {
		require.EqualValues(t, 1, r.Attrs.TimestampType())
		require.False(t, r.Timestamp.Before(before) || r.Timestamp.After(time.Now()), r.Timestamp)
	}
}

func TestSharedBrokerIsOneForAllAndNobodysToHurt(t *testing.T) {
	c := Need(t)

	require.Equal(t, c.Addrs(), Shared(t).Addrs())
	require.Equal(t, Version(), c.Version())
	require.False(t, c.isOwn())
}

func TestOwnBrokerSurvivesWhatIsDoneToIt(t *testing.T) {
	c := Start(t, WithProxy(), WithProperty("message.max.bytes", "2000"))
	topic := UniqueName(t)
	c.CreateTopic(topic, 1, nil)
	addrs := c.Addrs()
	Produce(t, c, &kgo.Record{Topic: topic, Value: []byte("first")})

	t.Run("property", func(t *testing.T) {
		big := &kgo.Record{Topic: topic, Value: make([]byte, 5000)}
		err := Client(t, c).ProduceSync(t.Context(), big).FirstErr()
		require.ErrorIs(t, err, kerr.MessageTooLarge)
	})
	t.Run("proxy", func(t *testing.T) {
		require.Equal(t, []string{c.Proxy(0).Addr()}, c.Addrs())
		c.Proxy(0).Pause()
		requireSilent(t, c, topic)
		require.Zero(t, c.Leader(topic, 0), "an administrator goes past the proxy")
		c.Proxy(0).Resume()
		requireRecords(t, c, topic, 1)
	})
	t.Run("stop and cont", func(t *testing.T) {
		c.Stop(0)
		requireSilent(t, c, topic)
		c.Cont(0)
		requireRecords(t, c, topic, 1)
	})
	t.Run("kill and restart", func(t *testing.T) {
		c.Kill(0)
		requireSilent(t, c, topic)
		c.Restart(0)
		require.Equal(t, addrs, c.Addrs())
		requireRecords(t, c, topic, 1)
	})
	t.Run("terminate and restart", func(t *testing.T) {
		Produce(t, c, &kgo.Record{Topic: topic, Value: []byte("second")})
		c.Terminate(0)
		requireSilent(t, c, topic)
		c.Restart(0)
		requireRecords(t, c, topic, 2)
	})
}

func TestTopicIsPlacedOnANodeThatJustCameBack(t *testing.T) {
	c := Start(t, WithBrokers(3))
	away := int32(2)
	c.Stop(away)
	topic := UniqueName(t)
	c.ask(func(ctx context.Context, a *admin) error {
		return a.agree(ctx, func(node kmsg.Requestor) error {
			ctx, cancel := context.WithTimeout(ctx, nodePatience)
			defer cancel()
			known, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, node)
			if err == nil && len(known.Brokers) != 2 {
				err = fmt.Errorf("%d nodes are counted", len(known.Brokers))
			}
			return err
		})
	})

	c.Cont(away)
	c.CreateTopicOn(topic, [][]int32{{away}}, nil)

	require.Equal(t, away, c.Leader(topic, 0))
}

func requireSilent(t *testing.T, c *Cluster, topic string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	require.Error(t, Client(t, c).ProduceSync(ctx, &kgo.Record{Topic: topic}).FirstErr())
}

func requireRecords(t *testing.T, c *Cluster, topic string, n int) {
	t.Helper()
	require.Len(t, ReadAll(t, c, topic, n, clientPatience), n)
}

func TestBrokerThatCannotStartSaysWhyAndLeavesNothing(t *testing.T) {
	if ok, why := startable(Version()); !ok {
		t.Skip(why)
	}

	_, err := Launch(WithProperty("num.io.threads", "none"))

	require.ErrorContains(t, err, "it has ended")
	require.ErrorContains(t, err, "num.io.threads")
}
