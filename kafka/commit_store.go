package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"
	"go.uber.org/zap"

	"delay-scheduler/scheduler"
)

// store sends a batch until every commit in it has its answer.
func (c *committer) store(batch []pendingCommit) {
	s := batch[0].session
	t := &commitAttempt{session: s, deadline: time.Now().Add(c.budget)}
	start := time.Now()
	for wait := commitPause; ; wait = min(2*wait, commitPauseMost) {
		batch = c.try(t, batch)
		switch {
		case len(batch) == 0:
			c.metrics.commitSeconds.Observe(time.Since(start).Seconds())
			return
		case s.Lost():
			settle(batch, scheduler.ErrFenced)
			return
		case t.split:
			t.split = false
			continue
		}
		if time.Now().Add(wait).After(t.deadline) || !pause(c.life, wait) {
			c.conclude(t, batch)
			return
		}
	}
}

// commitAttempt is what is known while a batch is stored.
type commitAttempt struct {
	session  *session
	deadline time.Time
	last     error
	// doubtful says that something sent may have been stored without our knowing.
	doubtful bool
	// split says that a request was too large; limit is how many commits one may hold.
	split bool
	limit int // 0: any number
}

// try sends the batch once, in one request or in several smaller ones, settles what
// was answered for good and gives back the rest.
func (c *committer) try(t *commitAttempt, batch []pendingCommit) (rest []pendingCommit) {
	for len(batch) > 0 && !t.session.Lost() {
		n := len(batch)
		if t.limit > 0 {
			n = min(n, t.limit)
		}
		resp, ok := c.send(t, batch[:n])
		if !ok {
			return append(rest, batch...)
		}
		rest = append(rest, c.read(t, batch[:n], resp)...)
		batch = batch[n:]
	}
	return append(rest, batch...)
}

// send makes one request. Half the budget goes to one try at most: a broker that
// takes requests and does not answer them may have been replaced.
func (c *committer) send(t *commitAttempt, batch []pendingCommit) (*sarama.OffsetCommitResponse, bool) {
	ctx, cancel := context.WithDeadline(c.life, t.deadline)
	defer cancel()
	var resp *sarama.OffsetCommitResponse
	reached, err := c.coordinator.do(ctx, c.budget/2, func(b *sarama.Broker) (err error) {
		resp, err = b.CommitOffset(c.request(t.session, batch))
		return err
	})
	c.metrics.commitRequests.Inc()
	if err != nil {
		t.last = err
		t.doubtful = t.doubtful || reached
		return nil, false
	}
	return resp, true
}

// read settles what the answer settles and gives back the rest.
func (c *committer) read(t *commitAttempt, batch []pendingCommit, resp *sarama.OffsetCommitResponse) (rest []pendingCommit) {
	moved, gone := false, newGone(c)
	for _, p := range batch {
		v, code := commitOutcome(resp, p)
		switch v {
		case commitStored:
			p.Done(nil)
		case commitFenced:
			if t.session.lost.CompareAndSwap(false, true) {
				c.log.Info("the broker has ended the generation", zap.String("session", t.session.ID()), zap.Error(code))
			}
			p.Done(fmt.Errorf("%w: %w", scheduler.ErrFenced, code))
		case commitGone:
			if gone.confirmed(p.Topic) {
				p.Done(fmt.Errorf("%w: %w", scheduler.ErrGone, code))
				continue
			}
			t.last = code
			rest = append(rest, p)
		case commitTooLarge:
			p.Done(fmt.Errorf("%w: %w", scheduler.ErrMetadataTooLarge, code))
		case commitSplit:
			if len(batch) == 1 {
				p.Done(fmt.Errorf("%w: %w", scheduler.ErrMetadataTooLarge, code))
				continue
			}
			t.split, t.limit = true, (len(batch)+1)/2
			rest = append(rest, p)
		case commitDenied:
			p.Done(fmt.Errorf("%w: %w", scheduler.ErrUnavailable, code))
		case commitAgain:
			t.last, t.doubtful = code, true
			moved = moved || !coordinatorBusy(code)
			rest = append(rest, p)
		}
	}
	if moved {
		c.coordinator.lost()
	}
	if t.split {
		c.shrink(batch)
	}
	return rest
}

// goneCheck asks whether topics that the coordinator does not know are really gone: it
// may not have heard yet of one that was just made. One question serves an answer.
type goneCheck struct {
	c     *committer
	known map[string]bool // what was asked
}

func newGone(c *committer) *goneCheck { return &goneCheck{c: c, known: map[string]bool{}} }

func (g *goneCheck) confirmed(topic string) bool {
	if gone, ok := g.known[topic]; ok {
		return gone
	}
	ctx, cancel := context.WithTimeout(g.c.life, g.c.budget/2)
	defer cancel()
	states, err := g.c.coordinator.lookup.topics(ctx, topic)
	gone := err == nil && errors.Is(states[topic].Err, sarama.ErrUnknownTopicOrPartition)
	g.known[topic] = gone
	return gone
}

// shrink makes further requests smaller than one that was refused for its size.
func (c *committer) shrink(batch []pendingCommit) {
	size := 0
	for _, p := range batch {
		size += commitSize(p)
	}
	c.requestSize = max(min(c.requestSize, size/2), 1)
}

// conclude ends a batch for which there is no time any more. What may have been
// stored is looked up; so are the answers of the rest of the queue that waited as
// long: without it every one of them would have to find out for itself.
func (c *committer) conclude(t *commitAttempt, batch []pendingCommit) {
	err := fmt.Errorf("%w: %w", scheduler.ErrUnavailable, t.last)
	c.log.Debug("commits could not be stored", zap.Int("partitions", len(batch)), zap.String("session", t.session.ID()), zap.Error(t.last))
	if t.doubtful {
		batch = c.confirm(t, batch)
	}
	settle(batch, err)
	overdue := time.Now().Add(-c.budget)
	c.giveUp(func(p pendingCommit) bool { return p.since.Before(overdue) }, err)
}

// confirm asks what is stored, settles the commits that are and gives back the rest.
func (c *committer) confirm(t *commitAttempt, batch []pendingCommit) (rest []pendingCommit) {
	places := make([]place, len(batch))
	for i, p := range batch {
		places[i] = p.place()
	}
	ctx, cancel := context.WithTimeout(c.life, c.budget/2)
	defer cancel()
	found, err := c.coordinator.offsets(ctx, places)
	if err != nil {
		c.log.Debug("commits in doubt could not be looked up", zap.Error(err))
		return batch
	}
	for _, p := range batch {
		if at, ok := found[p.place()]; ok && at.offset == p.Offset && at.metadata == p.Metadata {
			p.Done(nil)
			continue
		}
		rest = append(rest, p)
	}
	return rest
}
