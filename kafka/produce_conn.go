package kafka

import (
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
)

// pipeline is how many requests may be unanswered on a connection. The broker works on
// one at a time; the others hide the way there and back.
const pipeline = 5

// produceConn is one connection for produce requests. Its goroutine connects, encodes
// and writes; the library's reads the answers. Everything else about it belongs to the
// loop.
type produceConn struct {
	node     *produceNode
	link     *produceLink
	requests chan *produceRequest // capacity pipeline, so that the loop never blocks
	quit     chan struct{}        // closed by the loop: no request will follow

	up         bool
	dead       bool
	slow       bool              // for one request at a time, of what is slow
	sent       []*produceRequest // unanswered, in order
	lastAnswer time.Time
	lastUse    time.Time
}

// produceRequest is one request and what is in it.
type produceRequest struct {
	conn   *produceConn
	parts  []produceAttempt
	bytes  int
	sentAt time.Time
	state  atomic.Int32
	alone  bool // nothing else is unanswered on the connection
	// disbanded: its partitions were sent again, each by itself.
	disbanded bool
}

// produceAttempt is one sending of a batch. Identity and sequence are copies, because
// the loop may renumber the batch while an earlier attempt is still being written.
type produceAttempt struct {
	batch *produceBatch
	try   int // of the batch's tries
	id    produceIdentity
	seq   int32
}

// States of a request. The sender takes it, or the loop takes it back, never both.
const (
	requestWaiting int32 = iota
	requestTaken
	requestRevoked
)

// revoke takes back what has not been written yet.
func (r *produceRequest) revoke() bool {
	return r.state.CompareAndSwap(requestWaiting, requestRevoked)
}

// produceAnswer is what came of a request.
type produceAnswer struct {
	resp    *sarama.ProduceResponse
	err     error
	written bool // bytes left us
}

// free says whether another request may be handed over.
func (c *produceConn) free() bool {
	limit := pipeline
	if c.slow {
		limit = 1
	}
	return c.up && !c.dead && len(c.sent) < limit
}

// headSince is since when the connection owes us the next answer.
func (c *produceConn) headSince() time.Time {
	since := c.sent[0].sentAt
	for _, t := range []time.Time{c.lastAnswer, c.node.throttledUntil} {
		if t.After(since) {
			since = t
		}
	}
	return since
}

// forget removes a request that is answered or revoked.
func (c *produceConn) forget(r *produceRequest) {
	if i := slices.Index(c.sent, r); i >= 0 {
		c.sent = slices.Delete(c.sent, i, i+1)
	}
}

// run is the connection's goroutine.
func (l *produceLoop) run(c *produceConn) {
	l.metrics.connections.Inc()
	defer l.metrics.connections.Dec()
	err := c.link.open(l.handshake)
	l.inbox.post(func(now time.Time) { l.opened(c, err, now) })
	for open := true; open; {
		select {
		case r := <-c.requests:
			l.transmit(c, r)
		case <-c.quit:
			open = false
		}
	}
	c.link.close()
	// The loop hands nothing over after closing quit, so this is all there can be.
	for len(c.requests) > 0 {
		l.transmit(c, <-c.requests)
	}
}

// transmit writes one request. The library has encoded it when AsyncProduce begins to
// write, so nothing of the slab is needed after that, and it answers exactly once: by
// the callback or by the error.
func (l *produceLoop) transmit(c *produceConn, r *produceRequest) {
	if !r.state.CompareAndSwap(requestWaiting, requestTaken) {
		return
	}
	if r.alone && c.link.hungUp() {
		l.answer(r, produceAnswer{err: io.EOF})
		return
	}
	slab := recordSlabs.Get().(*recordSlab)
	before := c.link.written.Load()
	err := c.link.broker.AsyncProduce(l.encode(r, slab), func(resp *sarama.ProduceResponse, err error) {
		l.answer(r, produceAnswer{resp: resp, err: err, written: true})
	})
	slab.release()
	if err != nil {
		l.answer(r, produceAnswer{err: err, written: c.link.written.Load() != before})
	}
}

func (l *produceLoop) answer(r *produceRequest, a produceAnswer) {
	if a.err != nil && !a.written {
		a.err = fmt.Errorf("%w: %w", errNotSent, a.err)
	}
	l.inbox.post(func(now time.Time) { l.answered(r, a, now) })
}

// encode makes the client's form of a request.
func (l *produceLoop) encode(r *produceRequest, slab *recordSlab) *sarama.ProduceRequest {
	req := &sarama.ProduceRequest{
		RequiredAcks: sarama.WaitForAll,
		Timeout:      int32(l.opts.RequestTimeout / time.Millisecond),
		Version:      produceVersion(l.config.Version),
	}
	records, headers := 0, 0
	for i := range r.parts {
		records += len(r.parts[i].batch.records)
		headers += r.parts[i].batch.headers
	}
	slab.grow(records, headers)
	for i := range r.parts {
		part := r.parts[i].batch.part
		req.AddBatch(part.topic.name, part.index, slab.build(&r.parts[i], l.codec))
	}
	return req
}

// produceVersion is the newest version of the request that the configured protocol
// version allows; each broker may lower it.
func produceVersion(v sarama.KafkaVersion) int16 {
	switch {
	case v.IsAtLeast(sarama.V2_8_0_0):
		return 9
	case v.IsAtLeast(sarama.V2_4_0_0):
		return 8
	case v.IsAtLeast(sarama.V2_1_0_0):
		return 7
	default:
		return 3
	}
}
