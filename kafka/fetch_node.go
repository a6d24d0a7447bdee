package kafka

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

const (
	// shortWait is the long poll's wait while some partition is about to join it: a
	// record that arrives for that one meanwhile is read this much later at most.
	shortWait = 25 * time.Millisecond
	// joinWait is how long a long poll is held back for partitions that have just been
	// answered. A receiver that is not busy takes its batch within microseconds, and
	// then the poll goes out with all of them.
	joinWait = 2 * time.Millisecond
	// motionTime is how long after an answer a partition counts as about to join. One
	// whose receiver is busy for longer must not keep everybody's polls short.
	motionTime = 500 * time.Millisecond
	// statusInterval is how often a partition without news is answered nevertheless.
	statusInterval = 3 * time.Second
	// suspectAfter is the silence, beyond what the broker may wait, after which it is
	// in trouble. A full response over a slow network must fit.
	suspectAfter = 3 * time.Second
)

// poll is how a partition wants to be fetched.
type poll uint8

const (
	// pollQuick is answered at once: there should be something.
	pollQuick poll = iota
	// pollAlone is quick in a request of its own: the broker then returns one batch of
	// whatever size, and if the response cannot be decoded, it is clear whose fault it is.
	pollAlone
	// pollTail waits for records to arrive.
	pollTail
)

// wish is one partition's place at a node: at most one fetch at a time is asked for and
// answered. The stream fills it before handing it over, and reads it after the answer.
type wish struct {
	topic     string
	partition int32
	poll      poll
	past      bool // reads again what was read before
	from      int64
	bytes     int32
	// bounds, and heard when the stream last heard of them: a tail poll is answered
	// when they change, or after statusInterval.
	start, end int64
	heard      time.Time
	reply      chan answer // capacity 1: answering never blocks
	gone       bool        // guarded by the node's mu: nobody wants the answer
}

// answer is what became of a wish.
type answer struct {
	part *part
	err  error // no usable response
}

// node reads from one broker, over up to three connections. One carries long polls, for all
// partitions that are at their end. The other never waits: it is for partitions that
// lag, so that they do not wait for the idle ones, and what is big does not hold up
// what is fresh. The third is opened for records whose payloads were given up, so that
// neither of the others waits for those.
type node struct {
	addr  string
	opts  FetchOptions
	quick *poller
	tail  *poller
	past  *poller
	aside chan connection // the one connection for questions, held by whoever asks

	mu     sync.Mutex          // guards what follows and the pollers' waiting and sent
	motion map[*wish]time.Time // answered lately and not back in the long poll
}

func newNode(o FetchOptions, conf *sarama.Config, addr string, m *fetchMetrics) *node {
	n := &node{addr: addr, opts: o, motion: make(map[*wish]time.Time), aside: make(chan connection, 1)}
	n.aside <- connection{config: conf, addr: addr}
	n.quick = newPoller(n, "quick", conf, m)
	n.tail = newPoller(n, "tail", conf, m)
	n.past = newPoller(n, "past", conf, m)
	return n
}

func (n *node) pollerOf(w *wish) *poller {
	switch {
	case w.past:
		return n.past
	case w.poll == pollTail:
		return n.tail
	}
	return n.quick
}

// ask queues a wish; its answer comes through its reply.
func (n *node) ask(w *wish) {
	p := n.pollerOf(w)
	n.mu.Lock()
	p.waiting = append(p.waiting, w)
	switch p {
	case n.tail:
		delete(n.motion, w)
	case n.quick:
		n.motion[w] = time.Now()
	}
	n.mu.Unlock()
	signal(p.wake)
}

// forget withdraws a wish, also one that is under way.
func (n *node) forget(w *wish) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w.gone = true
	delete(n.motion, w)
	for _, p := range []*poller{n.quick, n.tail, n.past} {
		p.waiting = slices.DeleteFunc(p.waiting, func(o *wish) bool { return o == w })
	}
}

