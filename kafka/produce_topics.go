package kafka

import (
	"fmt"
	"time"

	"github.com/IBM/sarama"
	"go.uber.org/zap"

	"delay-scheduler/delay"
	"delay-scheduler/forward"
)

const (
	// wantEvery is the least time between two questions about a topic.
	wantEvery = 100 * time.Millisecond
	// absentConfirm is how far apart two answers must be that a topic does not exist: a
	// broker may hear of a new topic a moment later than the one that made it.
	absentConfirm = 200 * time.Millisecond
	// topicIdle is how long a topic is remembered that nobody uses.
	topicIdle = 30 * time.Minute
	// leastLimit is the smallest size of a batch that refusals lead to.
	leastLimit = 16 << 10
	// requestRoom is what a request needs beside one record.
	requestRoom = 64 << 10
)

// topic finds or makes a topic.
func (l *produceLoop) topic(name string, now time.Time) *produceTopic {
	t := l.topics[name]
	if t == nil {
		t = &produceTopic{name: name, limit: l.opts.MaxBatchBytes, used: now}
		l.topics[name] = t
	}
	return t
}

// accept takes records for a topic.
func (l *produceLoop) accept(name string, records []delay.Outgoing, ms int64, now time.Time) {
	l.pending += len(records)
	if l.closing {
		l.ack(records, &forward.Error{Class: forward.Transient, Err: errProducerClosed}, false)
		return
	}
	t := l.topic(name, now)
	t.used = now
	switch {
	case t.refusal.active(now):
		l.ack(records, t.refusal.err, false)
	case t.count == 0:
		if len(t.unplaced) == 0 {
			t.unplacedSince = now
		}
		t.unplaced = append(t.unplaced, records...)
		t.unplacedMS = max(t.unplacedMS, ms)
		l.waiting[t] = struct{}{}
		l.want(t, now)
	default:
		l.place(t, records, ms, now)
	}
}

// place puts records into the queues of their partitions.
func (l *produceLoop) place(t *produceTopic, records []delay.Outgoing, ms int64, now time.Time) {
	for i := range records {
		r := &records[i]
		size := recordSize(r)
		var p *producePartition
		if r.Key != nil {
			p = t.parts[partitionOf(r.Key, t.count)]
		} else if p = t.keyless(); p.full(size, &l.opts) {
			p.cut()
			p = t.keyless()
		}
		if p.refused.active(now) {
			l.ack(records[i:i+1], p.refused.err, false)
			continue
		}
		l.put(p, r, size, ms, now)
		l.touch(p)
	}
}

// put adds a record to the end of a partition's queue.
func (l *produceLoop) put(p *producePartition, r *delay.Outgoing, size int, ms int64, now time.Time) {
	impossible := size > int(sarama.MaxRequestSize)-requestRoom
	if impossible || p.full(size, &l.opts) {
		p.cut()
	}
	if p.open == nil {
		p.open = newProduceBatch(p, now)
		l.bytes += batchOverhead
	}
	p.open.add(r, size, ms)
	l.bytes += size
	if impossible {
		p.open.refused = wrapForward(p, forward.TooLarge,
			fmt.Errorf("a record of %d bytes does not fit into a request: %w", size, sarama.ErrMessageSizeTooLarge))
		p.cut()
	}
}

// want asks for a topic's metadata, not too often.
func (l *produceLoop) want(t *produceTopic, now time.Time) {
	if now.Sub(t.asked) >= wantEvery {
		t.asked = now
		l.locator.want(t.name)
	}
}

// forgive ends the time in which records come back at once.
func (l *produceLoop) forgive(name string) {
	t := l.topics[name]
	if t == nil {
		return
	}
	t.refusal.err = nil
	for _, p := range t.parts {
		p.refused.err = nil
	}
}

// greet begins to connect to a topic's leaders, so that its first records need not wait
// for that.
func (l *produceLoop) greet(name string, now time.Time) {
	t := l.topics[name]
	if t == nil || l.closing {
		return
	}
	for _, p := range t.parts {
		if n := p.node; n != nil && n.fast == nil {
			n.fast = l.connect(n, false, now)
		}
	}
}

// learn takes an answer about topics.
func (l *produceLoop) learn(v targetsView, now time.Time) {
	for id, addr := range v.nodes {
		l.learnNode(id, addr)
	}
	for i := range v.topics {
		tv := &v.topics[i]
		t := l.topics[tv.name]
		if t == nil && tv.err != nil {
			continue // somebody asked, and there is nothing to remember
		}
		if t == nil {
			t = l.topic(tv.name, now)
		}
		l.learnTopic(t, tv, now)
	}
}

