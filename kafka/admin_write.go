package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"go.uber.org/zap"

	"delay-scheduler/delay"
	"delay-scheduler/forward"
)

// ErrUnknownTopic says that a topic does not exist.
var ErrUnknownTopic = errors.New("the topic does not exist")

// errNotPlaced says that a record is written, and that nobody can say where.
var errNotPlaced = errors.New("it was written, but the broker does not say where")

const (
	// writePatience is how long a tool tries what is certainly not written.
	writePatience = 5 * time.Second
	// writeEnd is how long after the last record answers are awaited.
	writeEnd = 30 * time.Second
	// writeBytes and writeMost bound what is not yet written or not yet taken.
	writeBytes = 32 << 20
	writeMost  = 10_000
)

// Written is the end of one record. A nil Err says that all in-sync replicas have it.
type Written struct {
	Tag       any
	Partition int32
	Offset    int64
	Timestamp int64 // the broker's on a topic with LogAppendTime
	Err       error
}

// Writer writes the records of one topic and tells where each one is. It is for tools:
// unlike Producer it bounds what is under way, and it gives up after a few seconds.
//
// One goroutine writes; another one takes the results until they end.
type Writer struct {
	topic    string
	producer *Producer
	room     chan struct{} // one for each record under way
	ended    chan *writing // capacity of room, so that the sink never blocks
	over     chan struct{} // closed when the producer has ended
	results  chan Written

	finish  sync.Once
	abandon sync.Once
	closing chan struct{}
}

// writing is one record under way: the Tag that the producer knows.
type writing struct{ Written }

// NewWriter makes sure that the topic exists and can be written to. Largest is the size
// of the largest record to come.
func NewWriter(ctx context.Context, o Options, topic string, largest int) (*Writer, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if err := topicExists(ctx, o.config("write"), o.Brokers, topic); err != nil {
		return nil, err
	}
	room := min(max(writeBytes/(largest+recordOverhead), 1), writeMost)
	w := &Writer{
		topic: topic, room: make(chan struct{}, room), ended: make(chan *writing, room),
		over: make(chan struct{}), results: make(chan Written), closing: make(chan struct{}),
	}
	producer, err := newProducer(ProducerOptions{Options: o, Patience: writePatience}, w.sink, zap.NewNop(), nil)
	if err != nil {
		return nil, err
	}
	producer.loop.placed = placeWritten
	producer.loop.start()
	w.producer = producer
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
// Nothing may be written after Finish or Close.
func (w *Writer) Write(ctx context.Context, r delay.Outgoing) error {
	select {
	case <-w.closing:
		return errProducerClosed
	default:
	}
	select {
	case w.room <- struct{}{}:
	case <-w.closing:
		return errProducerClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	r.Topic = w.topic
	r.Tag = &writing{Written{Tag: r.Tag, Partition: -1, Offset: noOffset}}
	w.producer.Produce(w.topic, []delay.Outgoing{r})
	return nil
}

// placeWritten notes where a batch's records are.
func placeWritten(b *produceBatch) {
	for i := range b.records {
		r := b.records[i].Tag.(*writing)
		r.Partition, r.Timestamp = b.part.index, b.timestamp(i)
		if b.offset != noOffset {
			r.Offset = b.offset + int64(i)
		}
		if b.appendedMS != 0 {
			r.Timestamp = b.appendedMS
		}
	}
}

// sink takes the producer's answers.
func (w *Writer) sink(acks []forward.Ack) {
	for _, a := range acks {
		r := a.Tag.(*writing)
		switch {
		case a.Uncertain:
			r.Err = fmt.Errorf("write to topic %s: it may or may not have been written: %w", w.topic, a.Err)
		case a.Err != nil:
			r.Err = fmt.Errorf("write to topic %s: %w", w.topic, a.Err)
		case r.Offset == noOffset:
			r.Err = fmt.Errorf("write to topic %s: %w", w.topic, errNotPlaced)
		}
		w.ended <- r
	}
}

// Finish says that nothing more will be written. It waits for nothing: the results end
// after the last record's.
func (w *Writer) Finish() { w.finish.Do(func() { go w.end(writeEnd) }) }

// end closes the producer, whose sink is then silent.
func (w *Writer) end(within time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-w.closing:
			cancel()
		case <-stop:
		}
	}()
	_ = w.producer.Close(ctx) // What it did not get done is among the results.
	close(w.over)
}

// Results gives every record's end, and closes after Finish or Close.
func (w *Writer) Results() <-chan Written { return w.results }

// Close ends the writer at once, whether or not its results are still taken: what is
// unanswered by then is in doubt. It may be called again, and after Finish.
func (w *Writer) Close() {
	w.abandon.Do(func() { close(w.closing) })
	w.Finish()
	for range w.results {
		continue // what is left is of no interest
	}
}

// collect passes results on until the producer has ended and all are told.
func (w *Writer) collect() {
	defer close(w.results)
	for {
		select {
		case r := <-w.ended:
			w.give(r)
		case <-w.over:
			for len(w.ended) > 0 {
				w.give(<-w.ended)
			}
			return
		}
	}
}

func (w *Writer) give(r *writing) {
	select {
	case w.results <- r.Written:
	case <-w.closing:
	}
	<-w.room
}
