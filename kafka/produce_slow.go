package kafka

import (
	"slices"
	"time"

	"go.uber.org/zap"
)

// A request is answered only when all of its partitions are done, and a broker works
// on a connection's requests one after the other. So one partition whose replicas are
// slow holds up whatever shares its request or stands behind it. We therefore watch for
// the answer that is due next; when it is overdue, the connection is retired: it keeps
// what is unanswered, everything is sent again on another connection (the brokers know
// the sequences, so only one attempt counts), and the topics of the overdue request
// travel on connections of their own until they have been quick for a while.

const (
	// slowestRate is how slowly a broker may take a request without being suspected.
	slowestRate = 10 << 20 // bytes a second
	// retireEvery and retiredMost keep a broker that is slow as a whole from being
	// showered with connections and resends.
	retireEvery = time.Second
	retiredMost = 2
	// giveUpAfter is how many times overdue a slow connection's request must be before
	// the partitions in it are told apart, or it makes room for others that wait.
	giveUpAfter = 4
	// firstPenalty and lastPenalty are how long something must be quick to count as well:
	// longer for what keeps falling back.
	firstPenalty = time.Second
	lastPenalty  = time.Minute
	// fastIdle is when nothing else is sent any more.
	fastIdle = 5 * time.Second
	// relapseWithin is when being slow again counts as falling back.
	relapseWithin = 5 * time.Minute
)

// produceHealth says whether something has to keep away from the others.
type produceHealth struct {
	slow    bool
	quick   time.Time // first quick answer of the present run; zero: none
	penalty time.Duration
	ended   time.Time // when it was last found well
}

// suspect begins or prolongs the isolation.
func (h *produceHealth) suspect(now time.Time) {
	h.quick = time.Time{}
	if h.slow {
		return
	}
	if h.penalty == 0 || now.Sub(h.ended) > relapseWithin {
		h.penalty = firstPenalty
	} else {
		h.penalty = min(2*h.penalty, lastPenalty)
	}
	h.slow = true
}

// answered takes an answer and says whether it ends the isolation.
func (h *produceHealth) answered(quick bool, now time.Time) bool {
	switch {
	case !h.slow:
	case !quick:
		h.quick = time.Time{}
	case h.quick.IsZero():
		h.quick = now
	case now.Sub(h.quick) >= h.penalty:
		h.slow, h.ended = false, now
		return true
	}
	return false
}

// produceBaseline is what a broker usually needs for a request now: the way there and
// back on a long line, or what a busy broker takes.
type produceBaseline struct {
	latest [15]time.Duration
	n      int
	median time.Duration
}

func (b *produceBaseline) add(d time.Duration) {
	b.latest[b.n%len(b.latest)] = d
	b.n++
	sorted := b.latest
	known := sorted[:min(b.n, len(sorted))]
	slices.Sort(known)
	b.median = known[len(known)/2]
}

// overdueAfter is how long a request may take before it is suspected.
func (n *produceNode) overdueAfter(r *produceRequest, o *ProducerOptions) time.Duration {
	return o.SlowAfter + 2*n.baseline.median + time.Duration(r.bytes)*time.Second/slowestRate
}

// retireAfter is how long the connection for what is well may owe an answer. If all
// that it carries is of one topic, it is more likely that the broker is busy than that
// one partition is ill, and less is lost by waiting.
func (n *produceNode) retireAfter(o *ProducerOptions) time.Duration {
	after := n.overdueAfter(n.fast.sent[0], o)
	if n.oneTopic() {
		after *= giveUpAfter
	}
	return after
}

// oneTopic says whether everything in flight and waiting for it is of the same topic.
func (n *produceNode) oneTopic() bool {
	first := n.fast.sent[0].parts[0].batch.part.topic
	for _, r := range n.fast.sent {
		for i := range r.parts {
			if r.parts[i].batch.part.topic != first {
				return false
			}
		}
	}
	return !slices.ContainsFunc(n.ready, func(p *producePartition) bool { return p.topic != first })
}

// nextWatch is when watch has something to do.
func (n *produceNode) nextWatch(o *ProducerOptions) (time.Time, bool) {
	var next time.Time
	consider := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	if c := n.fast; c != nil && len(c.sent) > 0 {
		t := c.headSince().Add(n.retireAfter(o))
		if t.Before(n.watchAgain) {
			t = n.watchAgain
		}
		consider(t)
	}
	for _, c := range n.slow {
		if n.mayGiveUp(c) {
			consider(c.headSince().Add(giveUpAfter * n.overdueAfter(c.sent[0], o)))
		}
	}
	return next, !next.IsZero()
}

