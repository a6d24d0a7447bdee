package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"delay-scheduler/delay"
)

func asRead(o delay.Outgoing) *delay.Record {
	return &delay.Record{Topic: "x-delay", Timestamp: 1_700_000_000_000, AppendTime: true, Key: o.Key, Value: o.Value, Headers: o.Headers}
}

// What is measured has to be what the report says.
func TestRecordsHaveTheSizeThatTheReportNames(t *testing.T) {
	records := recipe{target: "x", due: func() int64 { return 1_700_000_012_345 }}.make(999_998, 3)

	require.Len(t, records, 3)
	seen := map[string]bool{}
	for _, r := range records {
		require.Len(t, r.Key, keyBytes)
		require.Len(t, r.Value, valueBytes)
		require.Len(t, r.Headers, 3)
		require.Len(t, r.Headers[0].Value, traceBytes)
		seen[string(r.Key)] = true
		seen[string(r.Value)] = true
	}
	require.Len(t, seen, 6, "keys and values differ")
	require.Equal(t, "key-0000999998", string(records[0].Key))
}

func TestRecordsAreWhatTheProductTakesForDelayedOnes(t *testing.T) {
	const due = 1_700_000_012_345
	record := asRead(recipe{target: "orders", due: func() int64 { return due }}.make(0, 1)[0])

	request, refusal := delay.NewParser("x-delay", &delay.Rules{MaxDelay: time.Hour}).Parse(record)

	require.Nil(t, refusal)
	require.Equal(t, "orders", request.Target)
	require.Equal(t, int64(due), request.Due)
	read, err := dueOf(record)
	require.NoError(t, err)
	require.Equal(t, int64(due), read)
}

func TestForwardedRecordHasAsManyHeadersAsTheOriginal(t *testing.T) {
	original := recipe{target: "orders", due: func() int64 { return 1_700_000_012_345 }}.make(0, 1)[0]
	rules := &delay.Rules{MaxDelay: time.Hour}
	request, refusal := delay.NewParser("x-delay", rules).Parse(asRead(original))
	require.Nil(t, refusal)

	forwarded := delay.Pack(asRead(original), &request, nil).Forward(rules, delay.Origin{Topic: "x-delay", Due: request.Due}, "orders", nil)

	require.Len(t, forwarded.Headers, len(original.Headers))
	require.Equal(t, original.Value, forwarded.Value)
}

func TestRecordOfSomebodyElseHasNoDueTime(t *testing.T) {
	for _, value := range []string{"", "short", "no number at all"} {
		_, err := dueOf(&delay.Record{Topic: "x", Offset: 7, Value: []byte(value)})
		require.ErrorContains(t, err, "x/0 at offset 7 is none of ours")
	}
}
