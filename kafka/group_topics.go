package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"go.uber.org/zap"

	"delay-scheduler/offset"
	"delay-scheduler/scheduler"
)

// errNoTopic is reported while there is nothing to take part in.
var errNoTopic = errors.New("no topic of the cluster matches the configured sources")

// lookPause and lookPauseMost bound the pause after a failed look for topics.
const (
	lookPause     = 200 * time.Millisecond
	lookPauseMost = 2 * time.Second
)

// topicView is what there is to subscribe to.
type topicView map[string]topicState

// look reads which topics there are and keeps those that are sources. Internal topics
// never are.
func (g *Group) look(ctx context.Context) (topicView, error) {
	states, err := g.client.lookup.topics(ctx)
	if err != nil {
		return nil, err
	}
	view := topicView{}
	for name, state := range states {
		if state.Err == nil && len(state.Partitions) > 0 && !strings.HasPrefix(name, "__") && g.opts.Match(name) {
			view[name] = state
		}
	}
	return view, nil
}

// awaitTopics looks until there is a source. It looks before every join: so no member
// takes a change for new that the group has dealt with already, and ends another
// generation for it. The only error is that ctx has ended.
func (g *Group) awaitTopics(ctx context.Context) (topicView, error) {
	for wait := lookPause; ; wait = min(2*wait, lookPauseMost) {
		view, err := g.look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil && len(g.view) > 0:
			// The group re-forms and waits for us. What is new can wait.
			g.trouble(err)
			return g.view, nil
		case err != nil:
			g.trouble(err)
		case len(view) > 0:
			g.idling = false
			return view, nil
		default:
			g.idle()
			wait = min(g.opts.refresh()/2, lookPauseMost)
		}
		if !pause(ctx, wait) {
			return nil, context.Cause(ctx)
		}
	}
}

// idle leaves the group while there is nothing to share: it would wait for us at every
// join of another member.
func (g *Group) idle() {
	if !g.idling {
		g.log.Warn("waiting", zap.Error(errNoTopic))
	}
	g.idling, g.view = true, nil
	g.leave()
	_ = g.status.failed(errNoTopic)
}

// topicBase is how much of a topic the present generation accounts for.
type topicBase struct {
	id    offset.TopicID
	count int
}

// baseline is what the generation that has just begun knows of the topics: what was
// seen before joining, corrected by what was seen since.
func (g *Group) baseline(assigned map[string][]int32, claims []scheduler.Claim) map[string]topicBase {
	base := make(map[string]topicBase, len(g.view))
	for name, state := range g.view {
		base[name] = topicBase{id: state.ID, count: len(state.Partitions)}
	}
	claimed := make(map[string]offset.TopicID, len(assigned))
	for _, c := range claims {
		claimed[c.Topic] = c.TopicID
	}
	for name := range assigned {
		id, ok := claimed[name]
		if !ok {
			delete(base, name) // not there when it was claimed: new when it is seen
			continue
		}
		b := base[name]
		b.id = id
		base[name] = b
	}
	// As the leader we know how many partitions were shared out. It may be fewer than we
	// had seen: the broker that was asked then lagged behind the one asked before.
	dealt := g.client.shared()
	for name, b := range base {
		if n, ok := dealt[name]; ok {
			b.count = n
			base[name] = b
		}
	}
	return base
}

// changed says what is there that the generation does not account for. A topic that is
// gone is no reason to disturb the others: its claims find out for themselves, and
// the next join leaves it out.
func changed(base map[string]topicBase, now topicView) string {
	for name, state := range now {
		b, ok := base[name]
		switch {
		case !ok:
			return fmt.Sprintf("topic %s is new", name)
		case b.id != state.ID:
			return fmt.Sprintf("topic %s was deleted and made again", name)
		case len(state.Partitions) > b.count:
			return fmt.Sprintf("topic %s has more partitions", name)
		}
	}
	return ""
}

// watch looks for new topics and partitions while the generation lasts, and ends it
// when there are some: joining again with what is new makes the group share it out.
func (g *Group) watch(ctx context.Context, base map[string]topicBase, done chan struct{}) {
	defer close(done)
	if g.opts.InstanceID != "" && !g.covered && !g.checkCover(ctx, base) {
		g.log.Info("joining again: the group has not shared out every partition")
		g.consumeEnd(errTopicsChanged)
		return
	}
	every := max(g.opts.refresh()/2, 10*time.Millisecond)
	for pause(ctx, every*9/10+rand.N(every/10)) {
		view, err := g.look(ctx)
		if err != nil {
			if ctx.Err() == nil {
				g.log.Debug("topics could not be looked up", zap.Error(err))
			}
			continue
		}
		if what := changed(base, view); what != "" {
			g.log.Info("joining again", zap.String("reason", what))
			g.consumeEnd(errTopicsChanged)
			return
		}
	}
}

// checkCover is false if the group, at rest, has given a partition of ours to nobody. A
// static member that comes back gets what it had, without anybody looking at the
// topics again: what was made meanwhile would stay unread until something else
// changes. It is asked once, after the first join of the process.
func (g *Group) checkCover(ctx context.Context, base map[string]topicBase) bool {
	for wait := joinBackoff; ; wait = min(2*wait, lookPauseMost) {
		counts, settled, err := g.assigned(ctx)
		switch {
		case err == nil && settled:
			g.covered = true
			for name, b := range base {
				if counts[name] < b.count {
					return false
				}
			}
			return true
		case err != nil:
			g.log.Debug("the group could not be described", zap.Error(err))
		}
		if !pause(ctx, wait) {
			return true
		}
	}
}

// assigned counts each topic's partitions that have an owner.
func (g *Group) assigned(ctx context.Context) (counts map[string]int, settled bool, err error) {
	req := &sarama.DescribeGroupsRequest{Version: 4, Groups: []string{g.opts.ID}}
	var resp *sarama.DescribeGroupsResponse
	// The commits' connection is used, which must not be cut when the session ends: the
	// last commits come then.
	if _, err := g.committer.coordinator.do(context.WithoutCancel(ctx), time.Second, func(b *sarama.Broker) (err error) {
		resp, err = b.DescribeGroups(req)
		return err
	}); err != nil {
		return nil, false, err
	}
	if len(resp.Groups) != 1 {
		return nil, false, sarama.ErrIncompleteResponse
	}
	group := resp.Groups[0]
	if err := kafkaError(group.Err); err != nil {
		return nil, false, err
	}
	counts = map[string]int{}
	for _, m := range group.Members {
		a, err := m.GetMemberAssignment()
		if err != nil {
			return nil, false, fmt.Errorf("read the assignment of member %s: %w", m.MemberId, err)
		}
		if a == nil {
			continue
		}
		for topic, partitions := range a.Topics {
			counts[topic] += len(partitions)
		}
	}
	return counts, group.State == "Stable", nil
}
