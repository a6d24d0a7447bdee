package kafka

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/klauspost/compress/snappy/xerial"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"delay-scheduler/delay"
)

// written is a batch of records as brokers keep it.
func written(b kmsg.RecordBatch, records ...kmsg.Record) []byte {
	b.NumRecords = int32(len(records))
	plain := writtenRecords(records)
	b.Records = plain
	if codec := b.Attributes & codecMask; codec != codecNone {
		b.Records = packed(int(codec), plain)
	}
	return encodeBatch(b)
}

func writtenRecords(records []kmsg.Record) []byte {
	var plain []byte
	for _, r := range records {
		whole := r.AppendTo(nil) // with a length of 0, which takes a byte
		r.Length = int32(len(whole) - 1)
		plain = r.AppendTo(plain)
	}
	return plain
}

func packed(codec int, plain []byte) []byte {
	by := map[int]kgo.CompressionCodec{
		codecGZIP: kgo.GzipCompression(), codecSnappy: kgo.SnappyCompression(), codecLZ4: kgo.Lz4Compression(), codecZSTD: kgo.ZstdCompression(),
	}
	c, err := kgo.DefaultCompressor(by[codec])
	if err != nil {
		panic(err)
	}
	b, _ := c.Compress(new(bytes.Buffer), plain)
	return bytes.Clone(b)
}

// partOf is what a response says that has these batches.
func partOf(batches ...[]byte) *part {
	return &part{FetchResponseBlock: &sarama.FetchResponseBlock{}, records: bytes.Join(batches, nil)}
}

func TestDecodeTakesTheAppendTimeForTheWholeBatch(t *testing.T) {
	const appended, earlier = 1_700_000_000_000, 1_600_000_000_000
	b := written(kmsg.RecordBatch{FirstOffset: 5, LastOffsetDelta: 1, Attributes: appendTime, FirstTimestamp: earlier, MaxTimestamp: appended},
		kmsg.Record{}, kmsg.Record{OffsetDelta: 1, TimestampDelta64: 40 * 86_400_000})
	p := decodePage("a", 1, 5, partOf(b), nil, 0)
	require.NoError(t, p.err)
	require.Equal(t, page{next: 7, passed: 2, records: []delay.Record{
		{Topic: "a", Partition: 1, Offset: 5, Timestamp: appended, AppendTime: true, Key: []byte{}, Value: []byte{}},
		{Topic: "a", Partition: 1, Offset: 6, Timestamp: appended, AppendTime: true, Key: []byte{}, Value: []byte{}},
	}}, emptied(p))
}

// emptied makes null and empty the same, which the encoder of these tests does not tell
// apart.
func emptied(p page) page {
	for i := range p.records {
		r := &p.records[i]
		r.Key, r.Value = append([]byte{}, r.Key...), append([]byte{}, r.Value...)
	}
	return p
}

func TestDecodeRecordsWithoutATime(t *testing.T) {
	b := written(kmsg.RecordBatch{LastOffsetDelta: 1, FirstTimestamp: -1, MaxTimestamp: -1}, kmsg.Record{}, kmsg.Record{OffsetDelta: 1, TimestampDelta64: 1001})
	p := decodePage("a", 0, 0, partOf(b), nil, 0)
	require.Equal(t, int64(-1), p.records[0].Timestamp)
	require.Equal(t, int64(1000), p.records[1].Timestamp, "counted from the batch's -1")
}

func TestDecodeTellsNullFromEmpty(t *testing.T) {
	records := [][]byte{
		{0, 0, 0, 1, 1, 0}, // null key, null value, no headers
		{0, 0, 2, 0, 2, 'v', 4, 2, 'a', 1, 2, 'b', 0}, // empty key, headers with null and empty values
	}
	var plain []byte
	for _, r := range records {
		plain = append(append(plain, byte(2*len(r))), r...)
	}
	p := decodePage("a", 0, 0, partOf(encodeBatch(kmsg.RecordBatch{LastOffsetDelta: 1, NumRecords: 2, Records: plain})), nil, 0)
	require.NoError(t, p.err)
	require.Equal(t, []delay.Record{
		{Topic: "a"},
		{Topic: "a", Offset: 1, Key: []byte{}, Value: []byte("v"), Headers: []delay.Header{{Key: []byte("a")}, {Key: []byte("b"), Value: []byte{}}}},
	}, p.records)
}

