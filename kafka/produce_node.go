package kafka

import (
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"
)

const (
	// requestBytes is where a request is full. Small enough that the next one is
	// encoded while the broker works on this one, large enough that a request costs
	// little beside its records.
	requestBytes = 1 << 20
	// slowConnections is how many connections a broker gets for slow partitions. Up to
	// here each stands alone; beyond, they take turns.
	slowConnections = 8
	// connIdle is how long an unused connection is kept. Brokers close theirs after ten
	// minutes, and a request that meets that has to be sent twice.
	connIdle = 4 * time.Minute
	// slowIdle is the same for the extra ones.
	slowIdle = 30 * time.Second
)

// produceNode is what the loop knows of a broker.
type produceNode struct {
	id   int32
	addr string

	fast    *produceConn   // for everything that is well; nil: none yet
	slow    []*produceConn // one request at a time each
	retired []*produceConn // stuck; they get nothing more

	ready     []*producePartition // wait for fast
	slowReady []*producePartition // wait for one of slow

	dialFailed int // in a row
	dialErr    error
	dialAt     time.Time // not before
	// hindered is since when something waits and no connection is open; zero: not so.
	hindered, slowHindered time.Time

	throttledUntil time.Time
	sick           map[*produceTopic]*produceHealth
	baseline       produceBaseline
	lastFast       time.Time // last answer on fast
	lastRetire     time.Time
	watchAgain     time.Time
}

// learnNode takes a broker's address.
func (l *produceLoop) learnNode(id int32, addr string) {
	n := l.nodes[id]
	if n == nil {
		n = &produceNode{id: id, sick: make(map[*produceTopic]*produceHealth)}
		l.nodes[id] = n
	}
	if n.addr == addr {
		return
	}
	n.addr, n.dialAt = addr, time.Time{}
	for _, c := range n.conns() {
		l.drop(c)
	}
}

// conns are all connections that are not given up.
func (n *produceNode) conns() []*produceConn {
	all := slices.Concat(n.slow, n.retired)
	if n.fast != nil {
		all = append(all, n.fast)
	}
	return all
}

// waiting says whether something waits for a connection.
func (n *produceNode) waiting() bool { return len(n.ready)+len(n.slowReady) > 0 }

// enqueue lets a partition wait for a connection.
func (n *produceNode) enqueue(p *producePartition) {
	p.ready = true
	if n.isolated(p) {
		n.slowReady = append(n.slowReady, p)
	} else {
		n.ready = append(n.ready, p)
	}
}

// isolated says whether a partition has to keep away from the others.
func (n *produceNode) isolated(p *producePartition) bool {
	h := n.sick[p.topic]
	return p.health.slow || h != nil && h.slow
}

// resort puts everything that waits into the right list, after something was found
// slow or well.
func (n *produceNode) resort() {
	all := slices.Concat(n.slowReady, n.ready)
	n.ready, n.slowReady = nil, nil
	seen := make(map[*producePartition]bool, len(all))
	for _, p := range all {
		if p.ready && p.node == n && !seen[p] {
			seen[p] = true
			n.enqueue(p)
		}
	}
}

// front is the first in a list that really waits for this node; those that went
// elsewhere are left in the list until they are met here.
func (n *produceNode) front(list *[]*producePartition) *producePartition {
	for len(*list) > 0 {
		p := (*list)[0]
		if p.ready && p.node == n && p.candidate() != nil {
			return p
		}
		if p.node == n {
			p.ready = false
		}
		popFront(list)
	}
	*list = nil
	return nil
}

func popFront(list *[]*producePartition) {
	(*list)[0] = nil
	*list = (*list)[1:]
}

// dispatch hands over what the connections take.
func (l *produceLoop) dispatch(n *produceNode, now time.Time) {
	if now.Before(n.throttledUntil) {
		return
	}
	for n.front(&n.ready) != nil {
		if n.fast == nil {
			n.fast = l.connect(n, false, now)
		}
		if n.fast == nil || !n.fast.free() {
			break
		}
		r := l.pack(n)
		l.send(n.fast, r, now)
		for i := range r.parts {
			l.pump(r.parts[i].batch.part, now) // its next batch may follow
		}
	}
	for n.front(&n.slowReady) != nil {
		c := l.freeSlow(n, now)
		if c == nil {
			break
		}
		l.send(c, l.packSlow(n), now)
	}
	n.noteHindrance(now)
}

// noteHindrance keeps since when there is no connection for what waits.
func (n *produceNode) noteHindrance(now time.Time) {
	note := func(since *time.Time, hindered bool) {
		switch {
		case !hindered:
			*since = time.Time{}
		case since.IsZero():
			*since = now
		}
	}
	isUp := func(c *produceConn) bool { return c.up }
	note(&n.hindered, len(n.ready) > 0 && (n.fast == nil || !n.fast.up))
	note(&n.slowHindered, len(n.slowReady) > 0 && !slices.ContainsFunc(n.slow, isUp))
}

