package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"delay-scheduler/delay"
	"delay-scheduler/kafka"
	"delay-scheduler/measure"
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
	inFlight = measure.InFlight
	// parcelRecords are made together.
	parcelRecords = 512
	// linger is the product's default for forwarding.
	linger = 5 * time.Millisecond
)

// recipe makes records. They differ in key and value; a value begins with the due time,
// so that lateness can be told without believing what the product writes.
type recipe struct {
	target string
	due    func() int64 // epoch ms of the next one
	// size is the length of a value, by the record's number. Nil: valueBytes.
	size func(number int) int
}

func (r recipe) valueBytes(number int) int {
	if r.size == nil {
		return valueBytes
	}
	return r.size(number)
}

// make makes records number from, from+1, ... They share two allocations.
func (r recipe) make(from, n int) []delay.Outgoing {
	records, headers := make([]delay.Outgoing, n), make([]delay.Header, 0, 3*n)
	room := n * (keyBytes + traceBytes + dueDigits)
	for i := range n {
		room += r.valueBytes(from + i)
	}
	bytes := make([]byte, 0, room)
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
			return measure.Noise(b, uint64(number), r.valueBytes(number)-len(due))
		})
		trace := cut(func(b []byte) []byte { return measure.Noise(b, ^uint64(number), traceBytes) })
		headers = append(headers,
			delay.Header{Key: []byte("trace-id"), Value: trace},
			delay.Header{Key: []byte(delay.HeaderTargetTopic), Value: target},
			delay.Header{Key: []byte(delay.HeaderDeliverAt), Value: due})
		records[i] = delay.Outgoing{Key: key, Value: value, Headers: headers[3*i : 3*i+3 : 3*i+3]}
	}
	return records
}

// newSender is the product's own producer with nothing in front of it.
func newSender(c *cluster) (*measure.Sender, error) {
	return measure.NewSender(kafka.ProducerOptions{Options: c.options(), Linger: linger})
}

// load writes n records to a topic and gives what their own bytes come to.
func (b *bench) load(ctx context.Context, topic string, n int, r recipe) (bytes int64, err error) {
	return b.loadFrom(ctx, topic, 0, n, r)
}

// loadFrom writes n records, the first of which has that number.
func (b *bench) loadFrom(ctx context.Context, topic string, first, n int, r recipe) (bytes int64, err error) {
	s, err := newSender(b.cluster)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	began := time.Now()
	for from := 0; from < n; from += parcelRecords {
		records := r.make(first+from, min(parcelRecords, n-from))
		bytes += measure.Payload(records)
		if err := s.Send(ctx, topic, records); err != nil {
			return bytes, fmt.Errorf("write record %d of %d to %s: %w", from, n, topic, err)
		}
	}
	if err := s.Close(ctx); err != nil {
		return bytes, fmt.Errorf("write %d records to %s: %w", n, topic, err)
	}
	b.say("  %d records written in %v", n, time.Since(began).Round(10*time.Millisecond))
	return bytes, nil
}

// patience is how long anything with n records may take before it counts as failed.
func patience(n int) time.Duration {
	return time.Minute + time.Duration(n)*time.Second/2000
}
