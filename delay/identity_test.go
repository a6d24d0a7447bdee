package delay_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"delay-scheduler/delay"
)

func TestRetryIdentityIsTheBirthplaces(t *testing.T) {
	born := headers("original-topic", "orders", "original-partition", "1", "original-offset", "99")
	rec := record("a-retry", born)
	elsewhere := record("b-retry", append(headers("retry-count", "4"), born...))
	elsewhere.Partition, elsewhere.Offset = 9, 1234
	require.Equal(t, delay.RetryIdentity(rec), delay.RetryIdentity(elsewhere))
	require.Equal(t, delay.RetryIdentity(rec),
		delay.RetryIdentity(record("a-retry", headers("original-topic", "orders", "original-partition", "1", "initial-offset", "99"))))

	for name, hs := range map[string][]delay.Header{
		"another topic":     headers("original-topic", "orders2", "original-partition", "1", "original-offset", "99"),
		"another partition": headers("original-topic", "orders", "original-partition", "2", "original-offset", "99"),
		"another offset":    headers("original-topic", "orders", "original-partition", "1", "original-offset", "98"),
		"shifted parts":     headers("original-topic", "orders", "original-partition", "19", "original-offset", "9"),
		"nothing":           nil,
	} {
		require.NotEqual(t, delay.RetryIdentity(rec), delay.RetryIdentity(record("a-retry", hs)), name)
	}
}

func TestRetryIdentityWithoutABirthOffsetIsTheRecordsOwn(t *testing.T) {
	for _, hs := range [][]delay.Header{nil, headers("original-topic", "orders"), headers("original-topic", "orders", "original-offset", "")} {
		one, two := record("a-retry", hs), record("a-retry", hs)
		two.Offset++
		require.NotEqual(t, delay.RetryIdentity(one), delay.RetryIdentity(two), "records of one topic do not wait together")
		two.Offset--
		require.Equal(t, delay.RetryIdentity(one), delay.RetryIdentity(two))
	}
}

// TestIdentitiesAreTheSameAsEver pins the values: a new version must not re-roll
// the jitter of records that are pending.
func TestIdentitiesAreTheSameAsEver(t *testing.T) {
	require.Equal(t, uint64(0xdaf6c7ac73ea90de), delay.RetryIdentity(record("a-retry", nil)))
	require.Equal(t, uint64(0x643232b8a3241e1d), delay.RetryIdentity(record("a-retry", headers("original-topic", "orders", "original-partition", "1", "original-offset", "99"))))
}
