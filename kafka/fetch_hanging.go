package kafka

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/IBM/sarama"

	"delay-scheduler/scheduler"
)

// DefaultHangingAfter is for how long the last stable offset may stand still below the
// log's end. An application that lives ends its transactions within seconds, and the
// brokers those of one that does not after its transaction.timeout.ms, a minute unless
// it is set otherwise.
const DefaultHangingAfter = 30 * time.Second

// hanging watches the last stable offset of one partition: what was written after a
// transaction that is still open cannot be read, however long that takes.
type hanging struct {
	at       int64     // where the transaction begins
	since    time.Time // when it was first seen there; zero: none is open
	known    bool      // it was asked whose it is
	producer int64     // -1: it could not be found out
}

// observe takes what a fetch said of the log's end.
func (h *hanging) observe(p *part, now time.Time) {
	switch {
	case p.LastStableOffset < 0 || p.LastStableOffset >= p.HighWaterMarkOffset:
		*h = hanging{}
	case h.since.IsZero() || h.at != p.LastStableOffset:
		*h = hanging{at: p.LastStableOffset, since: now, producer: -1}
	}
}

// transaction is the one that hangs, nil if none does.
func (h *hanging) transaction(after time.Duration, now time.Time) *scheduler.Transaction {
	if h.since.IsZero() || now.Sub(h.since) < after {
		return nil
	}
	return &scheduler.Transaction{Offset: h.at, ProducerID: h.producer, Open: now.Sub(h.since)}
}

// watchTransactions notes what a fetch said, and asks once whose transaction hangs.
func (s *stream) watchTransactions(ctx context.Context, p *part) {
	h := &s.hanging
	h.observe(p, time.Now())
	if h.known || h.transaction(s.fetcher.opts.HangingAfter, time.Now()) == nil {
		return
	}
	h.known = true
	if id, err := s.node.producerAt(ctx, s.topic, s.partition, h.at); err == nil {
		h.producer = id
	}
}

var errNoBatch = errors.New("there is no batch")

// producerAt asks who wrote the batch at an offset, whether it is committed or not.
func (n *node) producerAt(ctx context.Context, topic string, partition int32, offset int64) (int64, error) {
	select {
	case conn := <-n.aside:
		defer func() {
			conn.close()
			n.aside <- conn
		}()
		return producerAt(ctx, &conn, topic, partition, offset)
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

func producerAt(ctx context.Context, conn *connection, topic string, partition int32, offset int64) (int64, error) {
	p, err := fetchPart(ctx, conn, topic, partition, offset, sarama.ReadUncommitted)
	if err != nil {
		return 0, err
	}
	for rest := p.records; ; {
		var b *batch
		if b, rest, err = nextBatch(rest); b == nil {
			return 0, cmp.Or(err, errNoBatch)
		}
		if b.last >= offset {
			return b.producer, nil
		}
	}
}
