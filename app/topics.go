package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"delay-scheduler/config"
	"delay-scheduler/delay"
	"delay-scheduler/kafka"
	"delay-scheduler/preflight"
)

// TopicsOptions say which topics are wanted.
type TopicsOptions struct {
	Topic       string
	Partitions  int32         // 0: as many as the topic has
	Replication int16         // 0: as the topic has
	Group       string        // with a redelivery topic for it; empty: none
	MaxDelay    time.Duration // 0: the source's max_delay
}

// ErrTopics says that the topics that are asked for do not fit the configuration.
var ErrTopics = errors.New("these topics do not fit")

// Names of the topics of a business topic (the package delay has the same suffixes).
const (
	delaySuffix      = "-delay"
	retrySuffix      = "-retry"
	redeliverySuffix = "-redelivery"
)

// PlanTopics says which topics a business topic needs, and what is wrong with those that
// exist. The error is ErrTopics if the request or the configuration has to be changed.
func PlanTopics(ctx context.Context, c *config.Config, o TopicsOptions) (preflight.TopicPlan, error) {
	request, notes, err := topicRequest(c, o)
	if err != nil {
		return preflight.TopicPlan{}, err
	}
	admin, err := kafka.NewAdmin(clusterOptions(c))
	if err != nil {
		return preflight.TopicPlan{}, err
	}
	defer admin.Close()
	if err := existing(ctx, admin, &request); err != nil {
		return preflight.TopicPlan{}, err
	}
	plan, err := preflight.PlanTopics(request)
	if err != nil {
		return plan, fmt.Errorf("%w: %w", ErrTopics, err)
	}
	plan.Notes = append(notes, plan.Notes...)
	return plan, nil
}

// topicRequest names the topics and sees that the configuration reads them.
func topicRequest(c *config.Config, o TopicsOptions) (preflight.TopicRequest, []string, error) {
	r := preflight.TopicRequest{
		Topic: o.Topic, Delay: o.Topic + delaySuffix, Retry: o.Topic + retrySuffix,
		Partitions: o.Partitions, Replication: o.Replication, MaxDelay: o.MaxDelay,
	}
	if o.Group != "" {
		r.Redelivery = o.Topic + "-" + o.Group + redeliverySuffix
	}
	made, err := newSources(c)
	if err != nil {
		return r, nil, err
	}
	var errs []error
	if made.isSource(o.Topic) {
		errs = append(errs, fmt.Errorf("%s is itself a source: name the business topic, whose delay topic is <name>%s", o.Topic, delaySuffix))
	}
	var longest time.Duration
	for _, name := range []string{r.Delay, r.Retry} {
		src, ok := c.SourceFor(name)
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("no source of the configuration matches %s: add a source with topics: [%q]", name, "*"+strings.TrimPrefix(name, o.Topic)))
			continue
		case name == r.Retry && src.Retry == nil:
			errs = append(errs, fmt.Errorf("the source that matches %s has no retry: add retry: {} to it", name))
		}
		longest = max(longest, src.MaxDelay)
		if d := made.of(name).Rules.DeadLetter(name); !slices.Contains(r.DeadLetters, d) {
			r.DeadLetters = append(r.DeadLetters, d)
		}
	}
	if len(errs) > 0 {
		return r, nil, fmt.Errorf("%w: %w", ErrTopics, errors.Join(errs...))
	}
	var notes []string
	switch {
	case o.MaxDelay == 0:
		r.MaxDelay = longest
	case o.MaxDelay < longest:
		notes = append(notes, fmt.Sprintf("the configuration takes delays of up to %s (max_delay), the topics are made for %s: set max_delay of their source to the same", preflight.Long(longest), preflight.Long(o.MaxDelay)))
	case o.MaxDelay > longest:
		notes = append(notes, fmt.Sprintf("the topics are made for delays of %s, the configuration refuses those above %s (max_delay)", preflight.Long(o.MaxDelay), preflight.Long(longest)))
	}
	return r, notes, nil
}

// existing adds what is there.
func existing(ctx context.Context, admin *kafka.Admin, r *preflight.TopicRequest) error {
	names := slices.Concat([]string{r.Topic, r.Delay, r.Retry}, r.DeadLetters)
	if r.Redelivery != "" {
		names = append(names, r.Redelivery)
	}
	if bad := slices.DeleteFunc(slices.Clone(names), delay.ValidTopic); len(bad) > 0 {
		return nil // the plan says so; no broker need be asked
	}
	cluster, err := admin.Cluster(ctx)
	if err != nil {
		return err
	}
	r.Brokers = len(cluster.Brokers)
	for _, b := range cluster.Brokers {
		if b.Err != nil {
			continue
		}
		if configs, err := admin.BrokerConfigs(ctx, b, "message.max.bytes"); err == nil {
			r.DefaultSize, _ = strconv.ParseInt(configs["message.max.bytes"], 10, 64)
			break
		}
	}
	g := gatherer{admin: admin}
	if g.states, err = admin.DescribeTopics(ctx, names...); err != nil {
		return err
	}
	settings, _ := g.settings(ctx, names)
	r.Existing = map[string]preflight.ExistingTopic{}
	for name, state := range g.states {
		switch {
		case errors.Is(state.Err, kafka.ErrUnknownTopic):
			continue
		case state.Err != nil:
			return fmt.Errorf("describe topic %s: %w", name, state.Err)
		}
		e := preflight.ExistingTopic{Partitions: int32(len(state.Partitions)), Configs: settings[name]}
		if len(state.Partitions) > 0 {
			e.Replication = int16(state.Partitions[0].Replicas)
		}
		r.Existing[name] = e
	}
	return nil
}

// CreateTopics creates what a plan misses and, if told to, mends the settings that have
// drifted. It tells of each thing done. One that somebody else has created meanwhile is
// none the worse.
func CreateTopics(ctx context.Context, c *config.Config, plan preflight.TopicPlan, fix bool, tell func(string)) error {
	admin, err := kafka.NewAdmin(clusterOptions(c))
	if err != nil {
		return err
	}
	defer admin.Close()
	for _, t := range plan.Topics {
		fixes := t.Fixes()
		switch {
		case !t.Exists:
			err := admin.CreateTopic(ctx, t.Name, t.Partitions, t.Replication, t.Configs)
			if err != nil && !errors.Is(err, kafka.ErrTopicExists) {
				return err
			}
			tell("created " + t.Name)
		case fix && len(fixes) > 0:
			if err := admin.AlterTopic(ctx, t.Name, fixes); err != nil {
				return err
			}
			tell("changed the settings of " + t.Name)
		}
	}
	return nil
}
