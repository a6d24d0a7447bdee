package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/IBM/sarama"
	"go.uber.org/zap"

	"delay-scheduler/scheduler"
)

// groupHandler is what the library drives. Its calls come one after the other, from
// the goroutine that Run waits in.
type groupHandler Group

// Setup begins a generation.
func (h *groupHandler) Setup(s sarama.ConsumerGroupSession) error {
	g := (*Group)(h)
	g.client.joined()
	g.turn.Lock()
	defer g.turn.Unlock()
	ctx := s.Context()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	g.began = time.Now()
	g.quiesce()
	claims, err := g.claims(ctx, s.Claims())
	if err != nil {
		return fmt.Errorf("set up the claims: %w", err)
	}
	next := &session{committer: g.committer, member: s.MemberID(), generation: s.GenerationID()}
	g.handler.Assign(next, claims)
	g.current, g.active, g.quiet = next, true, false
	g.metrics.joined(len(claims))
	g.status.joined(next, len(claims))
	g.log.Info("joined the group", zap.String("member", next.member), zap.Int32("generation", next.generation), zap.Int("partitions", len(claims)))
	g.watchDone = make(chan struct{})
	go g.watch(ctx, g.baseline(s.Claims(), claims), g.watchDone)
	return nil
}

// moved ends what the handler does under the old generation as soon as we hear that it
// is over. Setup comes later by a round trip for every claim, and in that time the
// new owners are at work already.
func (g *Group) moved() {
	g.turn.Lock()
	defer g.turn.Unlock()
	if g.current != nil {
		g.quiesce()
	}
}

// quiesce comes before every assignment. The caller holds the turn.
func (g *Group) quiesce() {
	if g.quiet {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), g.opts.commitTime())
	defer cancel()
	g.handler.Quiesce(ctx)
	if g.current != nil {
		g.committer.retire(ctx, g.current)
		g.current = nil
	}
	g.quiet = true
}

// claims finds out what the group and the brokers know of the partitions.
func (g *Group) claims(ctx context.Context, assigned map[string][]int32) ([]scheduler.Claim, error) {
	var places []place
	for topic, partitions := range assigned {
		for _, p := range partitions {
			places = append(places, place{topic, p})
		}
	}
	if len(places) == 0 {
		return nil, nil
	}
	states, err := g.awaitStates(ctx, slices.Collect(maps.Keys(assigned)))
	if err != nil {
		return nil, err
	}
	found, err := g.committer.coordinator.awaitOffsets(ctx, places, g.failed)
	if err != nil {
		return nil, err
	}
	kept := g.keptFor(ctx, found)
	claims := make([]scheduler.Claim, 0, len(places))
	for _, p := range places {
		state, ok := states[p.topic]
		if !ok || state.Err != nil {
			g.log.Warn("assigned a partition of a topic that is not there", zap.String("topic", p.topic), zap.Int32("partition", p.partition), zap.Error(state.Err))
			continue
		}
		at := found[p]
		c := scheduler.Claim{Topic: p.topic, Partition: p.partition, TopicID: state.ID, Committed: at.offset, Metadata: at.metadata}
		if at.offset < 0 {
			c.KeptFor = kept
		}
		claims = append(claims, c)
	}
	return claims, nil
}

// keptTimeout bounds the question how long commits are kept; nobody's claims wait longer.
const keptTimeout = 3 * time.Second

// keptFor asks only if a partition has no commit: that is when it matters.
func (g *Group) keptFor(ctx context.Context, found map[place]committedOffset) time.Duration {
	missing := false
	for _, at := range found {
		missing = missing || at.offset < 0
	}
	if !missing {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, keptTimeout)
	defer cancel()
	conf := g.opts.config("group")
	kept, err := keptFor(ctx, conf, g.client.lookup)
	if err != nil {
		g.log.Info("how long commits are kept cannot be read: taking the default", zap.Duration("kept_for", kept), zap.Error(err))
	}
	return kept
}

// awaitStates reads the topics' metadata until a broker answers. Topics that are not
// there are asked for a few times more: the leader of the group has seen them, and
// brokers hear of a new topic one after the other.
func (g *Group) awaitStates(ctx context.Context, topics []string) (map[string]topicState, error) {
	deadline := time.Now().Add(metadataPatience)
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		states, err := g.client.lookup.topics(ctx, topics...)
		missing := slices.ContainsFunc(topics, func(name string) bool { return states[name].Err != nil })
		switch {
		case err != nil:
			g.failed(err)
		case !missing || time.Now().After(deadline):
			return states, nil
		default:
			g.client.lookup.another()
		}
		if !pause(ctx, wait) {
			return nil, context.Cause(ctx)
		}
	}
}

// Cleanup ends a generation. The library calls it also when Setup has failed.
func (h *groupHandler) Cleanup(s sarama.ConsumerGroupSession) error {
	g := (*Group)(h)
	g.cause = sessionCause(s.Context())
	defer g.endWatch()
	g.turn.Lock()
	defer g.turn.Unlock()
	if !g.active {
		return nil
	}
	g.active = false
	if fencing(g.cause) {
		// The final commits would be refused one by one.
		g.committer.fence(g.current)
	}
	start := time.Now()
	g.release()
	g.status.released(g.cause)
	g.log.Info("generation is over", zap.String("session", g.current.ID()), zap.Duration("release", time.Since(start)), zap.NamedError("cause", g.cause))
	if g.stopping {
		// What is left is a farewell; a broker that does not answer may not hold it up.
		g.hurry = time.AfterFunc(leavePatience, g.client.interrupt)
	}
	return nil
}

// endWatch waits for the watch on the topics, which ends with the session's context.
func (g *Group) endWatch() {
	if g.watchDone != nil {
		<-g.watchDone
		g.watchDone = nil
	}
}

// ConsumeClaim is never called: no partition is readable through our client. Should
// that change, a claim is paused and left alone.
func (h *groupHandler) ConsumeClaim(_ sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	h.group.Pause(map[string][]int32{claim.Topic(): {claim.Partition()}})
	for range claim.Messages() {
		continue // dropped until the session ends
	}
	return nil
}

// release has the handler commit everything. The caller holds the turn.
func (g *Group) release() {
	ctx, cancel := context.WithTimeout(context.Background(), g.opts.drainTime())
	defer cancel()
	g.handler.Release(ctx)
}
