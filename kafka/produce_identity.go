package kafka

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/IBM/sarama"
	"go.uber.org/zap"

	"delay-scheduler/forward"
)

// produceIdentity is what a broker knows us by. Sequences count per partition and
// identity, so each partition keeps the identity it has begun with until the broker
// does not know it any more; then it takes a newer one and counts from 0.
//
// A newer one is normally the same producer id with the next epoch, which the broker
// takes from an idempotent producer without being asked. That is better than a new id:
// an attempt under the old epoch that is still on its way is then refused, where under
// an old id it would be written a second time.
type produceIdentity struct {
	id            int64
	epoch         int16
	transactional bool
	// generation orders the identities of a producer; 0 is none.
	generation uint64
}

// next is the identity after this one; false if the broker has to make a new one.
func (i produceIdentity) next() (produceIdentity, bool) {
	if i.generation == 0 || i.transactional || i.epoch == math.MaxInt16 {
		return i, false
	}
	i.epoch++
	i.generation++
	return i, true
}

// resequence puts a partition whose sequence the broker does not know under a newer
// identity, and numbers anew what is in its window. Nothing of that may be unanswered. If
// the first of it may have been written by an earlier attempt, so may those that follow;
// sending them again may duplicate them, which is counted.
func (l *produceLoop) resequence(p *producePartition, err error) {
	l.metrics.resequenced.Inc()
	first := p.window[0]
	l.log.Info("a broker does not know our sequence, the partition goes on under another identity",
		zap.String("topic", p.topic.name), zap.Int32("partition", p.index), zap.Int32("sequence", first.seq),
		zap.Int16("epoch", first.id.epoch), zap.Bool("doubtful", first.ambiguous), zap.Error(err))
	doubtful := first.ambiguous
	for _, b := range p.window {
		b.ambiguous = b.ambiguous && doubtful
		if b.ambiguous {
			l.metrics.duplicates.Add(float64(len(b.records)))
		}
	}
	l.empty(p)
	l.reidentify(p, !errors.Is(err, sarama.ErrInvalidProducerEpoch))
}

// reidentify lets a partition count from 0 under a newer identity. Its window is empty.
func (l *produceLoop) reidentify(p *producePartition, ours bool) {
	if l.identity.generation <= p.id.generation {
		l.renew(ours)
	}
	p.id, p.next, p.proven = l.identity, 0, false
}

// renew replaces the current identity. An epoch that is already taken by somebody else
// cannot be followed by ours.
func (l *produceLoop) renew(ours bool) {
	if next, ok := l.identity.next(); ok && ours {
		l.identity = next
		return
	}
	l.generation = max(l.generation, l.identity.generation)
	l.identity = produceIdentity{}
	l.askIdentity()
}

// askIdentity asks brokers for an identity until one gives it.
func (l *produceLoop) askIdentity() {
	if l.identityAsked {
		return
	}
	l.identityAsked = true
	l.wg.Go(func() {
		for wait := firstBackoff; ; wait = min(2*wait, lastBackoff) {
			resp, err := askAny(l.life, l.locator.brokers, l.initProducerID)
			l.inbox.post(func(now time.Time) { l.gotIdentity(resp, err, now) })
			if err == nil || !pause(l.life, wait) {
				return
			}
		}
	})
}

// initProducerID asks one broker. Any will do for an idempotent producer; a
// transactional one would have to ask its coordinator, with its present identity.
func (l *produceLoop) initProducerID(b *sarama.Broker) (*sarama.InitProducerIDResponse, error) {
	req := &sarama.InitProducerIDRequest{ProducerID: -1, ProducerEpoch: -1}
	switch v := l.config.Version; {
	case v.IsAtLeast(sarama.V2_7_0_0):
		req.Version = 4
	case v.IsAtLeast(sarama.V2_5_0_0):
		req.Version = 3
	case v.IsAtLeast(sarama.V2_0_0_0):
		req.Version = 1
	}
	resp, err := b.InitProducerID(req)
	if err == nil && resp.Err != sarama.ErrNoError {
		err = resp.Err
	}
	return resp, err
}

func (l *produceLoop) gotIdentity(resp *sarama.InitProducerIDResponse, err error, now time.Time) {
	if err != nil {
		l.identityErr = fmt.Errorf("get a producer id: %w", err)
		return
	}
	l.generation++
	l.identity = produceIdentity{id: resp.ProducerID, epoch: resp.ProducerEpoch, generation: l.generation}
	l.identityAsked, l.identityErr = false, nil
	for p := range l.blocked {
		if p.id.generation == 0 {
			l.pump(p, now)
		}
	}
}

// identityHindrance says why nothing can be numbered yet.
func (l *produceLoop) identityHindrance() (forward.Class, error) {
	if l.identityErr == nil {
		return forward.Transient, errNoIdentity
	}
	return classify(l.identityErr).class, l.identityErr
}
