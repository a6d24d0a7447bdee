package kafka

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"delay-scheduler/delay"
	"delay-scheduler/forward"
	"delay-scheduler/internal/testkafka"
)

// BenchmarkProducers writes the same records with our producer and with the library's,
// to the real broker, and reports records a second and client CPU for each record. Run
// it with -benchtime=1000000x.
func BenchmarkProducers(b *testing.B) {
	broker := testkafka.Need(b)
	for _, compression := range []string{"none", "lz4"} {
		b.Run("own-"+compression, func(b *testing.B) { benchOwn(b, broker, compression) })
		b.Run("library-"+compression, func(b *testing.B) { benchLibrary(b, broker, compression) })
	}
}

const benchChunk = 500

// benchRecords are 200 bytes, a key of 14, three headers, each in one piece of memory as
// a pending message is.
func benchRecords(topic string) []delay.Outgoing {
	records := make([]delay.Outgoing, 20_000)
	for i := range records {
		value := fmt.Appendf(nil, `{"order":"%08d","customer":"%x","amount":%d.%02d,"currency":"EUR","items":[`, i, i*2654435761, i%977, i%100)
		for len(value) < 200 {
			value = strconv.AppendInt(value, int64(i*len(value)%9973), 10)
			value = append(value, ',')
		}
		var message []byte
		pack := func(b []byte) []byte {
			from := len(message)
			message = append(message, b...)
			return message[from:len(message):len(message)]
		}
		message = make([]byte, 0, 400)
		records[i] = delay.Outgoing{
			Topic: topic, Key: pack(fmt.Appendf(nil, "customer-%05d", i%10_000)), Value: pack(value[:200]),
			Headers: []delay.Header{
				{Key: pack([]byte("traceparent")), Value: pack(fmt.Appendf(nil, "00-%032x-%016x-01", i, i))},
				{Key: []byte("delay-id"), Value: pack(fmt.Appendf(nil, "orders-delay/%d/%d/1767322445006", i%12, i))},
				{Key: []byte("delay-due"), Value: pack([]byte("1767322445006"))},
			},
		}
	}
	return records
}

func benchTopic(b *testing.B, broker testkafka.Broker) string {
	topic := testkafka.UniqueName(b)
	broker.CreateTopic(topic, 12, nil)
	return topic
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measured runs the part that counts.
func measured(b *testing.B, run func()) {
	b.ResetTimer()
	cpu, began := cpuTime(), time.Now()
	run()
	cpu, took := cpuTime()-cpu, time.Since(began)
	b.StopTimer()
	b.ReportMetric(float64(b.N)/took.Seconds(), "records/s")
	b.ReportMetric(float64(cpu.Nanoseconds())/float64(b.N), "cpu-ns/record")
	b.ReportMetric(0, "ns/op")
}

func benchOwn(b *testing.B, broker testkafka.Broker, compression string) {
	topic := benchTopic(b, broker)
	records := benchRecords(topic)
	const room = 100_000 // records in flight: 32 MiB
	free := make(chan struct{}, room/benchChunk)
	acked, failed := 0, 0
	done := make(chan struct{})
	sink := func(acks []forward.Ack) {
		for i := range acks {
			if acks[i].Err != nil {
				failed++
			}
			if acked++; acked%benchChunk == 0 {
				<-free
			}
		}
		if acked == b.N {
			close(done)
		}
	}
	p, err := NewProducer(ProducerOptions{Options: Options{Brokers: broker.Addrs()}, Compression: compression, Linger: 5 * time.Millisecond},
		sink, zap.NewNop(), nil)
	require.NoError(b, err)
	require.Nil(b, p.Resolve(context.Background(), topic))
	b.ReportAllocs()
	measured(b, func() {
		for sent := 0; sent < b.N; {
			free <- struct{}{}
			n := min(benchChunk, b.N-sent)
			from := sent % len(records)
			p.Produce(topic, records[from:from+n])
			sent += n
		}
		<-done
	})
	require.Zero(b, failed)
	b.ReportMetric(float64(counter(b, p.loop.metrics.isolated)), "isolations")
	b.ReportMetric(float64(counter(b, p.loop.metrics.requests)), "requests")
	require.NoError(b, closeProducer(b, p, 10*time.Second))
}

func benchLibrary(b *testing.B, broker testkafka.Broker, compression string) {
	topic := benchTopic(b, broker)
	records := benchRecords(topic)
	c := Options{Brokers: broker.Addrs()}.config("bench")
	c.ChannelBufferSize = 1024
	c.Net.MaxOpenRequests = 1
	c.Producer.Idempotent, c.Producer.RequiredAcks = true, sarama.WaitForAll
	c.Producer.Return.Successes, c.Producer.Return.Errors = true, true
	c.Producer.Partitioner = sarama.NewMurmur2Partitioner
	c.Producer.Compression = produceCodecs[compression]
	c.Producer.MaxMessageBytes = DefaultBatchBytes
	c.Producer.Flush.MaxMessages = DefaultBatchRecords
	p, err := sarama.NewAsyncProducer(broker.Addrs(), c)
	require.NoError(b, err)
	var drained sync.WaitGroup
	drained.Go(func() {
		for range p.Successes() {
		}
	})
	failed := 0
	drained.Go(func() {
		for range p.Errors() {
			failed++
		}
	})
	b.ReportAllocs()
	measured(b, func() {
		for i := range b.N {
			r := &records[i%len(records)]
			m := &sarama.ProducerMessage{Topic: topic, Key: sarama.ByteEncoder(r.Key), Value: sarama.ByteEncoder(r.Value)}
			m.Headers = make([]sarama.RecordHeader, len(r.Headers))
			for j, h := range r.Headers {
				m.Headers[j] = sarama.RecordHeader(h)
			}
			p.Input() <- m
		}
		p.AsyncClose()
		drained.Wait()
	})
	require.Zero(b, failed)
}
