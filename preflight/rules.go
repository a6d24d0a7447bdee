package preflight

import (
	"fmt"
	"slices"
	"strings"
)

// Resource is what a right is granted on.
type Resource struct {
	Type    string `json:"resource_type"` // topic, group, cluster
	Name    string `json:"name"`          // * is every one
	Pattern string `json:"pattern"`       // literal, prefixed
}

// The patterns of a resource.
const (
	literal  = "literal"
	prefixed = "prefixed"
)

// TopicResource gives the resource that stands for a name or a pattern. It is false for
// a pattern that Kafka's access lists have no way to say: they know prefixes only.
func TopicResource(pattern string) (Resource, bool) {
	r := Resource{Type: "topic", Name: pattern, Pattern: literal}
	head, meta := strings.TrimRight(pattern, "*"), strings.ContainsAny(pattern, "*?")
	switch {
	case !meta:
		return r, true
	case strings.ContainsAny(head, "*?"):
		return Resource{}, false
	case head == "":
		r.Name = "*"
		return r, true
	}
	r.Name, r.Pattern = head, prefixed
	return r, true
}

// AccessRequest says what the service has to reach.
type AccessRequest struct {
	Group                         string
	Sources, DeadLetters, Targets []Resource
	// Old is for brokers older than 3.0, which want a right of its own for idempotent sends.
	Old bool
	// Decisions is the group by which decisions about held records reach the service.
	Decisions string
	// Checks adds the rights without which check and the retention margin do not know, and
	// decisions about held records cannot be made or heard of.
	Checks bool
}

// AccessRule is one right that has to be granted.
type AccessRule struct {
	Resource
	Operation string `json:"operation"`
	Why       string `json:"why"`
}

// Access gives the least rights that the service needs. (READ and WRITE include
// DESCRIBE.)
func Access(r AccessRequest) []AccessRule {
	var rules []AccessRule
	add := func(res Resource, operation, why string) { rules = append(rules, AccessRule{res, operation, why}) }
	add(Resource{"group", r.Group, literal}, "Read", "membership and commits")
	for _, s := range r.Sources {
		add(s, "Read", "delayed and failed records are read")
	}
	for _, t := range r.Targets {
		add(t, "Write", "records that are due are written")
	}
	for _, d := range r.DeadLetters {
		add(d, "Write", "refused records are written")
	}
	if r.Old {
		add(Resource{"cluster", "kafka-cluster", literal}, "IdempotentWrite", "idempotent sends, for brokers older than 3.0")
	}
	if r.Checks {
		for _, s := range r.Sources {
			add(s, "DescribeConfigs", "check and the retention margin read settings")
		}
		for _, d := range slices.Concat(r.DeadLetters, r.Targets) {
			if d.Name != "*" {
				add(d, "DescribeConfigs", "check reads settings")
			}
		}
		add(Resource{"cluster", "kafka-cluster", literal}, "DescribeConfigs", "check reads the brokers' settings")
		if r.Decisions != "" {
			add(Resource{"group", r.Decisions, literal}, "Read", "offsets accept writes decisions about held records, and the service reads them")
		}
	}
	return least(rules)
}

// least leaves out what another rule grants already.
func least(rules []AccessRule) []AccessRule {
	var out []AccessRule
	for i, r := range rules {
		needed := true
		for k, o := range rules {
			if k == i || o.Operation != r.Operation || o.Type != r.Type || !o.covers(r.Resource) {
				continue
			}
			needed = needed && r.covers(o.Resource) && i < k // of two equal ones the first stays
		}
		if needed {
			out = append(out, r)
		}
	}
	return out
}

func (r Resource) covers(other Resource) bool {
	switch {
	case r == other, r.Name == "*" && r.Pattern == literal:
		return true
	case r.Pattern == prefixed:
		return other.Name != "*" && strings.HasPrefix(other.Name, r.Name)
	}
	return false
}

// Command is the rule as Kafka's own tool takes it, for whom, and how the tool connects:
// the brokers, and a file of properties unless it needs none.
func (r AccessRule) Command(brokers, properties, principal string) string {
	on := "--cluster"
	if r.Type != "cluster" {
		on = fmt.Sprintf("--%s %s --resource-pattern-type %s", r.Type, quoted(r.Name), r.Pattern)
	}
	connect := quoted(brokers)
	if properties != "" {
		connect += " --command-config " + quoted(properties)
	}
	return fmt.Sprintf("kafka-acls.sh --bootstrap-server %s --add --allow-principal %s --operation %s %s", connect, quoted(principal), r.Operation, on)
}

// quoted keeps a shell from reading anything into a word.
func quoted(s string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._-:,/@=", c)
	}
	if s != "" && strings.IndexFunc(s, func(c rune) bool { return !plain(c) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