// TestDecodeReadsWhatIsWritten writes random batches, with an encoder that is not ours.
func TestDecodeReadsWhatIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOfN(rapid.Byte(), 1, 200)
		first := rapid.Int64Range(0, math.MaxInt64/2).Draw(t, "first")
		base := rapid.Int64Range(0, 1<<45).Draw(t, "time")
		var records []kmsg.Record
		var want []delay.Record
		delta := int32(0)
		for range rapid.IntRange(1, 40).Draw(t, "records") {
			delta += int32(rapid.IntRange(1, 3).Draw(t, "gap"))
			r := kmsg.Record{
				OffsetDelta: delta, TimestampDelta64: rapid.Int64Range(-1<<44, 1<<60).Draw(t, "delta"),
				Key: text.Draw(t, "key"), Value: text.Draw(t, "value"),
			}
			w := delay.Record{Topic: "a", Partition: 3, Offset: first + int64(delta), Timestamp: base + r.TimestampDelta64, Key: r.Key, Value: r.Value}
			for range rapid.IntRange(0, 4).Draw(t, "headers") {
				h := kmsg.Header{Key: string(text.Draw(t, "header")), Value: text.Draw(t, "header value")}
				r.Headers = append(r.Headers, h)
				w.Headers = append(w.Headers, delay.Header{Key: []byte(h.Key), Value: h.Value})
			}
			records, want = append(records, r), append(want, w)
		}
		b := written(kmsg.RecordBatch{
			FirstOffset: first, LastOffsetDelta: delta, FirstTimestamp: base,
			Attributes: int16(rapid.IntRange(codecNone, codecZSTD).Draw(t, "codec")),
		}, records...)
		p := decodePage("a", 3, first, partOf(b), nil, 0)
		require.NoError(t, p.err)
		require.Equal(t, want, p.records)
		require.Equal(t, first+int64(delta)+1, p.next)

		cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut")
		require.Equal(t, page{next: first}, decodePage("a", 3, first, partOf(b[:cut]), nil, 0), "cut off")

		from := rapid.IntRange(0, len(want)-1).Draw(t, "from")
		p = decodePage("a", 3, want[from].Offset, partOf(b), nil, 0)
		require.Equal(t, want[from:], p.records)
		odd := decodePage("a", 3, first, partOf(b), func(first, last int64) bool { return last > first || first%2 == 1 }, 0)
		require.Equal(t, len(want), odd.passed)
		for _, r := range odd.records {
			require.Equal(t, int64(1), r.Offset%2)
		}
	})
}

// TestDecodeStopsAtDamageAndKeepsWhatIsBeforeIt changes one byte that the checksum
// covers.
func TestDecodeStopsAtDamageAndKeepsWhatIsBeforeIt(t *testing.T) {
	good := written(kmsg.RecordBatch{}, kmsg.Record{Value: []byte("good")})
	for at := coveredFrom; at < len(good); at++ {
		bad := written(kmsg.RecordBatch{FirstOffset: 1}, kmsg.Record{Value: []byte("good")})
		bad[at] ^= 0x41
		p := decodePage("a", 0, 0, partOf(good, bad), nil, 0)
		require.ErrorIs(t, p.err, errUndecodable, "byte %d", at)
		require.Len(t, p.records, 1)
		require.Equal(t, int64(1), p.next)
	}
}

func TestDecodeTakesABatchWholeOrNotAtAll(t *testing.T) {
	plain := writtenRecords([]kmsg.Record{{Value: []byte("first")}, {OffsetDelta: 1, Value: []byte("second")}})
	for cut := 1; cut < 12; cut++ {
		b := encodeBatch(kmsg.RecordBatch{LastOffsetDelta: 1, NumRecords: 2, Records: plain[:len(plain)-cut]})
		p := decodePage("a", 0, 0, partOf(b), nil, 0)
		require.ErrorIs(t, p.err, errUndecodable)
		require.Empty(t, p.records)
		require.Zero(t, p.next)
	}
}

func TestDecodeUnpacksNoMoreThanTheLimit(t *testing.T) {
	zeros := make([]byte, maxDecompressed+1)
	for _, codec := range []int{codecGZIP, codecSnappy, codecLZ4, codecZSTD} {
		_, err := decompress(codec, packed(codec, zeros))
		require.ErrorIs(t, err, errTooLarge, "codec %d", codec)
	}
	_, err := decompress(7, zeros[:1])
	require.ErrorContains(t, err, "codec 7")
}

func TestDecodeTakesForSnappyTheRoomThatIsNeeded(t *testing.T) {
	random := make([]byte, 100_000)
	for i := range random {
		random[i] = byte(rand.Uint32())
	}
	blocks := xerial.Encode(nil, random)
	for name, packed := range map[string][]byte{"one block": packed(codecSnappy, random), "blocks": blocks} {
		plain, err := decompress(codecSnappy, packed)
		require.NoError(t, err, name)
		require.Equal(t, random, plain, name)
		require.Equal(t, len(random), cap(plain), name)
	}
	empty, err := decompress(codecSnappy, xerial.Encode(nil, nil))
	require.NoError(t, err)
	require.Empty(t, empty)
	for _, cut := range []int{3, 8, 15, 18, len(blocks) - 1} {
		_, err := decompress(codecSnappy, blocks[:cut])
		require.Error(t, err, "cut after %d bytes", cut)
	}
	_, err = decompress(codecSnappy, binary.AppendUvarint(nil, maxDecompressed))
	require.ErrorContains(t, err, "says that it unpacks to 268435456")
}

