package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"
)

// maxShrink keeps limits at 1/64 of what is configured, 16 KiB of 1 MiB.
const maxShrink = 6

// errUndecodable says that a response came and made no sense to the client library. A
// partition's log may be damaged, and the response of all its neighbours with it.
var errUndecodable = errors.New("the response cannot be decoded")

// fetch makes one request for all wishes.
func (p *poller) fetch(ctx context.Context, wishes []*wish, wait time.Duration) (*fetched, error) {
	req := &sarama.FetchRequest{
		Version: 11, SessionEpoch: -1, Isolation: sarama.ReadCommitted,
		MinBytes: 1, MaxWaitTime: int32(wait / time.Millisecond), MaxBytes: p.node.opts.MaxBytes >> p.shrink,
	}
	for _, w := range wishes {
		// Leader epoch unknown: a broker that is not the leader says so anyhow, and an
		// epoch remembered across the deletion of a topic would be refused for ever.
		req.AddBlock(w.topic, w.partition, w.from, w.bytes>>p.shrink, -1)
		req.MaxBytes = max(req.MaxBytes, w.bytes>>p.shrink)
	}
	resp, err := p.conn.fetch(ctx, wait+requestTimeout, req)
	p.metrics.requests.WithLabelValues(p.name).Inc()
	switch {
	case err == nil && resp.ErrorCode != 0:
		err = sarama.KError(resp.ErrorCode)
	case err == nil:
		p.shrink = max(0, p.shrink-1)
	case !isTransport(err):
		err = fmt.Errorf("%w: %w", errUndecodable, err)
	case isTimeout(err):
		p.shrink = min(maxShrink, p.shrink+1)
	}
	return resp, err
}

// answer hands each wish its part, or puts it back into the long poll if there is
// nothing to tell.
func (p *poller) answer(wishes []*wish, resp *fetched, err error, now time.Time) {
	n := p.node
	var done []*wish
	var answers []answer
	n.mu.Lock()
	for _, w := range wishes {
		if w.gone {
			continue
		}
		a := answer{err: err}
		if err == nil {
			a.part = resp.part(w.topic, w.partition)
			if p.quiet(w, a.part, resp, now) {
				p.waiting = append(p.waiting, w)
				continue
			}
			if a.part == nil {
				a.err = sarama.ErrIncompleteResponse
			}
			if !w.past {
				n.motion[w] = now
			}
		}
		done, answers = append(done, w), append(answers, a)
	}
	n.mu.Unlock()
	// Only now: the stream may ask again at once, and ask takes the lock.
	for i, w := range done {
		w.reply <- answers[i]
	}
}

// quiet says that a wish need not be answered.
func (p *poller) quiet(w *wish, part *part, resp *fetched, now time.Time) bool {
	if part == nil {
		// A throttled response is empty.
		return resp.ThrottleTime > 0
	}
	return p.tail && errors.Is(part.Err, sarama.ErrNoError) && part.nothing() &&
		stableEnd(part) == w.end && stableEnd(part) <= w.from && part.LogStartOffset == w.start &&
		now.Sub(w.heard) < statusInterval
}

// stableEnd is the last stable offset; brokers that know no transactions tell none.
func stableEnd(p *part) int64 {
	if p.LastStableOffset < 0 {
		return p.HighWaterMarkOffset
	}
	return p.LastStableOffset
}
