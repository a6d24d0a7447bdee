package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"delay-scheduler/delay"
)

// ErrUnknownTopic says that a topic does not exist.
var ErrUnknownTopic = errors.New("the topic does not exist")

// Written is the end of one record. A nil Err says that all in-sync replicas have it.
type Written struct {
	Tag       any
	Partition int32
	Offset    int64
	Timestamp int64 // the broker's on a topic with LogAppendTime
	Err       error
}

// Writer writes the records of one topic and tells where each one is. It is for tools:
// unlike Producer it is made for few records, and gives up after a few seconds.
//
// One goroutine writes; another one takes the results until they end.
type Writer struct {
	topic    string
	producer sarama.AsyncProducer
	results  chan Written

	finish  sync.Once
	abandon sync.Once
	closing chan struct{}
}

// NewWriter makes sure that the topic exists and can be written to. Largest is the size
// of the largest record to come.
func NewWriter(ctx context.Context, o Options, topic string, largest int) (*Writer, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	conf := o.config("write")
	conf.Producer.RequiredAcks = sarama.WaitForAll
	conf.Producer.Idempotent = true
	conf.Net.MaxOpenRequests = 1
	conf.Producer.Return.Successes = true
	conf.Producer.Retry.Max = 10
	conf.Producer.Partitioner = sarama.NewMurmur2Partitioner
	// A batch stays within what a broker takes by default, unless one record is more:
	// then the broker, who knows its limit, has to say so.
	conf.Producer.MaxMessageBytes = max(DefaultBatchBytes, largest+1<<10)
	if err := topicExists(ctx, conf, o.Brokers, topic); err != nil {
		return nil, err
	}
	producer, err := sarama.NewAsyncProducer(o.Brokers, conf)
	if err != nil {
		return nil, unreachable(err)
	}
	w := &Writer{topic: topic, producer: producer, results: make(chan Written), closing: make(chan struct{})}
	go w.collect()
	return w, nil
}

func topicExists(ctx context.Context, conf *sarama.Config, brokers []string, topic string) error {
	l := newLookup(conf, brokers)
	defer l.close()
	m, err := l.metadata(ctx, topic)
	if err != nil {
		return err
	}
	switch err := m.topics[topic].err; {
	case errors.Is(err, sarama.ErrUnknownTopicOrPartition):
		return fmt.Errorf("topic %s: %w", topic, ErrUnknownTopic)
	case err != nil:
		return fmt.Errorf("look up topic %s: %w", topic, err)
	}
	return nil
}

// Write queues a record, or waits until there is room for it. Topic is the writer's.
func (w *Writer) Write(ctx context.Context, r delay.Outgoing) error {
	m := &sarama.ProducerMessage{Topic: w.topic, Timestamp: time.UnixMilli(r.Timestamp), Metadata: r.Tag}
	if r.Key != nil {
		m.Key = sarama.ByteEncoder(r.Key)
	}
	if r.Value != nil {
		m.Value = sarama.ByteEncoder(r.Value)
	}
	for _, h := range r.Headers {
		m.Headers = append(m.Headers, sarama.RecordHeader{Key: h.Key, Value: h.Value})
	}
	select {
	case w.producer.Input() <- m:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Finish says that nothing more will be written. It waits for nothing: the results end
// after the last record's.
func (w *Writer) Finish() { w.finish.Do(w.producer.AsyncClose) }

// Results gives every record's end, and closes after Finish or Close.
func (w *Writer) Results() <-chan Written { return w.results }

// Close ends the writer, whether or not its results are still taken. It may be called
// again, and after Finish.
func (w *Writer) Close() {
	w.abandon.Do(func() { close(w.closing) })
	w.Finish()
	for range w.results {
		continue // what is left is of no interest
	}
}

// collect passes results on until the producer has ended.
func (w *Writer) collect() {
	defer close(w.results)
	good, bad := w.producer.Successes(), w.producer.Errors()
	for good != nil || bad != nil {
		select {
		case m, ok := <-good:
			if !ok {
				good = nil
				continue
			}
			w.give(Written{Tag: m.Metadata, Partition: m.Partition, Offset: m.Offset, Timestamp: m.Timestamp.UnixMilli()})
		case e, ok := <-bad:
			if !ok {
				bad = nil
				continue
			}
			w.give(Written{Tag: e.Msg.Metadata, Partition: -1, Offset: -1, Err: fmt.Errorf("write to topic %s: %w", w.topic, e.Err)})
		}
	}
}

func (w *Writer) give(r Written) {
	select {
	case w.results <- r:
	case <-w.closing:
	}
}
