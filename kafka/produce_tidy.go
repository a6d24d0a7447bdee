package kafka

import "time"

// tidy refreshes what is old and lets go of what is idle.
func (l *produceLoop) tidy(now time.Time) {
	l.nextTidy = now.Add(tidyEvery)
	for name, t := range l.topics {
		switch {
		case t.idle() && now.Sub(t.used) > topicIdle:
			l.evict(name, t)
		case t.count > 0 && now.Sub(t.used) < topicIdle && now.Sub(t.fresh) > l.opts.refresh():
			l.want(t, now)
			// A smaller limit may have been one record's doing, or have been raised.
			t.limit = min(2*t.limit, l.opts.MaxBatchBytes)
		}
	}
	for _, n := range l.nodes {
		for _, c := range n.conns() {
			limit := connIdle
			if c.slow {
				limit = slowIdle
			}
			if c.up && len(c.sent) == 0 && now.Sub(c.lastUse) > limit {
				l.drop(c)
			}
		}
	}
}

// idle says that nothing is pending for the topic.
func (t *produceTopic) idle() bool {
	for _, p := range t.parts {
		if p.busy() {
			return false
		}
	}
	return len(t.unplaced) == 0
}

// evict forgets a topic and with it its sequences. The brokers have not forgotten them,
// so whatever begins from now on counts under a newer identity.
func (l *produceLoop) evict(name string, t *produceTopic) {
	delete(l.topics, name)
	delete(l.waiting, t)
	for _, p := range t.parts {
		delete(l.blocked, p)
	}
	for _, n := range l.nodes {
		delete(n.sick, t)
	}
	l.renew(true)
}
