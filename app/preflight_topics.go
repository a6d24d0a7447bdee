package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"delay-scheduler/config"
	"delay-scheduler/delay"
	"delay-scheduler/kafka"
	"delay-scheduler/offset"
	"delay-scheduler/preflight"
)

// patternFor gives the pattern that decides on a topic, if it is a source.
func patternFor(c *config.Config, topic string) (path string, ok bool) {
	src, ok := c.SourceFor(topic)
	if !ok {
		return "", false
	}
	for i := range c.Sources {
		if &c.Sources[i] != src {
			continue
		}
		for k, pattern := range src.Topics {
			if delay.MatchGlob(pattern, topic) {
				return fmt.Sprintf("sources[%d].topics[%d]", i, k), true
			}
		}
	}
	return "", false
}

// topics gathers what concerns single topics: sources, their dead-letter topics, and
// the targets that are allowed by name.
func (g *gatherer) topics(ctx context.Context, all []kafka.TopicInfo) error {
	made, err := newSources(g.config)
	if err != nil {
		return err
	}
	var sources, deadLetters []string
	of := map[string][]string{}
	for _, t := range all {
		if !made.isSource(t.Name) {
			continue
		}
		sources = append(sources, t.Name)
		d := made.of(t.Name).Rules.DeadLetter(t.Name)
		if len(of[d]) == 0 {
			deadLetters = append(deadLetters, d)
		}
		of[d] = append(of[d], t.Name)
	}
	targets := g.namedTargets(sources)
	names := slices.Concat(sources, deadLetters, targets)
	slices.Sort(names)
	names = slices.Compact(names)
	if g.states, err = g.admin.DescribeTopics(ctx, names...); err != nil {
		return err
	}
	settings, why := g.settings(ctx, names)
	topic := func(name string) preflight.Topic { return topicOf(name, g.states[name], settings[name], why[name]) }
	for _, name := range sources {
		g.facts.Sources = append(g.facts.Sources, g.source(ctx, topic(name), made))
	}
	for _, name := range deadLetters {
		g.facts.DeadLetters = append(g.facts.DeadLetters, preflight.DeadLetter{Topic: topic(name), Sources: of[name], Matched: g.matches(name)})
	}
	for _, name := range targets {
		g.facts.Targets = append(g.facts.Targets, topic(name))
	}
	return nil
}

// namedTargets are the allowed targets that are no pattern. A source is judged as one.
func (g *gatherer) namedTargets(sources []string) []string {
	var names []string
	for _, name := range g.facts.Settings.Allow {
		if delay.ValidTopic(name) && !slices.Contains(sources, name) {
			names = append(names, name)
		}
	}
	return names
}

// settings reads the settings of topics; why says of which they could not be read.
func (g *gatherer) settings(ctx context.Context, names []string) (settings map[string]map[string]string, why map[string]string) {
	settings, why = map[string]map[string]string{}, map[string]string{}
	read := func(names ...string) error {
		configs, err := g.admin.TopicConfigs(ctx, names...)
		for name, values := range configs {
			settings[name] = map[string]string{}
			for key, v := range values {
				settings[name][key] = v.Value
			}
		}
		return err
	}
	there := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return g.states[name].Err != nil })
	if len(there) == 0 || read(there...) == nil {
		return settings, why
	}
	for _, name := range there { // one of them is not ours to see
		if err := read(name); err != nil {
			why[name] = reason(err)
		}
	}
	return settings, why
}

func topicOf(name string, state kafka.TopicState, configs map[string]string, why string) preflight.Topic {
	t := preflight.Topic{Name: name, Configs: configs, ConfigsErr: why, Rights: rights(state.Operations, nil)}
	if errors.Is(state.Err, kafka.ErrUnknownTopic) {
		t.Missing = true
	} else {
		t.Err = reason(state.Err)
	}
	for _, p := range state.Partitions {
		t.Partitions = append(t.Partitions, preflight.Partition{ID: p.ID, Leader: p.Leader >= 0, Replicas: p.Replicas, InSync: p.InSync})
	}
	return t
}

// matches gives the pattern of a source that matches a dead-letter topic.
func (g *gatherer) matches(name string) string {
	for _, p := range g.facts.Patterns {
		if delay.MatchGlob(p.Pattern, name) {
			return fmt.Sprintf("%s (%s)", p.Path, p.Pattern)
		}
	}
	return ""
}

// source adds what is known of a topic as one that is read.
func (g *gatherer) source(ctx context.Context, t preflight.Topic, made *sources) preflight.Source {
	src, _ := g.config.SourceFor(t.Name)
	s := preflight.Source{Topic: t, MaxDelay: src.MaxDelay, DeadLetter: made.of(t.Name).Rules.DeadLetter(t.Name)}
	for i := range g.config.Sources {
		if src == &g.config.Sources[i] {
			s.Path = fmt.Sprintf("sources[%d]", i)
		}
	}
	if t.Err != "" || slices.ContainsFunc(t.Partitions, func(p preflight.Partition) bool { return !p.Leader }) {
		s.PendingErr = "it cannot be read"
		return s
	}
	if err := g.progress(ctx, &s, made); err != nil {
		s.PendingErr = reason(err)
	}
	return s
}

// progress reads what is committed of a source, and the oldest and the newest record.
func (g *gatherer) progress(ctx context.Context, s *preflight.Source, made *sources) error {
	committed, err := g.admin.Committed(ctx, g.config.Group.ID, s.Name)
	if err != nil {
		return err
	}
	bounds, err := g.admin.Bounds(ctx, s.Name)
	if err != nil {
		return err
	}
	id := g.states[s.Name].ID
	oldest, newest := map[int32]int64{}, map[int32]int64{}
	for p, b := range bounds {
		c := committed[s.Name][p]
		if from := max(c.Offset, b.Start); from < b.Stable {
			oldest[p], newest[p] = from, b.Stable-1
		}
		if c.Offset < 0 || c.Metadata == offset.Candidate {
			continue
		}
		if _, err := offset.Decode(c.Metadata, id, c.Offset); errors.Is(err, offset.ErrForeign) || errors.Is(err, offset.ErrNone) {
			if s.Foreign == nil {
				s.Foreign = map[int32]string{}
			}
			s.Foreign[p] = metadataProblem(err)
		}
	}
	records, err := g.admin.FirstRecords(ctx, s.Name, oldest)
	for _, p := range slices.Sorted(maps.Keys(records)) {
		s.Pending = append(s.Pending, pendingOf(records[p], made))
	}
	if err == nil && s.Configs["message.timestamp.type"] == "LogAppendTime" {
		s.Newest = g.newest(ctx, s.Name, newest)
	}
	return err
}

// pendingOf judges the oldest pending record as the service does.
func pendingOf(rec delay.Record, made *sources) preflight.Pending {
	p := preflight.Pending{Partition: rec.Partition, Offset: rec.Offset, Timestamp: time.UnixMilli(rec.Timestamp)}
	src := made.of(rec.Topic)
	if req, ref := src.Judge(delay.NewParser(rec.Topic, src.Rules), &rec); ref == nil {
		p.Due = time.UnixMilli(req.Due)
	}
	return p
}

// newest is when a broker last appended a record that it can be asked for.
func (g *gatherer) newest(ctx context.Context, topic string, last map[int32]int64) (at time.Time) {
	records, err := g.admin.FirstRecords(ctx, topic, last)
	if err != nil {
		return at // then nothing is known of the clock, which is a finding
	}
	for _, r := range records {
		if stamp := time.UnixMilli(r.Timestamp); r.AppendTime && stamp.After(at) {
			at = stamp
		}
	}
	return at
}