func TestDecodeStopsWhereThereIsEnough(t *testing.T) {
	var raw []byte
	for first := range int64(3) {
		raw = append(raw, written(kmsg.RecordBatch{FirstOffset: first, Attributes: codecSnappy}, kmsg.Record{Value: make([]byte, 10_000)})...)
	}
	p := decodePage("a", 0, 0, partOf(raw), nil, 15_000)
	require.Equal(t, []int64{0, 1}, offsetsOf(p.records))
	require.True(t, p.more)
	p = decodePage("a", 0, p.next, partOf(raw), nil, 15_000)
	require.Equal(t, []int64{2}, offsetsOf(p.records))
	require.False(t, p.more)
}

func TestDecodeMessageSetsFromBeforeHeaders(t *testing.T) {
	at := time.UnixMilli(1_600_000_000_000)
	set := &sarama.MessageSet{Messages: []*sarama.MessageBlock{
		{Offset: 3, Msg: &sarama.Message{Version: 0, Key: []byte("k"), Value: []byte("v0")}},
		{Offset: 7, Msg: &sarama.Message{Version: 1, Timestamp: at, Set: &sarama.MessageSet{Messages: []*sarama.MessageBlock{
			{Offset: 0, Msg: &sarama.Message{Version: 1, Timestamp: at, Value: []byte("a")}},
			{Offset: 2, Msg: &sarama.Message{Version: 1, Timestamp: at.Add(time.Second), Value: []byte("b")}},
		}}}},
		{Offset: 8, Msg: &sarama.Message{Version: 1, LogAppendTime: true, Timestamp: at, Set: &sarama.MessageSet{Messages: []*sarama.MessageBlock{
			{Offset: 0, Msg: &sarama.Message{Version: 1, Value: []byte("c")}},
		}}}},
	}}
	p := decodePage("a", 0, 4, &part{FetchResponseBlock: &sarama.FetchResponseBlock{RecordsSet: []*sarama.Records{{MsgSet: set}}}}, nil, 0)
	require.Equal(t, page{next: 9, passed: 4, records: []delay.Record{
		{Topic: "a", Offset: 5, Timestamp: at.UnixMilli(), Value: []byte("a")},
		{Topic: "a", Offset: 7, Timestamp: at.UnixMilli() + 1000, Value: []byte("b")},
		{Topic: "a", Offset: 8, Timestamp: at.UnixMilli(), AppendTime: true, Value: []byte("c")},
	}}, p)
}

func TestDecodeNeverMovesThePositionBack(t *testing.T) {
	b := written(kmsg.RecordBatch{LastOffsetDelta: 3}, kmsg.Record{OffsetDelta: 3})
	p := decodePage("a", 0, 100, partOf(b), nil, 0)
	require.Equal(t, int64(100), p.next)
	require.Empty(t, p.records)
}

// FuzzDecode gives it whatever: it may refuse it, and never give more than there is.
func FuzzDecode(f *testing.F) {
	records := []kmsg.Record{{Key: []byte("k"), Value: []byte("v"), Headers: []kmsg.Header{{Key: "h", Value: []byte("x")}}}, {OffsetDelta: 1}}
	for codec := codecNone; codec <= codecZSTD; codec++ {
		f.Add(written(kmsg.RecordBatch{Attributes: int16(codec), LastOffsetDelta: 1}, records...), int64(0), true)
	}
	f.Add(written(kmsg.RecordBatch{Attributes: control | transactional}, kmsg.Record{Key: []byte{0, 0, 0, 0}}), int64(0), false)
	f.Fuzz(func(t *testing.T, raw []byte, from int64, sum bool) {
		if sum && len(raw) >= batchHead { // past the checksum
			raw = encodeSum(bytes.Clone(raw))
		}
		p := decodePage("a", 0, from, partOf(raw), nil, 0)
		require.GreaterOrEqual(t, p.next, from)
		last := int64(-1)
		for _, r := range p.records {
			require.GreaterOrEqual(t, r.Offset, from)
			if last >= 0 {
				require.NotEqual(t, last, r.Offset)
			}
			last = r.Offset
		}
	})
}

func BenchmarkDecodePage(b *testing.B) {
	const n = 5000
	var records []kmsg.Record
	for i := range n {
		records = append(records, kmsg.Record{
			OffsetDelta: int32(i), Key: []byte("key"), Value: make([]byte, 200),
			Headers: []kmsg.Header{{Key: "a"}, {Key: "b"}, {Key: "c"}},
		})
	}
	p := partOf(written(kmsg.RecordBatch{LastOffsetDelta: n - 1}, records...))
	for name, wanted := range map[string]wants{
		"all":            nil,
		"one in hundred": func(first, last int64) bool { return last > first || first%100 == 0 },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if p := decodePage("a", 0, 0, p, wanted, 0); p.passed != n || p.err != nil {
					b.Fatal(p.passed, p.err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
		})
	}
}
