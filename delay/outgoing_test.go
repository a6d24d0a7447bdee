package delay_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"delay-scheduler/delay"
)

var origin = delay.Origin{Topic: "a-delay", Partition: 3, Offset: 17, Due: base + 5000}

func TestForwardPassesEveryByteAndAddsItsMark(t *testing.T) {
	rec := awkward()
	out := delay.Pack(rec, &delay.Request{}, nil).Forward(delayRules(), origin, "a", nil)
	require.Equal(t, "a", out.Topic)
	require.Equal(t, rec.Key, out.Key)
	require.Equal(t, rec.Value, out.Value)
	require.Zero(t, out.Timestamp)
	require.Equal(t, append(rec.Headers, headers("delay-id", "a-delay/3/17/1790000000000", "delay-due", "1790000005000")...), out.Headers)
	require.Equal(t, delay.Identity("a-delay", 3, 17, base), "a-delay/3/17/1790000000000")
}

func TestForwardConsumesTheSchedulingHeadersExceptOriginTime(t *testing.T) {
	hs := headers("x", "1", "delay-ms", "5", "target-topic", "a", "y", "2", "next-retry-time", "1", "deliver-at", "2",
		"origin-time", "3", "delay-ms", "6", "Delay-Ms", "7", "retry-count", "4", "original-topic", "o", "target-group", "g")
	m := delay.Pack(record("a-delay", hs), &delay.Request{}, nil)
	out := m.Forward(delayRules(), origin, "a", nil)
	require.Equal(t, headers("x", "1", "y", "2", "origin-time", "3", "Delay-Ms", "7", "retry-count", "4", "original-topic", "o",
		"target-group", "g", "delay-id", "a-delay/3/17/1790000000000", "delay-due", "1790000005000"), out.Headers)

	r := delayRules()
	r.KeepSchedulingHeaders = true
	out = m.Forward(r, origin, "a", nil)
	require.Equal(t, hs, out.Headers[:len(hs)])
	require.Len(t, out.Headers, len(hs)+2)
}

func TestForwardNeverPassesMarksThatCameIn(t *testing.T) {
	hs := headers("delay-id", "forged", "a", "1", "delay-due", "0", "delay-hops", "9", "retry-attempt", "0", "delay-id", "again")
	for _, keep := range []bool{false, true} {
		r := retryRules()
		r.KeepSchedulingHeaders = keep
		out := delay.Pack(record("a-retry", hs), &delay.Request{}, nil).Forward(r, origin, "a", nil)
		require.Equal(t, headers("a", "1", "delay-id", "a-delay/3/17/1790000000000", "delay-due", "1790000005000"), out.Headers)
		out = delay.Pack(record("a-retry", hs), &delay.Request{Attempt: 3, Hops: 2}, nil).Forward(r, origin, "a", nil)
		require.Equal(t, headers("a", "1", "delay-id", "a-delay/3/17/1790000000000", "delay-due", "1790000005000",
			"delay-hops", "2", "retry-attempt", "3"), out.Headers)
	}
}

func TestF11WhatForwardAddsDoesNotGrowWithThePasses(t *testing.T) {
	rec := record("a-retry", headers("retry-count", "1", "trace", "t"))
	var sizes []int
	for range 30 {
		q := accept(t, retryRules(), rec)
		out := delay.Pack(rec, &q, nil).Forward(retryRules(), origin, q.Target, nil)
		size := 0
		for _, h := range out.Headers {
			size += len(h.Key) + len(h.Value)
		}
		sizes = append(sizes, size)
		rec = record("a-retry", out.Headers) // a consumer that copies all
	}
	require.InDelta(t, sizes[0], sizes[29], 1) // retry-attempt has one digit more
	requireHeader(t, rec.Headers, "retry-attempt", "30")
}

func TestForwardWithTheSourcesTimestamp(t *testing.T) {
	r := delayRules()
	r.SourceTimestamp = true
	require.Equal(t, base, delay.Pack(awkward(), &delay.Request{}, nil).Forward(r, origin, "a", nil).Timestamp)
}

func TestRecordsShareASpaceAndNothingInIt(t *testing.T) {
	rec := awkward()
	m := delay.Pack(rec, &delay.Request{Attempt: 1, Hops: 1}, nil)
	places := make([]delay.Header, 0, 2*(m.HeaderCount()+delay.AddedHeaders))
	values := make([]byte, 0, 100)
	space := &delay.Space{Headers: places, Values: values}
	first := m.Forward(delayRules(), origin, "a", space)
	second := m.Forward(delayRules(), delay.Origin{Topic: "b-delay", Due: base}, "a", space)
	require.Same(t, &places[:1][0], &first.Headers[0])
	require.Same(t, &places[:cap(places)][len(first.Headers)], &second.Headers[0], "no reallocation")
	id := first.Headers[len(rec.Headers)]
	require.Equal(t, "delay-id", string(id.Key))
	require.Same(t, &values[:1][0], &id.Value[0], "no allocation")

	third := m.Forward(delayRules(), delay.Origin{Topic: "c-delay", Due: base}, "a", space)
	require.Equal(t, rec.Headers[0], third.Headers[0], "what does not fit is as good")
	for topic, out := range map[string]delay.Outgoing{"a-delay/3/17": first, "b-delay/0/0": second, "c-delay/0/0": third} {
		requireHeader(t, out.Headers, "delay-id", topic+"/1790000000000")
		requireHeader(t, out.Headers, "delay-hops", "1")
	}
	_ = append(first.Headers, delay.Header{Key: []byte("intruder")})
	require.Equal(t, rec.Headers[0], second.Headers[0], "appending to one does not write into the next")
	_ = append(first.Headers[len(first.Headers)-1].Value, "intruder"...)
	requireHeader(t, second.Headers, "delay-id", "b-delay/0/0/1790000000000")
}

func TestForwardWritesExtremeNumbers(t *testing.T) {
	rec := &delay.Record{Timestamp: math.MaxInt64}
	o := delay.Origin{Topic: "t", Partition: math.MaxInt32, Offset: math.MaxInt64, Due: math.MaxInt64}
	out := delay.Pack(rec, &delay.Request{Attempt: math.MaxInt32, Hops: math.MaxInt32}, nil).Forward(delayRules(), o, "a", nil)
	require.Equal(t, headers("delay-id", "t/2147483647/9223372036854775807/9223372036854775807", "delay-due", "9223372036854775807",
		"delay-hops", "2147483647", "retry-attempt", "2147483647"), out.Headers)
}
