package kafka

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The values are those of org.apache.kafka.common.utils.UtilsTest.
func TestMurmur2IsJavas(t *testing.T) {
	for key, want := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		require.Equal(t, want, int32(murmur2([]byte(key))), key)
	}
}

func TestKeysLandWhereAJavaProducerPutsThem(t *testing.T) {
	for key, want := range map[string]int32{"foobar": 6, "order-1": 10, "order-2": 3, "order-42": 0, "abc": 3} {
		require.Equal(t, want, partitionOf([]byte(key), 12), key)
	}
	// An empty key is a key.
	require.Equal(t, partitionOf([]byte{}, 12), partitionOf(nil, 12))
}

// ledTopic makes a topic with leaders everywhere.
func ledTopic(partitions int) *produceTopic {
	t := &produceTopic{name: "t", count: partitions, limit: DefaultBatchBytes}
	for i := range partitions {
		t.parts = append(t.parts, &producePartition{topic: t, index: int32(i), node: &produceNode{}})
	}
	return t
}

func TestRecordsWithoutAKeyStayTogetherUntilTheirBatchIsCut(t *testing.T) {
	topic := ledTopic(12)
	seen := make(map[int32]bool)
	for range 200 {
		p := topic.keyless()
		for range 5 {
			require.Same(t, p, topic.keyless())
		}
		p.open = newProduceBatch(p, testTime)
		p.cut()
		seen[p.index] = true
	}
	require.Len(t, seen, 12)
}

func TestRecordsWithoutAKeyAvoidPartitionsInTrouble(t *testing.T) {
	topic := ledTopic(4)
	topic.parts[0].node = nil
	topic.parts[1].trouble.since = testTime
	topic.parts[2].health.slow = true
	for range 50 {
		topic.sticky = nil
		require.Equal(t, int32(3), topic.keyless().index)
	}
	// If all are in trouble they go anywhere, and stay there.
	topic.parts[3].node = nil
	require.Same(t, topic.keyless(), topic.keyless())
}
