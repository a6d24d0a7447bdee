package app

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"delay-scheduler/delay"
	"delay-scheduler/kafka"
)

func TestPlacesAreRead(t *testing.T) {
	at, err := parsePosition([]string{"orders-delay", "3", "42"})
	require.NoError(t, err)
	require.Equal(t, position{"orders-delay", 3, 42}, at)
	for _, parts := range [][]string{
		nil,
		{"a", "1"},
		{"a", "1", "2", "3"},
		{"", "1", "2"},
		{"a b", "1", "2"},
		{"a", "-1", "2"},
		{"a", "1", "-2"},
		{"a", "x", "2"},
		{"a", "1", ""},
		{"a", "2147483648", "1"},
		{"a", "1", "9223372036854775808"},
	} {
		_, err := parsePosition(parts)
		require.ErrorIs(t, err, ErrPlace, parts)
	}
}

func headers(pairs ...string) (all []delay.Header) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, delay.Header{Key: []byte(pairs[i]), Value: []byte(pairs[i+1])})
	}
	return all
}

func TestWhatComesOutIsRecognisedByItsOrigin(t *testing.T) {
	read := time.UnixMilli(1_700_000_000_500)
	forwarded := delay.Record{
		Topic: "orders", Offset: 5, Timestamp: 1_700_000_000_400,
		Headers: headers("delay-id", "a-delay/1/42/1600000000000", "delay-due", "1700000000390"),
	}

	d, ok := recognise(&forwarded, read)
	require.True(t, ok)
	require.Equal(t, position{"a-delay", 1, 42}, d.from)
	require.Equal(t, read, d.arrival.At, "the timestamp is the scheduler's own")
	require.EqualValues(t, 1_700_000_000_390, d.due.UnixMilli())

	forwarded.AppendTime = true
	d, _ = recognise(&forwarded, read)
	require.EqualValues(t, 1_700_000_000_400, d.arrival.At.UnixMilli(), "the broker's append time")

	dead := delay.Record{Topic: "a-dlq", Headers: headers("dlq-reason", "LOOP", "dlq-detail", "why",
		"original-topic", "a-delay", "original-partition", "1", "original-offset", "42")}
	d, ok = recognise(&dead, read)
	require.True(t, ok)
	require.Equal(t, position{"a-delay", 1, 42}, d.from)
	require.Equal(t, &Refused{"LOOP", "why"}, d.arrival.Refused)

	for _, stranger := range [][]delay.Header{nil, headers("delay-id", "x"), headers("delay-id", "a/b/c/d"), headers("dlq-reason", "LOOP")} {
		_, ok = recognise(&delay.Record{Headers: stranger}, read)
		require.False(t, ok)
	}
}

func sending(t *testing.T) *sender {
	t.Helper()
	c := settings(t, "localhost:9092")
	s, err := newSender(c, SendOptions{
		Topic: "a-delay", Count: 1, Wait: true, Timeout: time.Second,
		Record: delay.Outgoing{Headers: headers("target-topic", "a", "delay-ms", "100")},
	})
	require.NoError(t, err)
	return s
}

func came(offset int64, late time.Duration) delivery {
	due := time.UnixMilli(1_700_000_000_100)
	return delivery{
		from: position{"a-delay", 0, offset}, id: delay.Identity("a-delay", 0, offset, 1_700_000_000_000), due: due,
		arrival: Arrival{Topic: "a", At: due.Add(late)},
	}
}

func TestARecordMayComeOutBeforeWeHearThatItIsWritten(t *testing.T) {
	s := sending(t)

	s.arrived(came(7, 5*time.Millisecond))
	s.arrived(came(3, 5*time.Millisecond)) // somebody else's
	s.wrote(kafka.Written{Partition: 0, Offset: 7, Timestamp: 1_700_000_000_000})

	r := s.result()
	require.Equal(t, 1, r.Arrived)
	require.Zero(t, r.Missing)
	require.Equal(t, 5*time.Millisecond, r.Max)
}

func TestEarlyRecordsAndCopiesAreCounted(t *testing.T) {
	s := sending(t)
	s.wrote(kafka.Written{Partition: 0, Offset: 7, Timestamp: 1_700_000_000_000})

	s.arrived(came(7, -time.Millisecond))
	s.arrived(came(7, time.Millisecond))
	other := came(7, 0)
	other.id = "a-delay/0/7/1" // of a topic that had the same name
	s.arrived(other)

	r := s.result()
	require.Equal(t, 1, r.Early)
	require.Equal(t, 1, r.Duplicates)
}

func TestOthersRecordsAreNotKeptForEver(t *testing.T) {
	s := sending(t)
	for o := range int64(3 * unclaimedMost) {
		s.arrived(came(o, 0))
	}
	s.wrote(kafka.Written{Partition: 0, Offset: 3*unclaimedMost - 1, Timestamp: 1_700_000_000_000})

	s.arrived(came(5, 0)) // below what we have heard of: not ours

	require.Empty(t, s.unclaimed[0].by)
	require.Equal(t, 1, s.result().Arrived)
}

func TestPendingIsEstimatedFromWhatWasRead(t *testing.T) {
	for name, c := range map[string]struct {
		p            PartitionOffsets
		n            int64
		exact, known bool
	}{
		"nothing behind":          {PartitionOffsets{}, 0, true, true},
		"not read":                {PartitionOffsets{Lag: 5}, 0, false, false},
		"all read":                {PartitionOffsets{Lag: 5, Counted: &Counted{Read: 5, Pending: 2, All: true}}, 2, true, true},
		"only the first of them":  {PartitionOffsets{Lag: 1000, Counted: &Counted{Read: 100, Pending: 1}}, 1, false, true},
		"half of them":            {PartitionOffsets{Lag: 1001, Counted: &Counted{Read: 101, Pending: 51}}, 501, false, true},
		"one read, and there are": {PartitionOffsets{Lag: 10, Counted: &Counted{Read: 1, Pending: 1}}, 1, false, true},
	} {
		n, exact, known := c.p.Estimate()
		require.Equal(t, c.n, n, name)
		require.Equal(t, c.exact, exact, name)
		require.Equal(t, c.known, known, name)
	}
}