func (l *produceLoop) learnTopic(t *produceTopic, v *targetView, now time.Time) {
	switch class := classify(v.err).class; {
	case v.err == nil:
		t.fresh = now
		t.absent = produceAbsence{}
		l.update(t, v, now)
		l.placeUnplaced(t, now)
	case class == forward.UnknownTopic:
		l.learnAbsent(t, v.refusal(), now)
	case class == forward.NotAuthorized:
		l.refuseTopic(t, v.refusal(), now)
	default:
		t.lookupErr = v.refusal()
	}
}

// learnAbsent counts the answers that the topic does not exist. The second, a moment
// after the first, is believed. What may be in its log is given up only after our
// patience: then there is no log that could hold it.
func (l *produceLoop) learnAbsent(t *produceTopic, err *forward.Error, now time.Time) {
	if t.absent.answers == 0 {
		t.absent.since = now
	}
	t.absent.answers++
	t.absent.err = err
	l.waiting[t] = struct{}{}
	since := now.Sub(t.absent.since)
	if t.absent.answers < 2 || since < absentConfirm {
		return
	}
	for _, p := range t.parts {
		p.gone = since >= l.opts.Patience
		l.move(p, nil, now)
	}
	l.refuseTopic(t, err, now)
}

// refuseTopic gives back what is certainly in no log of the topic.
func (l *produceLoop) refuseTopic(t *produceTopic, err *forward.Error, now time.Time) {
	t.refusal = produceRefusal{err: err, until: now.Add(refusalLapse)}
	l.refuseUnplaced(t, err)
	for _, p := range t.parts {
		if p.certain() {
			l.giveBack(p, err, now)
		}
	}
}

func (l *produceLoop) refuseUnplaced(t *produceTopic, err *forward.Error) {
	if n := len(t.unplaced); n > 0 {
		l.ack(t.unplaced, err, false)
		l.metrics.givenBack.Add(float64(n))
		l.log.Info("records given back", zap.String("topic", t.name), zap.Int("records", n), zap.Error(err.Err))
	}
	t.unplaced = nil
}

func (l *produceLoop) placeUnplaced(t *produceTopic, now time.Time) {
	records := t.unplaced
	t.unplaced, t.lookupErr = nil, nil
	delete(l.waiting, t)
	l.place(t, records, t.unplacedMS, now)
}

// scanTopic asks again for a topic that waits for metadata, or ends the waiting.
func (l *produceLoop) scanTopic(t *produceTopic, now time.Time) {
	busy := len(t.unplaced) > 0 || t.absent.answers == 1
	for _, p := range t.parts {
		busy = busy || p.busy()
	}
	if !busy {
		delete(l.waiting, t)
		return
	}
	l.want(t, now)
	if len(t.unplaced) > 0 && now.Sub(t.unplacedSince) >= l.opts.Patience {
		err := t.lookupErr
		if err == nil {
			err = &forward.Error{Class: forward.Transient, Err: fmt.Errorf("look up topic %s: no answer yet", t.name)}
		}
		t.refusal = produceRefusal{err: err, until: now.Add(refusalLapse)}
		l.refuseUnplaced(t, err)
	}
}

// update takes a topic's partitions and leaders.
func (l *produceLoop) update(t *produceTopic, v *targetView, now time.Time) {
	recreated := t.id != v.id && t.id != sarama.Uuid{} && v.id != sarama.Uuid{}
	if recreated {
		l.log.Info("topic is another one of the same name", zap.String("topic", t.name))
	}
	t.id, t.count, t.sticky = v.id, len(v.parts), nil
	for len(t.parts) < len(v.parts) {
		t.parts = append(t.parts, &producePartition{topic: t, index: int32(len(t.parts)), epoch: -1})
	}
	for i, p := range t.parts {
		p.gone = i >= len(v.parts)
		if recreated {
			l.restart(p)
		}
		if p.gone {
			l.move(p, nil, now)
			continue
		}
		if pv := v.parts[i]; pv.epoch >= p.epoch {
			p.epoch = pv.epoch
			l.move(p, l.nodes[pv.leader], now)
		}
	}
}

// restart lets a partition count from 0: it has a new log, which knows nothing of us.
// A batch that has its number keeps it until the broker objects.
func (l *produceLoop) restart(p *producePartition) {
	p.epoch, p.proven = -1, false
	if len(p.window) == 0 {
		p.next = 0
	}
}

// move gives a partition another leader. What is unanswered by the old one is sent to
// the new one at once: the old one may be dead for longer than the leader was missed.
func (l *produceLoop) move(p *producePartition, n *produceNode, now time.Time) {
	if p.node == n {
		return
	}
	p.node, p.ready, p.proven = n, false, false
	p.trouble.retryAt = time.Time{}
	if n != nil {
		p.recallAll()
	}
	l.pump(p, now)
}
