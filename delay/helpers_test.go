package delay_test

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"delay-scheduler/delay"
)

const (
	base     = int64(1_790_000_000_000)
	maxDelay = 90 * 24 * time.Hour
)

// headers makes headers of names and values in turn.
func headers(pairs ...string) []delay.Header {
	var hs []delay.Header
	for i := 0; i < len(pairs); i += 2 {
		hs = append(hs, delay.Header{Key: []byte(pairs[i]), Value: []byte(pairs[i+1])})
	}
	return hs
}

func record(topic string, hs []delay.Header) *delay.Record {
	return &delay.Record{Topic: topic, Partition: 3, Offset: 17, Timestamp: base, Headers: hs}
}

func be64(n int64) string { return string(binary.BigEndian.AppendUint64(nil, uint64(n))) }

func be32(n int32) string { return string(binary.BigEndian.AppendUint32(nil, uint32(n))) }

func delayRules() *delay.Rules {
	return &delay.Rules{MaxDelay: maxDelay, Allow: []string{"*"}, MaxHops: 10, IsSource: isSource}
}

func retryRules() *delay.Rules {
	r := delayRules()
	r.Retry = true
	return r
}

func isSource(topic string) bool {
	return strings.HasSuffix(topic, "-delay") || strings.HasSuffix(topic, "-retry")
}

func accept(t *testing.T, r *delay.Rules, rec *delay.Record) delay.Request {
	t.Helper()
	q, ref := delay.NewParser(rec.Topic, r).Parse(rec)
	if ref != nil {
		require.FailNow(t, "refused", ref.Error())
	}
	return q
}

func refuse(t *testing.T, r *delay.Rules, rec *delay.Record) delay.Refusal {
	t.Helper()
	q, ref := delay.NewParser(rec.Topic, r).Parse(rec)
	require.NotNil(t, ref, "accepted: %+v", q)
	require.Zero(t, q)
	requireOneLine(t, ref.Detail)
	return *ref
}

func requireOneLine(t *testing.T, detail string) {
	t.Helper()
	require.NotEmpty(t, detail)
	require.LessOrEqual(t, len(detail), 512)
	for _, c := range detail {
		require.True(t, c >= 0x20 && c != 0x7f, "control character in %q", detail)
	}
}

// value gives the last value of a name as text, and how often the name is there.
func value(hs []delay.Header, name string) (last string, times int) {
	for _, h := range hs {
		if string(h.Key) == name {
			last, times = string(h.Value), times+1
		}
	}
	return last, times
}

func requireHeader(t *testing.T, hs []delay.Header, name, want string) {
	t.Helper()
	got, times := value(hs, name)
	require.Equal(t, 1, times, "headers of the name %s", name)
	require.Equal(t, want, got, name)
}

func requireNoHeader(t *testing.T, hs []delay.Header, names ...string) {
	t.Helper()
	for _, name := range names {
		_, times := value(hs, name)
		require.Zero(t, times, name)
	}
}
