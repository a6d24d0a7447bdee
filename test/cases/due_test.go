package cases

import (
	"bytes"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"delay-scheduler/internal/testkafka"
)

// lateness that a loaded machine may add to what a case allows.
const slack = 1500

func TestF01EqualDueTimesLeaveInOrderAlsoThoseThatArriveDuringTheDrain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	w.create("delay", "a", "dlq")
	w.start()
	due := time.Now().Add(4 * time.Second).UnixMilli()
	client := testkafka.Client(t, w.broker, kgo.ProducerLinger(0))
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := range 500 { // until a second after the due time
		<-tick.C
		r := w.record("delay", "a", text("next-retry-time", strconv.FormatInt(due, 10)))
		r.Value = []byte(strconv.Itoa(i))
		client.Produce(t.Context(), r, nil)
	}
	require.NoError(t, client.Flush(t.Context()))
	for i, r := range w.arrived("a", 500, 10*time.Second) {
		require.Equal(t, strconv.Itoa(i), string(r.Value), "order")
		require.GreaterOrEqual(t, ms(r), due, "early")
		require.LessOrEqual(t, ms(r), due+1000+slack, "late")
	}
}

func TestF05AppendTimeOfTheBatchIsTheBaseOfAllItsRecords(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	w.create("delay", "a", "dlq")
	w.start()
	client := testkafka.Client(t, w.broker, kgo.ProducerLinger(time.Second))
	now := time.Now()
	for _, at := range []time.Time{now.Add(-time.Hour), now, now.Add(40 * 24 * time.Hour)} {
		r := w.later("a", 3000)
		r.Timestamp = at
		client.Produce(t.Context(), r, nil)
	}
	require.NoError(t, client.Flush(t.Context()))
	asked := w.arrived("delay", 3, 5*time.Second)
	require.Equal(t, ms(asked[0]), ms(asked[2]), "the three are not one batch")
	for _, r := range w.arrived("a", 3, 10*time.Second) {
		require.GreaterOrEqual(t, ms(r), ms(asked[0])+3000)
		require.LessOrEqual(t, ms(r), ms(asked[0])+3000+slack)
	}
}

func TestF07HugeDelaysAreHeldOrRefusedAndNeverSentAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	w.create("delay", "a", "dlq")
	p := w.start(fmt.Sprintf("sources:\n  - topics: [\"%s-delay\"]\n    max_delay: 400d", w.name))
	held := []string{"2147483648", "4294967296", "31536000000"}
	refused := []string{"9223372036854", "9223372036855", "9223372036854775807", "9223372036854775808"}
	for _, d := range append(held, refused...) {
		r := w.record("delay", "a", text("delay-ms", d))
		r.Value = []byte(d)
		w.produce(r)
	}
	dead := w.arrived("dlq", len(refused), 10*time.Second)
	for i, r := range dead {
		require.Equal(t, refused[i], string(r.Value))
		require.Equal(t, "DELAY_OUT_OF_RANGE", header(r, "dlq-reason"))
		require.Contains(t, header(r, "dlq-detail"), "delay-ms")
	}
	p.awaitPending(len(held), 5*time.Second)
	w.exactly("a", 0, 0, 500*time.Millisecond)
}

