package app

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"delay-scheduler/config"
	"delay-scheduler/kafka"
	"delay-scheduler/offset"
)

// DecisionGroup is the group that decisions about held records are committed to. It has
// no members: the scheduler's own group would take commits from its members alone.
func DecisionGroup(c *config.Config) string { return c.Group.ID + "-accepted" }

// HeldPartition is a partition of which a part is held, by the group's commits.
type HeldPartition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      int64  `json:"from"`
	Below     int64  `json:"below"`
	// DueBy is the latest due time that is held; nil: all are.
	DueBy *time.Time `json:"due_by,omitempty"`
	// Decided says that it was carried out, or that the scheduler is at it.
	Decided bool `json:"decided"`

	due int64
}

// Held reads which partitions hold something back, of some topics or of all sources.
func Held(ctx context.Context, c *config.Config, topics []string) ([]HeldPartition, error) {
	admin, err := kafka.NewAdmin(clusterOptions(c))
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	return heldBy(ctx, admin, c, topics)
}

func heldBy(ctx context.Context, admin *kafka.Admin, c *config.Config, topics []string) ([]HeldPartition, error) {
	found, err := sourceTopics(ctx, admin, c, topics)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	ids := map[string]offset.TopicID{}
	names := make([]string, 0, len(found))
	for _, t := range found {
		ids[t.Name] = t.ID
		names = append(names, t.Name)
	}
	committed, err := admin.Committed(ctx, c.Group.ID, names...)
	if err != nil {
		return nil, err
	}
	var all []HeldPartition
	for topic, partitions := range committed {
		for p, commit := range partitions {
			set, err := offset.Decode(commit.Metadata, ids[topic], commit.Offset)
			if err == nil && set.Hold != nil {
				all = append(all, newHeldPartition(topic, p, set.Hold))
			}
		}
	}
	slices.SortFunc(all, func(a, b HeldPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return all, nil
}

func newHeldPartition(topic string, partition int32, h *offset.Hold) HeldPartition {
	held := HeldPartition{Topic: topic, Partition: partition, From: h.From, Below: h.Below, Decided: h.Decided, due: h.Due}
	if h.Due != offset.Everything {
		by := time.UnixMilli(h.Due)
		held.DueBy = &by
	}
	return held
}

// Accept writes down what becomes of held records: those due before since (epoch ms)
// are dropped, the others sent. The scheduler that owns a partition carries it out
// within seconds, or when it starts.
func Accept(ctx context.Context, c *config.Config, held []HeldPartition, since int64) error {
	admin, err := kafka.NewAdmin(clusterOptions(c))
	if err != nil {
		return err
	}
	defer admin.Close()
	commits := map[string]map[int32]kafka.Committed{}
	for _, h := range held {
		if commits[h.Topic] == nil {
			commits[h.Topic] = map[int32]kafka.Committed{}
		}
		d := offset.Decision{Below: h.Below, Due: h.due, Since: since}
		commits[h.Topic][h.Partition] = kafka.Committed{Offset: h.Below, Metadata: d.String()}
	}
	return admin.Commit(ctx, DecisionGroup(c), commits)
}

// acceptLook is how often it is looked whether a decision was carried out, and by the
// scheduler whether there is one.
const acceptLook = time.Second

// AwaitAccepted waits until none of the partitions is held undecided, and gives those
// that still are when ctx ends. Progress hears how many those are.
func AwaitAccepted(ctx context.Context, c *config.Config, held []HeldPartition, progress func(left int)) ([]HeldPartition, error) {
	admin, err := kafka.NewAdmin(clusterOptions(c))
	if err != nil {
		return held, err
	}
	defer admin.Close()
	for left := held; ; {
		now, err := heldBy(ctx, admin, c, topicsOf(held))
		switch {
		case ctx.Err() != nil:
			return left, nil
		case err != nil:
			return left, err
		}
		left = slices.DeleteFunc(slices.Clone(held), func(h HeldPartition) bool {
			return !slices.ContainsFunc(now, func(n HeldPartition) bool { return h.same(n) && !n.Decided })
		})
		progress(len(left))
		if len(left) == 0 {
			return left, nil
		}
		sleep(ctx, acceptLook)
	}
}

func (h HeldPartition) same(o HeldPartition) bool {
	return h.Topic == o.Topic && h.Partition == o.Partition && h.Below == o.Below && h.due == o.due
}

func topicsOf(held []HeldPartition) []string {
	var names []string
	for _, h := range held {
		names = append(names, h.Topic)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// watchDecisions carries out what was decided about the partitions of this process, until
// ctx ends. As long as nothing is held it asks nothing.
func (p *parts) watchDecisions(ctx context.Context, c *config.Config, log *zap.Logger) {
	admin, err := kafka.NewAdmin(clusterOptions(c))
	if err != nil {
		log.Error("decisions about held records cannot be read", zap.Error(err))
		return
	}
	defer admin.Close()
	var told string
	for sleep(ctx, acceptLook); ctx.Err() == nil; sleep(ctx, acceptLook) {
		err := p.carryOutDecisions(ctx, admin, DecisionGroup(c))
		if err == nil || ctx.Err() != nil {
			told = ""
			continue
		}
		if err.Error() != told {
			told = err.Error()
			log.Warn("decisions about held records cannot be read", zap.Error(err))
		}
	}
}

func (p *parts) carryOutDecisions(ctx context.Context, admin *kafka.Admin, group string) error {
	var topics []string
	for _, st := range p.scheduler.Partitions() {
		if st.Held != nil {
			topics = append(topics, st.Topic)
		}
	}
	if len(topics) == 0 {
		return nil
	}
	slices.Sort(topics)
	decided, err := admin.Committed(ctx, group, slices.Compact(topics)...)
	if err != nil {
		return fmt.Errorf("look for decisions: %w", err)
	}
	for topic, partitions := range decided {
		for number, commit := range partitions {
			if d, err := offset.ParseDecision(commit.Metadata); err == nil {
				p.scheduler.Decide(topic, number, d)
			}
		}
	}
	return nil
}

// Leave removes a static member from the group, so that its partitions are shared out at
// once and not after group.session_timeout.
func Leave(ctx context.Context, c *config.Config, instance string) error {
	admin, err := kafka.NewAdmin(clusterOptions(c))
	if err != nil {
		return err
	}
	defer admin.Close()
	return admin.RemoveInstance(ctx, c.Group.ID, instance)
}