// bounds asks the broker for a partition's bounds, over a connection that is opened for
// the purpose: it is rare, and the pollers' are busy.
func (n *node) bounds(ctx context.Context, topic string, partition int32) (Bounds, error) {
	select {
	case conn := <-n.aside:
		defer func() {
			conn.close()
			n.aside <- conn
		}()
		all, err := listBounds(ctx, &conn, topic, partition)
		return all[partition], err
	case <-ctx.Done():
		return Bounds{}, context.Cause(ctx)
	}
}

// silent says that the broker owes the answer that this wish waits for, or waits
// behind, for too long.
func (n *node) silent(w *wish, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pollerOf(w)
	return !p.sent.IsZero() && now.Sub(p.sent) > p.maxWait+suspectAfter
}

// moving counts the partitions in motion. The caller holds mu.
func (n *node) moving(now time.Time) int {
	for w, at := range n.motion {
		if now.Sub(at) > motionTime {
			delete(n.motion, w)
		}
	}
	return len(n.motion)
}

// poller makes one request after the other over one connection.
type poller struct {
	node    *node
	name    string // a label of metrics
	tail    bool
	conn    connection
	metrics *fetchMetrics
	wake    chan struct{}
	maxWait time.Duration
	// shrink halves the limits that often. A response that does not arrive within the
	// timeout would not arrive the next time either.
	shrink int

	// Guarded by the node's mu.
	waiting []*wish
	sent    time.Time // of the request under way; zero: none
}

func newPoller(n *node, name string, conf *sarama.Config, m *fetchMetrics) *poller {
	p := &poller{
		node: n, name: name, tail: name == "tail", metrics: m, wake: make(chan struct{}, 1),
		conn: connection{config: conf, addr: n.addr},
	}
	if p.tail {
		p.maxWait = n.opts.MaxWait
	}
	return p
}

func (p *poller) run(ctx context.Context) {
	defer p.conn.close()
	for {
		wishes, wait := p.next(ctx)
		if wishes == nil {
			return
		}
		resp, err := p.fetch(ctx, wishes, wait)
		p.answer(wishes, resp, err, time.Now())
	}
}

// next waits for wishes to fetch and says how long the broker may wait; nil when ctx
// ended. A long poll lets partitions join that are in motion, for joinWait.
func (p *poller) next(ctx context.Context) ([]*wish, time.Duration) {
	n := p.node
	var held *time.Timer
	due := false
	for {
		var expired <-chan time.Time
		n.mu.Lock()
		now := time.Now()
		p.sent = time.Time{}
		if len(p.waiting) > 0 {
			moving := 0
			if p.tail {
				moving = n.moving(now)
			}
			if moving == 0 || due {
				p.sent = now
				wishes := p.take()
				n.mu.Unlock()
				if moving > 0 {
					return wishes, min(shortWait, p.maxWait)
				}
				return wishes, p.maxWait
			}
			if held == nil {
				held = time.NewTimer(joinWait)
				defer held.Stop()
			}
			expired = held.C
		}
		n.mu.Unlock()
		select {
		case <-p.wake:
		case <-expired:
			due = true
		case <-ctx.Done():
			return nil, 0
		}
	}
}

// take picks the wishes of the next request: all for a long poll; for a quick one, in
// the order they came, one that wants to be alone, or as many as can have their full
// share of the response: brokers fill responses from the front, and the rest of a
// longer list would go empty. The caller holds the node's mu.
func (p *poller) take() []*wish {
	room := int64(p.node.opts.MaxBytes)
	if p.tail {
		room = math.MaxInt64
	}
	alone := p.waiting[0].poll == pollAlone
	var taken, left []*wish
	for _, w := range p.waiting {
		if len(taken) == 0 || !alone && w.poll != pollAlone && int64(w.bytes) <= room {
			taken = append(taken, w)
			room -= int64(w.bytes)
		} else {
			left = append(left, w)
		}
	}
	p.waiting = left
	return taken
}