func TestF09EveryEncodingMeansTheSameOrIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	w.create("delay", "a", "dlq")
	p := w.start()
	send := func(name string, key string, value []byte) *kgo.Record {
		r := w.record("delay", "a", kgo.RecordHeader{Key: key, Value: value})
		r.Key = []byte(name)
		return w.produce(r)[0]
	}
	good := map[string]*kgo.Record{
		"ascii":  send("ascii", "delay-ms", []byte("2000")),
		"int64":  send("int64", "delay-ms", []byte{0, 0, 0, 0, 0, 0, 0x07, 0xd0}),
		"int32":  send("int32", "delay-ms", []byte{0, 0, 0x07, 0xd0}),
		"quoted": send("quoted", "delay-ms", []byte(`"2000"`)),
	}
	send("far", "next-retry-time", []byte{0, 0, 0x01, 0xA0, 0xC4, 0x50, 0x6C, 0x00}) // 1790000000000, past by now: at once
	send("digits", "delay-ms", []byte("12345678"))
	bad := []string{"utf16", "case", "fraction", "negative"}
	send("utf16", "delay-ms", []byte{'5', 0, '0', 0, '0', 0, '0', 0, '0', 0})
	send("case", "Delay-Ms", []byte("5000"))
	send("fraction", "delay-ms", []byte("10.5"))
	send("negative", "delay-ms", []byte("-100"))
	for i, r := range w.arrived("dlq", len(bad), 10*time.Second) {
		require.Equal(t, bad[i], string(r.Key))
		require.Equal(t, "MALFORMED_HEADER", header(r, "dlq-reason"))
		require.NotEmpty(t, header(r, "dlq-detail"))
	}
	asked := map[string]int64{}
	for _, r := range w.arrived("delay", 10, 5*time.Second) {
		asked[string(r.Key)] = ms(r)
	}
	for _, r := range w.exactly("a", len(good)+1, 10*time.Second, 500*time.Millisecond) {
		if good[string(r.Key)] != nil {
			require.Equal(t, strconv.FormatInt(asked[string(r.Key)]+2000, 10), header(r, "delay-due"), string(r.Key))
		}
	}
	p.awaitPending(1, 5*time.Second)
}

func TestF15KeysLandWhereAJavaProducerPutsThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	w.create("dlq")
	w.createWith("delay", 3, testkafka.LogAppendTime())
	w.createWith("a", 12, testkafka.LogAppendTime())
	w.start()
	want := map[string]int32{"foobar": 6, "order-1": 10, "order-2": 3, "order-42": 0, "abc": 3}
	for key := range want {
		r := w.later("a", 0)
		r.Key = []byte(key)
		w.produce(r)
	}
	for _, r := range w.arrived("a", len(want), 10*time.Second) {
		require.Equal(t, want[string(r.Key)], r.Partition, string(r.Key))
	}
}

func TestF19OverdueRecordsLeaveAtOnceBeforeAndAfterARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	w.create("delay", "a", "dlq")
	p := w.start()
	now := time.Now().UnixMilli()
	for _, due := range []int64{now - 5000, now, now + 1} {
		w.produce(w.record("delay", "a", text("next-retry-time", strconv.FormatInt(due, 10))))
	}
	for _, r := range w.arrived("a", 3, 10*time.Second) {
		require.LessOrEqual(t, ms(r), now+5000)
	}
	p.stop()
	w.produce(w.later("a", 1000))
	testkafka.ReadAll(t, w.broker, w.topic("a"), 4, 3*time.Second) // the service is away while it falls due
	began := time.Now().UnixMilli()
	w.start()
	recs := w.exactly("a", 4, 10*time.Second, 500*time.Millisecond)
	require.GreaterOrEqual(t, ms(recs[3]), began)
}

func TestBytesArriveAsTheyWereSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	w.create("delay", "a", "dlq")
	w.start()
	big := bytes.Repeat([]byte("0123456789"), 90_000)
	values := map[string][]byte{"null": nil, "empty": {}, "big": big, "binary": {0, 1, 2, 255}}
	for name, v := range values {
		r := w.later("a", 300)
		r.Value = v
		r.Headers = append(r.Headers, text("name", name), text("twice", "1"), text("twice", "2"),
			kgo.RecordHeader{Key: "null"}, kgo.RecordHeader{Key: "bytes", Value: []byte{0, 255}}, kgo.RecordHeader{Key: "empty", Value: []byte{}})
		if name != "null" {
			r.Key = []byte{}
		}
		w.produce(r)
	}
	for _, r := range w.arrived("a", len(values), 10*time.Second) {
		name := header(r, "name")
		require.Equal(t, values[name] == nil, r.Value == nil, name)
		require.True(t, bytes.Equal(values[name], r.Value), name)
		require.Equal(t, name == "null", r.Key == nil, name)
		var keys []string
		for _, h := range r.Headers {
			keys = append(keys, h.Key)
		}
		require.Equal(t, []string{"name", "twice", "twice", "null", "bytes", "empty", "delay-id", "delay-due"}, keys)
		require.Nil(t, r.Headers[3].Value)
		require.Equal(t, []byte{0, 255}, r.Headers[4].Value)
		require.Equal(t, "1", string(r.Headers[1].Value))
	}
}