// freeSlow finds an idle connection for something slow, or begins to open one.
func (l *produceLoop) freeSlow(n *produceNode, now time.Time) *produceConn {
	opening := 0
	for _, c := range n.slow {
		if c.free() {
			return c
		}
		if !c.up {
			opening++
		}
	}
	if opening < len(n.slowReady) && len(n.slow) < slowConnections {
		if c := l.connect(n, true, now); c != nil {
			n.slow = append(n.slow, c)
		}
	}
	return nil
}

// pack takes from the ready list what one request holds.
func (l *produceLoop) pack(n *produceNode) *produceRequest {
	r := new(produceRequest)
	for p := n.front(&n.ready); p != nil; p = n.front(&n.ready) {
		if len(r.parts) > 0 && r.bytes+p.candidate().bytes > requestBytes {
			break
		}
		popFront(&n.ready)
		l.include(r, p)
	}
	return r
}

// packSlow takes one slow partition, or what waits of one slow topic.
func (l *produceLoop) packSlow(n *produceNode) *produceRequest {
	r := new(produceRequest)
	first := n.front(&n.slowReady)
	rest := n.slowReady[:0]
	for i, p := range n.slowReady {
		joins := i == 0 || !first.health.slow && !p.health.slow && p.topic == first.topic &&
			p.ready && p.node == n && p.candidate() != nil && r.bytes+p.candidate().bytes <= requestBytes
		if joins {
			l.include(r, p)
		} else {
			rest = append(rest, p)
		}
	}
	clear(n.slowReady[len(rest):])
	n.slowReady = rest
	return r
}

// include puts a partition's next batch into a request.
func (l *produceLoop) include(r *produceRequest, p *producePartition) {
	p.ready = false
	b := p.candidate()
	p.advance(b, l.identity)
	if b.tries > 1 {
		l.metrics.retries.Inc()
	}
	r.parts = append(r.parts, produceAttempt{batch: b, try: b.tries, id: b.id, seq: b.seq})
	r.bytes += b.bytes
	l.metrics.batchBytes.Observe(float64(b.bytes))
}

// send hands a request to a connection that is free.
func (l *produceLoop) send(c *produceConn, r *produceRequest, now time.Time) {
	ms := now.UnixMilli()
	for i := range r.parts {
		b := r.parts[i].batch
		if b.stampMS == 0 {
			// The wall clock may have been set back since the record was handed to us.
			b.stampMS = max(ms, b.floorMS)
		}
		b.part.via, b.part.sentAt, b.part.overdue = c, now, false
	}
	r.conn, r.sentAt, r.alone = c, now, len(c.sent) == 0
	c.sent = append(c.sent, r)
	c.lastUse = now
	l.metrics.requests.Inc()
	c.requests <- r
}

// connect begins to open a connection, unless the last attempt was too recent.
func (l *produceLoop) connect(n *produceNode, slow bool, now time.Time) *produceConn {
	if now.Before(n.dialAt) {
		return nil
	}
	c := &produceConn{
		node: n, slow: slow, lastUse: now,
		link:     newProduceLink(n.addr, l.config),
		requests: make(chan *produceRequest, pipeline),
		quit:     make(chan struct{}),
	}
	l.wg.Go(func() { l.run(c) })
	return c
}

// opened hears from a connection's goroutine how connecting went.
func (l *produceLoop) opened(c *produceConn, err error, now time.Time) {
	switch {
	case c.dead:
	case err != nil:
		l.lose(c, err, now)
	default:
		c.up = true
		c.lastUse = now
		c.node.dialFailed, c.node.dialErr = 0, nil
	}
}

// lose gives up a connection that failed. What is unanswered on it fails by itself:
// the library reports each request.
func (l *produceLoop) lose(c *produceConn, err error, now time.Time) {
	if c.dead {
		return
	}
	n := c.node
	if !c.up {
		n.dialAt = now.Add(retryAfter(n.dialFailed))
		n.dialFailed++
		n.dialErr = err
	}
	l.metrics.disconnected.Inc()
	level := zap.InfoLevel
	if n.dialFailed > 1 {
		level = zap.DebugLevel // it is still down
	}
	l.log.Log(level, "connection lost", zap.Int32("broker", n.id), zap.String("address", n.addr), zap.Error(err))
	// The broker may be gone, and its partitions be led by others.
	for _, r := range c.sent {
		for i := range r.parts {
			l.want(r.parts[i].batch.part.topic, now)
		}
	}
	for _, p := range slices.Concat(n.ready, n.slowReady) {
		l.want(p.topic, now)
	}
	l.drop(c)
}

// drop detaches a connection and lets its goroutine end. It waits for nothing.
func (l *produceLoop) drop(c *produceConn) {
	if c.dead {
		return
	}
	c.dead = true
	close(c.quit)
	c.link.abort()
	n := c.node
	if n.fast == c {
		n.fast = nil
	}
	isIt := func(o *produceConn) bool { return o == c }
	n.slow = slices.DeleteFunc(n.slow, isIt)
	n.retired = slices.DeleteFunc(n.retired, isIt)
}

// isTransport says whether an error of AsyncProduce means that the connection is
// of no use any more, and not that this request could not be made.
func (a *produceAnswer) isTransport() bool {
	return a.err != nil && !errors.As(a.err, new(packetEncodingError)) && !errors.As(a.err, new(kafkaCode))
}
