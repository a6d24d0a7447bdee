package config

import (
	"fmt"
	"slices"
	"strings"

	"delay-scheduler/delay"
)

const (
	deadLetterSuffix = "-dlq"
	internalPrefix   = "__"
)

// SourceFor gives the source that a topic belongs to: the first one with a matching
// pattern. Dead-letter topics and internal ones belong to none.
func (c *Config) SourceFor(topic string) (*Source, bool) {
	if strings.HasPrefix(topic, internalPrefix) || c.isDeadLetterTopic(topic) {
		return nil, false
	}
	for i := range c.Sources {
		for _, pattern := range c.Sources[i].Topics {
			if delay.MatchGlob(pattern, topic) {
				return &c.Sources[i], true
			}
		}
	}
	return nil, false
}

// Names says whether a source names a topic, and not just a pattern that it matches.
func (c *Config) Names(topic string) bool {
	for i := range c.Sources {
		if slices.Contains(c.Sources[i].Topics, topic) {
			return true
		}
	}
	return false
}

func (c *Config) isDeadLetterTopic(topic string) bool {
	if strings.HasSuffix(topic, deadLetterSuffix) {
		return true
	}
	for i := range c.Sources {
		if d := c.Sources[i].DeadLetterTopic; d != "" && d == topic {
			return true
		}
	}
	return false
}

// TargetsOf gives the rules for a source's targets: its own where it has any.
func (c *Config) TargetsOf(s *Source) TargetRules {
	if len(s.Targets.Allow) > 0 || len(s.Targets.Deny) > 0 {
		return s.Targets
	}
	return TargetRules{Allow: c.Targets.Allow, Deny: c.Targets.Deny}
}

// Warnings names what is legal and most likely not meant.
func (c *Config) Warnings() []string {
	w := append([]string(nil), c.warnings...)
	if c.Group.InstanceID == "" && c.Group.SessionTimeout > c.Group.RebalanceTimeout {
		w = append(w, fmt.Sprintf("group.session_timeout (%s) is above group.rebalance_timeout (%s): without group.instance_id this only makes a crash hold up the group for longer",
			formatDuration(c.Group.SessionTimeout), formatDuration(c.Group.RebalanceTimeout)))
	}
	w = append(w, c.insecure()...)
	return append(w, c.shadowed()...)
}

// shadowed finds patterns that can never decide because an earlier one takes all that
// they match.
func (c *Config) shadowed() []string {
	type seen struct{ path, pattern string }
	var earlier []seen
	var w []string
	for i := range c.Sources {
		for j, pattern := range c.Sources[i].Topics {
			path := fmt.Sprintf("sources[%d].topics[%d]", i, j)
			for _, e := range earlier {
				if covers(e.pattern, pattern) {
					w = append(w, fmt.Sprintf("%s (%s) never decides: the first match wins, and %s (%s) matches all that it does", path, pattern, e.path, e.pattern))
					break
				}
			}
			earlier = append(earlier, seen{path, pattern})
		}
	}
	return w
}

// covers says whether a pattern matches all that another one matches. A yes is right;
// a no may be wrong where it would take more than comparing the two from left to right,
// as with a?* and a*? for instance.
func covers(pattern, other string) bool {
	row := make([]bool, len(other)+1) // row[j]: what has been looked at of pattern covers other[:j]
	row[0] = true
	for i := range len(pattern) {
		corner := row[0]
		row[0] = row[0] && pattern[i] == '*'
		for j := range len(other) {
			above := row[j+1]
			if pattern[i] == '*' {
				row[j+1] = above || row[j]
			} else {
				row[j+1] = corner && other[j] != '*' && (pattern[i] == '?' || pattern[i] == other[j])
			}
			corner = above
		}
	}
	return row[len(other)]
}
