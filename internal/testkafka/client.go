package testkafka

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// clientPatience is for what a client waits for on a busy machine.
const clientPatience = 30 * time.Second

// Client is a foreign client (franz-go), closed with the test. It looks for new topics
// and retries far more often than one in production would, and compresses nothing: the
// size of a record is what the test made it. On a secured Cluster it is a super user, past
// the security of clients.
func Client(t testing.TB, e Endpoint, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	own := []kgo.Opt{
		kgo.SeedBrokers(e.Addrs()...),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
		kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.FetchMaxWait(200 * time.Millisecond),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
	}
	if c, ok := e.(interface{ clientOpts() []kgo.Opt }); ok {
		own = append(own, c.clientOpts()...)
	}
	client, err := kgo.NewClient(append(own, opts...)...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// Admin is a Client that administers.
func Admin(t testing.TB, e Endpoint) *kadm.Client {
	t.Helper()
	return kadm.NewClient(Client(t, e))
}

// Produce sends the records to the partitions of their keys, waits for every
// acknowledgement, and returns them with partition and offset set. A record without a
// timestamp gets the time of sending.
func Produce(t testing.TB, e Endpoint, records ...*kgo.Record) []*kgo.Record {
	t.Helper()
	return produce(t, e, records)
}

// ProduceTo sends the records to the partitions that they name.
func ProduceTo(t testing.TB, e Endpoint, records ...*kgo.Record) []*kgo.Record {
	t.Helper()
	return produce(t, e, records, kgo.RecordPartitioner(kgo.ManualPartitioner()))
}

func produce(t testing.TB, e Endpoint, records []*kgo.Record, opts ...kgo.Opt) []*kgo.Record {
	t.Helper()
	client := Client(t, e, opts...)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), clientPatience)
	defer cancel()
	require.NoError(t, client.ProduceSync(ctx, records...).FirstErr())
	return records
}

// ReadAll reads the topic from its start until n records were read or the time has
// passed, and returns what it got, by partition and offset. Timestamp is the broker's on
// topics with LogAppendTime (Attrs.TimestampType is 1 then). Whether it was enough is for
// the test to say.
func ReadAll(t testing.TB, e Endpoint, topic string, n int, within time.Duration, opts ...kgo.Opt) []*kgo.Record {
	t.Helper()
	client := Client(t, e, append([]kgo.Opt{
		kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}, opts...)...)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	var records []*kgo.Record
	for len(records) < n && ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		fetches.EachError(func(topic string, partition int32, err error) {
			if ctx.Err() == nil {
				t.Logf("read %s/%d: %v", topic, partition, err)
			}
		})
		records = append(records, fetches.Records()...)
	}
	slices.SortFunc(records, func(x, y *kgo.Record) int {
		return cmp.Or(cmp.Compare(x.Partition, y.Partition), cmp.Compare(x.Offset, y.Offset))
	})
	return records
}

// LogAppendTime are the configs of a topic whose records are stamped by the broker. The
// embedded broker takes them and does not do it.
func LogAppendTime() map[string]string {
	return map[string]string{"message.timestamp.type": "LogAppendTime"}
}

// Commit is a committed offset.
type Commit struct {
	Offset   int64
	Metadata string
}

// Committed is what the group has committed in the topic, by partition; nothing for
// partitions without a commit.
func Committed(t testing.TB, e Endpoint, group, topic string) map[int32]Commit {
	t.Helper()
	client := Client(t, e)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), clientPatience)
	defer cancel()
	offsets, err := kadm.NewClient(client).FetchOffsets(ctx, group)
	if errors.Is(err, kerr.GroupIDNotFound) { // The embedded broker's way to say that there are none.
		return map[int32]Commit{}
	}
	require.NoError(t, err)
	require.NoError(t, offsets.Error())
	commits := make(map[int32]Commit)
	for partition, offset := range offsets[topic] {
		if offset.At >= 0 {
			commits[partition] = Commit{Offset: offset.At, Metadata: offset.Metadata}
		}
	}
	return commits
}

// maxName leaves room for a suffix like -delay below the 249 of a topic's name.
const maxName = 120

var illegal = regexp.MustCompile(`[^a-z0-9]+`)

// UniqueName is a name for a topic or a group that nobody else uses, made of the test's.
func UniqueName(t testing.TB) string {
	t.Helper()
	name := strings.Trim(illegal.ReplaceAllString(strings.ToLower(t.Name()), "-"), "-")
	var random [4]byte
	_, _ = rand.Read(random[:]) // It never fails.
	return name[:min(len(name), maxName)] + "-" + hex.EncodeToString(random[:])
}
