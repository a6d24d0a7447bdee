package measure

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"delay-scheduler/delay"
	"delay-scheduler/forward"
	"delay-scheduler/kafka"
)

const (
	// InFlight is what a Sender has sent and not yet acknowledged at most, in bytes: the
	// scheduler's own default.
	InFlight = 32 << 20
	// parcelRecords are accounted together.
	parcelRecords = 512
	// overhead of a record in a batch, roughly.
	overhead = 20
)

// Sender writes through the scheduler's own producer, with as much in flight as the
// scheduler allows itself. Send may be called by several goroutines.
type Sender struct {
	producer *kafka.Producer
	room     *semaphore.Weighted

	mu     sync.Mutex // guards failed
	failed error      // the first refusal
}

// parcel is some records that are accounted together; it is their tag.
type parcel struct {
	bytes int64
	left  atomic.Int64
}

// NewSender makes a sender that has no connection yet.
func NewSender(o kafka.ProducerOptions) (*Sender, error) {
	s := &Sender{room: semaphore.NewWeighted(InFlight)}
	var err error
	s.producer, err = kafka.NewProducer(o, s.acks, zap.NewNop(), nil)
	return s, err
}

// Send queues records, and waits for room first. It tags them. The error is the first
// refusal that came back, of whatever record.
func (s *Sender) Send(ctx context.Context, topic string, records []delay.Outgoing) error {
	for len(records) > 0 {
		some := records[:min(parcelRecords, len(records))]
		records = records[len(some):]
		p := &parcel{bytes: min(Payload(some)+int64(len(some))*overhead, InFlight)}
		p.left.Store(int64(len(some)))
		for i := range some {
			some[i].Tag = p
		}
		if err := s.room.Acquire(ctx, p.bytes); err != nil {
			return errors.Join(s.problem(), context.Cause(ctx))
		}
		s.producer.Produce(topic, some)
	}
	return s.problem()
}

func (s *Sender) acks(acks []forward.Ack) {
	for i := range acks {
		if err := acks[i].Err; err != nil {
			s.mu.Lock()
			if s.failed == nil {
				s.failed = err
			}
			s.mu.Unlock()
		}
		if p := acks[i].Tag.(*parcel); p.left.Add(-1) == 0 {
			s.room.Release(p.bytes)
		}
	}
}

func (s *Sender) problem() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// Resolve waits until a topic can be written to.
func (s *Sender) Resolve(ctx context.Context, topic string) error {
	if err := s.producer.Resolve(ctx, topic); err != nil {
		return err
	}
	return nil
}

// Close waits until everything is acknowledged, or ctx ends. It may be called again.
func (s *Sender) Close(ctx context.Context) error {
	err := s.producer.Close(ctx)
	return errors.Join(s.problem(), err)
}

// Payload is what the records' keys, values and headers come to, in bytes.
func Payload(records []delay.Outgoing) (n int64) {
	for i := range records {
		r := &records[i]
		n += int64(len(r.Key) + len(r.Value))
		for _, h := range r.Headers {
			n += int64(len(h.Key) + len(h.Value))
		}
	}
	return n
}
