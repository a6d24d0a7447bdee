package kafka

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetchFrame is a response as it comes over a connection.
func fetchFrame(version int16, number uint32, batches []byte) []byte {
	resp := kmsg.NewFetchResponse()
	resp.Version = version
	for _, name := range []string{"a", "b"} {
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic = name
		for p := range int32(2) {
			part := kmsg.NewFetchResponseTopicPartition()
			part.Partition, part.HighWatermark, part.LastStableOffset = p, 10, 9
			part.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 4, FirstOffset: 5}}
			part.RecordBatches = batches
			topic.Partitions = append(topic.Partitions, part)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	body := resp.AppendTo(make([]byte, frameHead))
	binary.BigEndian.PutUint32(body, uint32(len(body)-4))
	binary.BigEndian.PutUint32(body[4:], number)
	return body
}

func TestTapKeepsTheRecordsAndLeavesTheRest(t *testing.T) {
	batches := written(kmsg.RecordBatch{}, kmsg.Record{Value: []byte("v")})
	for version := int16(keptFrom); version <= keptTo; version++ {
		in := bytes.NewReader(append(fetchFrame(version, 7, batches), "next"...))
		rest, kept, err := new(tap).readFetch(in, version, 7)
		require.NoError(t, err)
		require.Equal(t, fetchFrame(version, 7, []byte{}), rest, "version %d", version)
		require.Equal(t, map[place][]byte{{"a", 0}: batches, {"a", 1}: batches, {"b", 0}: batches, {"b", 1}: batches}, kept.records)
		require.Equal(t, 4, in.Len(), "what follows is not touched")
	}
}

func TestTapLeavesToTheLibraryWhatItMakesNoSenseOf(t *testing.T) {
	frame := fetchFrame(11, 7, oldMessage(0, "old"))
	rest, kept, err := new(tap).readFetch(bytes.NewReader(frame), 11, 7)
	require.NoError(t, err)
	require.Equal(t, frame, rest, "messages from before there were batches")
	require.Empty(t, kept.records)

	rest, kept, err = new(tap).readFetch(bytes.NewReader(frame), 11, 8)
	require.NoError(t, err)
	require.Equal(t, frame[:frameHead], rest, "another request's answer")
	require.Nil(t, kept)

	frame = append(fetchFrame(11, 7, nil), 0)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	rest, kept, err = new(tap).readFetch(bytes.NewReader(frame), 11, 7)
	require.NoError(t, err)
	require.Equal(t, frame, rest, "longer than it should be")
	require.Nil(t, kept)

	_, _, err = new(tap).readFetch(bytes.NewReader(frame[:20]), 11, 7)
	require.Error(t, err)
}

func TestTapReadsIntoTheSameBytesOnceAllAreDoneWithThem(t *testing.T) {
	frame := fetchFrame(11, 7, written(kmsg.RecordBatch{}, kmsg.Record{Value: []byte("v")}))
	tap := new(tap)
	read := func() *kept {
		_, kept, err := tap.readFetch(bytes.NewReader(frame), 11, 7)
		require.NoError(t, err)
		return kept
	}
	first := read()
	for range 3 {
		first.release()
	}
	second := read()
	require.NotSame(t, &first.body[0], &second.body[0], "one part of the first is in use")
	first.release()
	require.Same(t, &first.body[0], &read().body[0])
	require.NotSame(t, &first.body[0], &read().body[0], "it is in use again")
}

// FuzzTap gives it whatever for a response: what it lets through is never longer than
// that, and whole.
func FuzzTap(f *testing.F) {
	batches := written(kmsg.RecordBatch{}, kmsg.Record{Value: []byte("v")})
	for version := int16(keptFrom); version <= keptTo; version++ {
		f.Add(fetchFrame(version, 7, batches)[frameHead:], version)
	}
	f.Fuzz(func(t *testing.T, body []byte, version int16) {
		frame := binary.BigEndian.AppendUint32(nil, uint32(len(body)+4))
		frame = append(binary.BigEndian.AppendUint32(frame, 7), body...)
		rest, kept, err := new(tap).readFetch(bytes.NewReader(frame), version, 7)
		require.NoError(t, err)
		size := len(rest)
		if kept != nil {
			for _, records := range kept.records {
				size += len(records)
			}
		}
		require.LessOrEqual(t, size, len(frame))
		require.Equal(t, len(rest)-4, int(binary.BigEndian.Uint32(rest)))
	})
}
