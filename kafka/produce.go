package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"delay-scheduler/delay"
	"delay-scheduler/forward"
)

// Defaults of ProducerOptions.
const (
	// DefaultBatchBytes stays below the 1048588 bytes that a broker takes by default,
	// with room for what the batch adds around its records.
	DefaultBatchBytes = 900_000
	// DefaultBatchRecords bounds the work that one refused record causes.
	DefaultBatchRecords = 20_000
	// DefaultProduceTimeout is how long a broker may wait for its replicas.
	DefaultProduceTimeout = 10 * time.Second
	// DefaultPatience is longer than a leader election and shorter than anybody wants
	// to wait before hearing that a target is in trouble.
	DefaultPatience = 3 * time.Second
	// DefaultSlowAfter is far above what a healthy acknowledgement takes.
	DefaultSlowAfter = 250 * time.Millisecond
)

// ProducerOptions say how records are produced. Zero values mean the defaults.
type ProducerOptions struct {
	Options
	// Compression is none, gzip, snappy, lz4 or zstd. Empty: none.
	Compression string
	// Linger is how long a small batch for an idle partition waits for company.
	Linger time.Duration
	// MaxBatchBytes and MaxBatchRecords are where a batch is cut. A record that is
	// larger travels alone: only the broker knows its limit, which is on the size after
	// compression.
	MaxBatchBytes   int
	MaxBatchRecords int
	// RequestTimeout is how long a broker may wait for its in-sync replicas before it
	// answers that it does not know. A broker that has not answered at all somewhat
	// later has its connection closed.
	RequestTimeout time.Duration
	// Patience is how long what is certainly in no log is tried before it is given
	// back as transient. What may be in a log is tried until the answer is definite.
	Patience time.Duration
	// SlowAfter is when an unanswered request is taken for slow, and what it holds up
	// is sent on another connection.
	SlowAfter time.Duration
}

// withDefaults fills in what was left out.
func (o ProducerOptions) withDefaults() ProducerOptions {
	def := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.RequestTimeout, DefaultProduceTimeout)
	def(&o.Patience, DefaultPatience)
	def(&o.SlowAfter, DefaultSlowAfter)
	if o.MaxBatchBytes == 0 {
		o.MaxBatchBytes = DefaultBatchBytes
	}
	if o.MaxBatchRecords == 0 {
		o.MaxBatchRecords = DefaultBatchRecords
	}
	return o
}

// validate names everything that is wrong with the options.
func (o ProducerOptions) validate() error {
	errs := []error{o.Options.validate()}
	if _, ok := produceCodecs[o.Compression]; !ok {
		errs = append(errs, fmt.Errorf("compression %q is none of none, gzip, snappy, lz4, zstd", o.Compression))
	}
	if o.MaxBatchBytes < 0 || o.MaxBatchRecords < 0 {
		errs = append(errs, fmt.Errorf("batch limits of %d bytes and %d records are negative", o.MaxBatchBytes, o.MaxBatchRecords))
	}
	if durations := []time.Duration{o.Linger, o.RequestTimeout, o.Patience, o.SlowAfter}; slices.Min(durations) < 0 {
		errs = append(errs, fmt.Errorf("a duration of the producer is negative: %v", slices.Min(durations)))
	}
	return errors.Join(errs...)
}

// produceCodecs are the compressions by name.
var produceCodecs = map[string]sarama.CompressionCodec{
	"":       sarama.CompressionNone,
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

// Producer writes records with acknowledgement by all in-sync replicas, each exactly
// once as far as the brokers can tell. See produce_loop.go for how it works.
type Producer struct {
	loop *produceLoop
	once sync.Once // the first Close says that the end has begun
}

var _ forward.Producer = (*Producer)(nil)

// NewProducer makes a producer and connects to nothing yet: a cluster that is down
// when we start is trouble of the targets, not a reason to fail. The sink is called
// from one goroutine of the producer.
func NewProducer(o ProducerOptions, sink forward.Sink, log *zap.Logger, reg prometheus.Registerer) (*Producer, error) {
	p, err := newProducer(o, sink, log, reg)
	if err == nil {
		p.loop.start()
	}
	return p, err
}

// newProducer makes one that is not started.
func newProducer(o ProducerOptions, sink forward.Sink, log *zap.Logger, reg prometheus.Registerer) (*Producer, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("make producer: %w", err)
	}
	return &Producer{loop: newProduceLoop(o, sink, log.Named("producer"), newProduceMetrics(reg))}, nil
}

// Produce implements forward.Producer.
func (p *Producer) Produce(topic string, records []delay.Outgoing) {
	if len(records) > 0 {
		p.loop.inbox.add(topic, records, time.Now().UnixMilli())
	}
}

// Resolve implements forward.Producer. It also ends the time in which records for a
// topic that was in trouble come back at once: whoever asks has seen the trouble. And it
// connects to the topic's leaders: whoever asks is going to send.
func (p *Producer) Resolve(ctx context.Context, topic string) *forward.Error {
	view, err := p.loop.locator.ask(ctx, topic)
	if err != nil {
		return &forward.Error{Class: forward.Transient, Err: fmt.Errorf("look up topic %s: %w", topic, err)}
	}
	// The view went into the inbox before we heard of it; this comes after it, and
	// after everything that was produced before the question.
	p.loop.inbox.post(func(now time.Time) {
		p.loop.forgive(topic)
		p.loop.greet(topic, now)
	})
	return view.refusal()
}

// Close takes nothing more and waits until everything is acknowledged or ctx ends. What
// is then unanswered is reported as uncertain, what was never sent as refused. It may
// be called more than once.
func (p *Producer) Close(ctx context.Context) error {
	l := p.loop
	p.once.Do(func() { l.inbox.post(l.beginClose) })
	select {
	case <-l.ended:
	case <-ctx.Done():
		l.inbox.post(l.abandon)
		<-l.ended
	}
	l.wg.Wait()
	l.locator.brokers.close()
	if n := l.abandoned; n > 0 {
		return fmt.Errorf("close producer: %d records were not acknowledged: %w", n, context.Cause(ctx))
	}
	return nil
}
