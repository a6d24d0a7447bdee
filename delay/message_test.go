package delay_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"delay-scheduler/delay"
)

// awkward is a record with every kind of null, empty, duplicate and binary.
func awkward() *delay.Record {
	return &delay.Record{
		Topic: "a-delay", Partition: 3, Offset: 17, Timestamp: base, Key: []byte{}, Value: nil,
		Headers: []delay.Header{
			{Key: []byte("null")},
			{Key: []byte("empty"), Value: []byte{}},
			{Key: []byte{}, Value: []byte("no name")},
			{Key: []byte("twice"), Value: []byte("1")},
			{Key: []byte("twice"), Value: []byte("2")},
			{Key: []byte("binary"), Value: []byte{0, 0xff, 0xfe, 0x80, 0}},
			{Key: []byte("größe"), Value: bytes.Repeat([]byte{7}, 300)},
		},
	}
}

func TestPackKeepsEveryByte(t *testing.T) {
	rec := awkward()
	m := delay.Pack(rec, &delay.Request{Attempt: 5, Hops: 2}, nil)
	requireSame(t, rec, m)
	require.Equal(t, int32(5), m.Attempt())
	require.Equal(t, int32(2), m.Hops())
	require.Nil(t, m.Refusal())
	require.False(t, m.Refused())
	require.Equal(t, len(m), m.Size())
}

func requireSame(t require.TestingT, rec *delay.Record, m delay.Message) {
	require.Equal(t, rec.Timestamp, m.Timestamp())
	require.Equal(t, rec.Key, m.Key())
	require.Equal(t, rec.Value, m.Value())
	require.Equal(t, len(rec.Headers), m.HeaderCount())
	require.Equal(t, rec.Headers, m.Headers(nil))
	require.Equal(t, len(m), cap(m), "the allocation is exact")
}

func TestPackKeepsNullAndEmptyApart(t *testing.T) {
	for _, v := range [][]byte{nil, {}, []byte("x")} {
		for _, k := range [][]byte{nil, {}, []byte("x")} {
			m := delay.Pack(&delay.Record{Key: k, Value: v}, nil, nil)
			require.Equal(t, k, m.Key())
			require.Equal(t, v, m.Value())
			require.Empty(t, m.Headers(nil))
		}
	}
}

func TestPackTakesBigValuesAndExtremeNumbers(t *testing.T) {
	rec := awkward()
	rec.Key, rec.Value = bytes.Repeat([]byte("k"), 20_000), bytes.Repeat([]byte("v"), 900<<10)
	for _, ts := range []int64{math.MinInt64, -1, 0, 1, base, math.MaxInt64} {
		rec.Timestamp = ts
		m := delay.Pack(rec, &delay.Request{Attempt: math.MaxInt32, Hops: math.MaxInt32}, nil)
		requireSame(t, rec, m)
		require.Equal(t, int32(math.MaxInt32), m.Attempt())
		require.Equal(t, int32(math.MaxInt32), m.Hops())
	}
}

func TestPackCopiesTheFetchBuffer(t *testing.T) {
	buffer := []byte("key value name content")
	rec := &delay.Record{Key: buffer[0:3], Value: buffer[4:9], Headers: []delay.Header{{Key: buffer[10:14], Value: buffer[15:22]}}}
	m := delay.Pack(rec, nil, nil)
	clear(buffer)
	require.Equal(t, "key", string(m.Key()))
	require.Equal(t, "value", string(m.Value()))
	require.Equal(t, headers("name", "content"), m.Headers(nil))
}

func TestPackCarriesARefusal(t *testing.T) {
	rec := awkward()
	for _, ref := range []delay.Refusal{
		{Reason: delay.ReasonTargetRefused, Detail: "target-topic x", FromRules: true},
		{Reason: delay.ReasonMalformedHeader, Detail: "delay-ms"},
		{Reason: "SOMETHING_ELSE"},
	} {
		m := delay.Pack(rec, nil, &ref)
		requireSame(t, rec, m)
		require.True(t, m.Refused())
		require.Equal(t, &ref, m.Refusal())
	}
	m := delay.Pack(rec, nil, &delay.Refusal{Reason: delay.ReasonLoop, Detail: strings.Repeat("a\nb", 1000)})
	requireOneLine(t, m.Refusal().Detail)
}

func TestAGivenUpPayloadIsEmpty(t *testing.T) {
	var m delay.Message
	require.Nil(t, m.Refusal())
	require.Nil(t, m.Key())
	require.Nil(t, m.Headers(nil))
	require.Zero(t, m.Size())
}

func TestARefusalReadsAsAnError(t *testing.T) {
	require.EqualError(t, delay.Refusal{Reason: delay.ReasonLoop, Detail: "delay-hops 10"}, "LOOP: delay-hops 10")
	require.Len(t, delay.Reasons(), 10)
}
