package app

import (
	"context"
	"fmt"
	"strings"

	"delay-scheduler/config"
	"delay-scheduler/delay"
	"delay-scheduler/kafka"
	"delay-scheduler/preflight"
)

// AccessOptions say for what rights are wanted.
type AccessOptions struct {
	Topics []string // business topics or sources; empty: whatever the configuration reads
	Group  string   // the consumer group that retries come back to; empty: none
	Old    bool     // the brokers are older than 3.0
	Checks bool     // with the rights that check needs to know everything
}

// Access gives the least rights that the service needs, and remarks on them. A cluster
// is asked only where a pattern of the configuration cannot be said in an access list.
func Access(ctx context.Context, c *config.Config, o AccessOptions) ([]preflight.AccessRule, []string, error) {
	a := accessList{config: c, request: preflight.AccessRequest{Group: c.Group.ID, Decisions: DecisionGroup(c), Old: o.Old, Checks: o.Checks}}
	var err error
	if a.made, err = newSources(c); err != nil {
		return nil, nil, err
	}
	for _, name := range o.Topics {
		if err := a.named(name, o.Group); err != nil {
			return nil, nil, err
		}
	}
	if len(o.Topics) == 0 {
		if err := a.patterns(ctx); err != nil {
			return nil, nil, err
		}
	}
	return preflight.Access(a.request), a.notes, nil
}

type accessList struct {
	config  *config.Config
	made    *sources
	request preflight.AccessRequest
	notes   []string
}

// named adds one business topic, or one source.
func (a *accessList) named(name, group string) error {
	if a.made.isSource(name) {
		a.source(name)
		return nil
	}
	r, _, err := topicRequest(a.config, TopicsOptions{Topic: name, Group: group})
	if err != nil {
		return err
	}
	names := []string{r.Topic, r.Delay, r.Retry}
	if r.Redelivery != "" {
		names = append(names, r.Redelivery)
		a.target(r.Redelivery)
	}
	for _, n := range names {
		if !delay.ValidTopic(n) {
			return fmt.Errorf("%w: %q is no name of a topic", ErrTopics, n)
		}
	}
	a.source(r.Delay)
	a.source(r.Retry)
	a.target(r.Topic)
	return nil
}

func (a *accessList) source(name string) {
	res, _ := preflight.TopicResource(name)
	dead, _ := preflight.TopicResource(a.made.of(name).Rules.DeadLetter(name))
	a.request.Sources = append(a.request.Sources, res)
	a.request.DeadLetters = append(a.request.DeadLetters, dead)
}

func (a *accessList) target(pattern string) {
	res, ok := preflight.TopicResource(pattern)
	if !ok {
		a.notes = append(a.notes, fmt.Sprintf("targets.allow has %s, for which there is no access list: grant Write on the topics that it matches, one by one", pattern))
		return
	}
	if res.Name == "*" {
		a.notes = append(a.notes, "targets.allow has *, so Write is granted on every topic: list the targets there, or name the business topics with --topic")
	}
	a.request.Targets = append(a.request.Targets, res)
}

// patterns adds everything that the configuration reads and allows.
func (a *accessList) patterns(ctx context.Context) error {
	var open []string // paths of patterns for which the cluster has to be asked
	for i := range a.config.Sources {
		src := &a.config.Sources[i]
		for k, pattern := range src.Topics {
			res, ok := preflight.TopicResource(pattern)
			switch {
			case ok && res.Pattern == "literal" && res.Name != "*":
				if a.made.isSource(pattern) {
					a.source(pattern)
				}
			case ok && res.Name != "*":
				a.prefix(res, src)
			default:
				open = append(open, fmt.Sprintf("sources[%d].topics[%d]", i, k))
			}
		}
	}
	for _, pattern := range settingsOf(a.config).Allow {
		a.target(pattern)
	}
	if len(open) == 0 {
		return nil
	}
	return a.present(ctx, open)
}

// prefix adds a pattern that is a prefix, with its dead-letter topics.
func (a *accessList) prefix(res preflight.Resource, src *config.Source) {
	a.request.Sources = append(a.request.Sources, res)
	dead := res
	if src.DeadLetterTopic != "" {
		dead, _ = preflight.TopicResource(src.DeadLetterTopic)
	}
	a.request.DeadLetters = append(a.request.DeadLetters, dead)
}

// present adds the topics that there are of patterns that cannot be said.
func (a *accessList) present(ctx context.Context, paths []string) error {
	admin, err := kafka.NewAdmin(clusterOptions(a.config))
	if err != nil {
		return err
	}
	defer admin.Close()
	topics, err := admin.Topics(ctx)
	if err != nil {
		return fmt.Errorf("find the topics of %s, which no access list can say (or name topics with --topic): %w", strings.Join(paths, ", "), err)
	}
	for _, t := range topics {
		path, ok := patternFor(a.config, t.Name)
		if ok && strings.Contains(strings.Join(paths, ",")+",", path+",") {
			a.source(t.Name)
		}
	}
	a.notes = append(a.notes, fmt.Sprintf("access lists know prefixes only, so %s stands for the topics that there are: run this again for new ones", strings.Join(paths, ", ")))
	return nil
}
