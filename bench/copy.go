package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"golang.org/x/sync/errgroup"

	"delay-scheduler/delay"
	"delay-scheduler/kafka"
	"delay-scheduler/measure"
)

// scan reads a topic from its start to its present end: see measure.Scan.
func (c *cluster) scan(ctx context.Context, topic string, visit func(partition int32, records []delay.Record) error) (began time.Time, err error) {
	return measure.Scan(ctx, c.admin, c.options(), topic, visit)
}

// appends are the broker's append times of a topic's records.
type appends struct {
	records     int
	early       int                // before the instant
	first, last int64              // epoch ms
	late        *measure.Histogram // ms after the instant
}

// appendsIn reads a target topic.
func (c *cluster) appendsIn(ctx context.Context, topic string, instant int64) (appends, error) {
	var mu sync.Mutex
	a := appends{late: measure.NewHistogram()}
	_, err := c.scan(ctx, topic, func(_ int32, records []delay.Record) error {
		mu.Lock()
		defer mu.Unlock()
		for i := range records {
			if !records[i].AppendTime {
				return fmt.Errorf("%s is not stamped by the broker", topic)
			}
			a.add(records[i].Timestamp, instant)
		}
		return nil
	})
	return a, err
}

func (a *appends) add(at, instant int64) {
	if a.records == 0 {
		a.first, a.last = at, at
	}
	a.records++
	a.late.Add(at - instant)
	a.first, a.last = min(a.first, at), max(a.last, at)
	if at < instant {
		a.early++
	}
}

// passage is how a number of records came from one topic to another.
type passage struct {
	took time.Duration // to the last append
	cpu  time.Duration // of the process that did it
}

func (p passage) rate(n int) float64   { return float64(n) / p.took.Seconds() }
func (p passage) perCPU(n int) float64 { return float64(p.cpu.Microseconds()) / float64(n) }

// writer is the second half of a copy.
type writer interface {
	write(ctx context.Context, records []delay.Record) error
	// finish waits until everything is acknowledged.
	finish(ctx context.Context) error
}

// copy copies a topic and says how long it took from the first fetch to the last
// append.
func (b *bench) copy(ctx context.Context, from, to string, open func(c *cluster, to string) (writer, error)) (p passage, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience(b.o.records))
	defer cancel()
	w, err := open(b.cluster, to)
	if err != nil {
		return p, err
	}
	runtime.GC() // What the last measurement left is not this one's.
	before, err := usageOf(os.Getpid())
	if err != nil {
		return p, errors.Join(err, w.finish(ctx))
	}
	began, err := b.cluster.scan(ctx, from, func(_ int32, records []delay.Record) error { return w.write(ctx, records) })
	if err := errors.Join(err, w.finish(ctx)); err != nil {
		return p, fmt.Errorf("copy %s: %w", from, err)
	}
	after, err := usageOf(os.Getpid())
	if err != nil {
		return p, err
	}
	a, err := b.cluster.appendsIn(ctx, to, 0)
	if err == nil && a.records != b.o.records {
		err = fmt.Errorf("copy %s: %d records of %d arrived", from, a.records, b.o.records)
	}
	return passage{took: time.UnixMilli(a.last).Sub(began), cpu: after.cpu - before.cpu}, err
}

// libraryWriter is sarama's own producer, set up like the product's and for speed. It
// bounds itself by its channels and batches.
type libraryWriter struct {
	producer sarama.AsyncProducer
	client   sarama.Client
	to       string
	collect  errgroup.Group
}

func openLibrary(c *cluster, to string) (writer, error) {
	conf := sarama.NewConfig()
	conf.ClientID = "bench-copy"
	conf.Version = sarama.V3_9_0_0
	conf.ChannelBufferSize = 1024
	conf.Net.MaxOpenRequests = 1 // as idempotence wants it
	conf.Producer.Idempotent = true
	conf.Producer.RequiredAcks = sarama.WaitForAll
	conf.Producer.Compression = sarama.CompressionNone
	conf.Producer.Partitioner = sarama.NewMurmur2Partitioner
	conf.Producer.MaxMessageBytes = kafka.DefaultBatchBytes
	conf.Producer.Flush.MaxMessages = kafka.DefaultBatchRecords
	conf.Producer.Flush.Frequency = linger
	conf.Producer.Return.Successes = true
	conf.Producer.Retry.Max = 1000
	client, err := sarama.NewClient(c.brokers, conf)
	if err != nil {
		return nil, fmt.Errorf("connect the library's producer: %w", err)
	}
	// The target is known before the clock runs.
	_, err = client.Partitions(to)
	var producer sarama.AsyncProducer
	if err == nil {
		producer, err = sarama.NewAsyncProducerFromClient(client)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("set up the library's producer: %w", err), client.Close())
	}
	w := &libraryWriter{producer: producer, client: client, to: to}
	w.collect.Go(func() error {
		for range producer.Successes() { // They only have to be taken.
		}
		return nil
	})
	w.collect.Go(func() (err error) {
		for e := range producer.Errors() {
			err = e.Err
		}
		return err
	})
	return w, nil
}

func (w *libraryWriter) write(ctx context.Context, records []delay.Record) error {
	for i := range records {
		r := &records[i]
		m := &sarama.ProducerMessage{Topic: w.to, Headers: make([]sarama.RecordHeader, len(r.Headers))}
		if r.Key != nil {
			m.Key = sarama.ByteEncoder(r.Key)
		}
		if r.Value != nil {
			m.Value = sarama.ByteEncoder(r.Value)
		}
		for j, h := range r.Headers {
			m.Headers[j] = sarama.RecordHeader(h)
		}
		select {
		case w.producer.Input() <- m:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// finish closes the producer, which sends what it has: nothing fails here, so nothing
// is being retried that it would give up.
func (w *libraryWriter) finish(context.Context) error {
	w.producer.AsyncClose()
	err := w.collect.Wait()
	return errors.Join(err, w.client.Close())
}

// ownWriter is the product's producer with nothing in front of it.
type ownWriter struct {
	*measure.Sender
	to string
}

func openOwn(c *cluster, to string) (writer, error) {
	s, err := newSender(c)
	return ownWriter{s, to}, err
}

func (w ownWriter) write(ctx context.Context, records []delay.Record) error {
	out := make([]delay.Outgoing, len(records))
	for i := range records {
		r := &records[i]
		out[i] = delay.Outgoing{Key: r.Key, Value: r.Value, Headers: r.Headers}
	}
	return w.Send(ctx, w.to, out)
}

func (w ownWriter) finish(ctx context.Context) error { return w.Close(ctx) }
