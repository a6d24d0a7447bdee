package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"delay-scheduler/delay"
	"delay-scheduler/forward"
	"delay-scheduler/kafka"
)

// What a record of ours has. With the two headers that make it a delayed one it has
// three, and as many when it was forwarded: two are consumed, two are added.
const (
	valueBytes = 200
	keyBytes   = 14
	traceBytes = 16
	dueDigits  = 13 // of an epoch time in ms
)

const (
	// inFlight is what may be sent and not yet acknowledged, the product's own default.
	inFlight = 32 << 20
	// parcelRecords are accounted together.
	parcelRecords = 512
	// overhead of a record in a batch, roughly.
	overhead = 20
	// linger is the product's default for forwarding.
	linger = 5 * time.Millisecond
)

// recipe makes records. They differ in key and value; a value begins with the due time,
// so that lateness can be told without believing what the product writes.
type recipe struct {
	target string
	due    func() int64 // epoch ms of the next one
}

// make makes records number from, from+1, ... They share two allocations.
func (r recipe) make(from, n int) []delay.Outgoing {
	records, headers := make([]delay.Outgoing, n), make([]delay.Header, 0, 3*n)
	bytes := make([]byte, 0, n*(keyBytes+valueBytes+traceBytes+dueDigits))
	cut := func(fill func([]byte) []byte) []byte {
		start := len(bytes)
		bytes = fill(bytes)
		return bytes[start:len(bytes):len(bytes)]
	}
	target := []byte(r.target)
	for i := range records {
		number := from + i
		key := cut(func(b []byte) []byte { return fmt.Appendf(b, "key-%010d", number) })
		due := cut(func(b []byte) []byte { return strconv.AppendInt(b, r.due(), 10) })
		value := cut(func(b []byte) []byte {
			b = append(b, due...)
			return noise(b, uint64(number), valueBytes-len(due))
		})
		trace := cut(func(b []byte) []byte { return noise(b, ^uint64(number), traceBytes) })
		headers = append(headers,
			delay.Header{Key: []byte("trace-id"), Value: trace},
			delay.Header{Key: []byte(delay.HeaderTargetTopic), Value: target},
			delay.Header{Key: []byte(delay.HeaderDeliverAt), Value: due})
		records[i] = delay.Outgoing{Key: key, Value: value, Headers: headers[3*i : 3*i+3 : 3*i+3]}
	}
	return records
}

// noise appends n bytes that do not repeat (SplitMix64).
func noise(b []byte, seed uint64, n int) []byte {
	for end := len(b) + n; len(b) < end; {
		seed += 0x9e3779b97f4a7c15
		z := seed
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], z^z>>31)
		b = append(b, word[:min(8, end-len(b))]...)
	}
	return b
}

// payload is what the records' own bytes come to.
func payload(records []delay.Outgoing) (n int64) {
	for i := range records {
		r := &records[i]
		n += int64(len(r.Key) + len(r.Value))
		for _, h := range r.Headers {
			n += int64(len(h.Key) + len(h.Value))
		}
	}
	return n
}

// sender writes through the product's own producer, with as much in flight as the
// product allows itself. Send may be called by several goroutines.
type sender struct {
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

func newSender(c *cluster) (*sender, error) {
	s := &sender{room: semaphore.NewWeighted(inFlight)}
	var err error
	s.producer, err = kafka.NewProducer(kafka.ProducerOptions{Options: c.options(), Linger: linger}, s.acks, zap.NewNop(), nil)
	return s, err
}

// send queues records, and waits for room first.
func (s *sender) send(ctx context.Context, topic string, records []delay.Outgoing) error {
	for len(records) > 0 {
		some := records[:min(parcelRecords, len(records))]
		records = records[len(some):]
		p := &parcel{bytes: min(payload(some)+int64(len(some))*overhead, inFlight)}
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

func (s *sender) acks(acks []forward.Ack) {
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

func (s *sender) problem() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// close waits until everything is acknowledged.
func (s *sender) close(ctx context.Context) error {
	err := s.producer.Close(ctx)
	return errors.Join(s.problem(), err)
}

// load writes n records to a topic and gives what their own bytes come to.
func (b *bench) load(ctx context.Context, topic string, n int, r recipe) (bytes int64, err error) {
	s, err := newSender(b.cluster)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	began := time.Now()
	for from := 0; from < n; from += parcelRecords {
		records := r.make(from, min(parcelRecords, n-from))
		bytes += payload(records)
		if err := s.send(ctx, topic, records); err != nil {
			return bytes, fmt.Errorf("write record %d of %d to %s: %w", from, n, topic, err)
		}
	}
	if err := s.close(ctx); err != nil {
		return bytes, fmt.Errorf("write %d records to %s: %w", n, topic, err)
	}
	b.say("  %d records written in %v", n, time.Since(began).Round(10*time.Millisecond))
	return bytes, nil
}

// patience is how long anything with n records may take before it counts as failed.
func patience(n int) time.Duration {
	return time.Minute + time.Duration(n)*time.Second/2000
}
