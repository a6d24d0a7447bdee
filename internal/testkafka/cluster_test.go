package testkafka

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestSharedBrokerServes(t *testing.T) {
	c := Need(t)
	s := time.Now()
	topic := UniqueName(t)
	c.CreateTopic(topic, 3, LogAppendTime())
	Produce(t, c, &kgo.Record{Topic: topic, Value: []byte("x")})
	got := ReadAll(t, c, topic, 1, 10*time.Second)
	require.Len(t, got, 1)
	t.Log(time.Since(s), got[0].Timestamp, got[0].Attrs.TimestampType())
}