// watch looks for overdue answers.
func (l *produceLoop) watch(n *produceNode, now time.Time) {
	if c := n.fast; c != nil && len(c.sent) > 0 && !now.Before(n.watchAgain) &&
		now.Sub(c.headSince()) >= n.retireAfter(&l.opts) {
		if n.mayRetire(now) {
			l.retire(c, now)
		} else {
			n.watchAgain = now.Add(l.opts.SlowAfter)
		}
	}
	for _, c := range slices.Clone(n.slow) {
		switch {
		case !n.mayGiveUp(c) || now.Sub(c.headSince()) < giveUpAfter*n.overdueAfter(c.sent[0], &l.opts):
		case c.sent[0].together():
			l.disband(c.sent[0], now)
		default:
			// The attempt fails, and its partition waits for another turn.
			l.drop(c)
		}
	}
}

// together says that a slow topic's partitions still hold each other up.
func (r *produceRequest) together() bool { return len(r.parts) > 1 && !r.disbanded }

// mayGiveUp says whether it helps anybody to do something about a slow connection's
// request: its own partitions, or others that have no connection.
func (n *produceNode) mayGiveUp(c *produceConn) bool {
	return len(c.sent) > 0 && (c.sent[0].together() || len(n.slow) >= slowConnections && len(n.slowReady) > 0)
}

// mayRetire says whether retiring the connection helps anybody.
func (n *produceNode) mayRetire(now time.Time) bool {
	return n.holdsUp() && len(n.retired) < retiredMost && now.Sub(n.lastRetire) >= retireEvery
}

// holdsUp says whether the overdue partition has company.
func (n *produceNode) holdsUp() bool {
	first := n.fast.sent[0].parts[0].batch.part
	for _, r := range n.fast.sent {
		for i := range r.parts {
			if r.parts[i].batch.part != first {
				return true
			}
		}
	}
	return slices.ContainsFunc(n.ready, func(p *producePartition) bool { return p != first })
}

// retire takes everything off a connection whose next answer is overdue.
func (l *produceLoop) retire(c *produceConn, now time.Time) {
	n := c.node
	n.lastRetire = now
	l.metrics.isolated.Inc()
	l.log.Info("an acknowledgement is overdue, its topics get a connection of their own",
		zap.Int32("broker", n.id), zap.String("topic", c.sent[0].parts[0].batch.part.topic.name),
		zap.Int("partitions", len(c.sent[0].parts)), zap.Duration("after", now.Sub(c.headSince())))
	l.suspect(n, c.sent[0], now)
	n.fast = nil
	n.retired = append(n.retired, c)
	unanswered := c.sent[:0:0]
	for _, r := range c.sent {
		revoked := r.revoke()
		if !revoked {
			unanswered = append(unanswered, r)
		}
		l.sendAgain(r, revoked, now)
	}
	c.sent = unanswered
	n.resort()
	if len(c.sent) == 0 {
		l.drop(c)
	}
}

// suspect isolates the topics of an overdue request, or if there is only one topic, its
// partitions.
func (l *produceLoop) suspect(n *produceNode, r *produceRequest, now time.Time) {
	one := n.oneTopic()
	for i := range r.parts {
		p := r.parts[i].batch.part
		// Their leader may be the one that is in trouble.
		l.want(p.topic, now)
		if one {
			p.health.suspect(now)
			continue
		}
		if n.sick[p.topic] == nil {
			n.sick[p.topic] = new(produceHealth)
		}
		n.sick[p.topic].suspect(now)
	}
}

// disband tells the partitions of a slow topic apart.
func (l *produceLoop) disband(r *produceRequest, now time.Time) {
	r.disbanded = true
	for i := range r.parts {
		r.parts[i].batch.part.health.suspect(now)
	}
	l.sendAgain(r, false, now)
	r.conn.node.resort()
}

// sendAgain queues the batches of a request for another attempt. Revoked: the first
// one was not made.
func (l *produceLoop) sendAgain(r *produceRequest, revoked bool, now time.Time) {
	for i := range r.parts {
		a := &r.parts[i]
		if revoked {
			a.batch.attempts--
		}
		if b := a.batch; !b.settled && b.out && a.try == b.tries {
			b.part.recall(b)
			l.pump(b.part, now)
		}
	}
}

// heed takes what an answer says about the broker or about the health of what was in
// the request. What comes late on a retired connection says nothing new. What is slow
// while nothing else is sent disturbs nobody, and counts as quick: perhaps the broker has
// become slow for all.
func (l *produceLoop) heed(r *produceRequest, took time.Duration, now time.Time) {
	n := r.conn.node
	if r.conn == n.fast {
		n.lastFast = now
		n.baseline.add(took)
	}
	if !r.conn.slow {
		return
	}
	quick := took < n.overdueAfter(r, &l.opts) || now.Sub(n.lastFast) > fastIdle
	changed := false
	for i := range r.parts {
		p := r.parts[i].batch.part
		changed = p.health.answered(quick, now) || changed
		if h := n.sick[p.topic]; h != nil {
			changed = h.answered(quick, now) || changed
		}
	}
	if changed {
		n.resort()
	}
}
