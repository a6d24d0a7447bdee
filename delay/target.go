package delay

import (
	"bytes"
	"math"
	"strings"
)

const (
	// maxTopicName is Kafka's limit.
	maxTopicName = 249
	// maxVerdicts bounds the names that a partition remembers. Producers choose the
	// names, so it must have a bound: about 100 KiB for a partition at worst.
	maxVerdicts = 256
)

// targets judges target names and remembers the verdicts, so that a record costs
// neither a match of all patterns nor an allocation for its target's name.
type targets struct {
	rules   *Rules
	known   map[string]*verdict
	last    *verdict // of the record before: most often the same target
	scratch []byte   // where a derived name is put together
}

// verdict is what the rules say of one name.
type verdict struct {
	name   string
	source bool   // the target is itself a source
	why    string // why it is refused; empty: it is not
}

// readTarget finds the target and judges it.
func (p *Parser) readTarget(f *fields, q *Request) *Refusal {
	name, what := p.targets.named(f, p.rules.Retry)
	if what == "" {
		if !p.rules.Retry {
			return malformedHere("the record has no " + HeaderTargetTopic)
		}
		if p.defaultTarget == "" {
			return malformedHere("the record has no " + HeaderTargetTopic + " and no " + HeaderOriginalTopic +
				", and the source's name has no suffix to leave out")
		}
		name, what = p.targets.derived(p.defaultTarget, f.group), "the derived target"
		q.FromRules = true
	}
	v := p.targets.judge(name)
	if v.why != "" {
		return targetRefused(what + " " + show(name) + v.why)
	}
	q.Target = v.name
	if v.source {
		return p.readHops(f, q)
	}
	return nil
}

// named finds the target that the headers name, and says which.
func (t *targets) named(f *fields, retry bool) (name []byte, what string) {
	switch {
	case f.target != nil:
		return f.target.Value, HeaderTargetTopic
	case !retry || f.originalTopic == nil:
		return nil, ""
	case f.group != nil:
		return t.redelivery(f.originalTopic.Value, f.group.Value), "the target of " + HeaderOriginalTopic + " and " + HeaderTargetGroup
	}
	return f.originalTopic.Value, HeaderOriginalTopic
}

// derived is the target by the source's own name.
func (t *targets) derived(base string, group *Header) []byte {
	t.scratch = append(t.scratch[:0], base...)
	if group != nil {
		t.appendGroup(group.Value)
	}
	return t.scratch
}

// redelivery names the topic that only one group reads.
func (t *targets) redelivery(topic, group []byte) []byte {
	t.scratch = append(t.scratch[:0], topic...)
	t.appendGroup(group)
	return t.scratch
}

func (t *targets) appendGroup(group []byte) {
	t.scratch = append(append(append(t.scratch, '-'), group...), redeliverySuffix...)
}

// readHops counts how often the record has gone from source to source. Only
// there it is believed: elsewhere the header is ignored and left out.
func (p *Parser) readHops(f *fields, q *Request) *Refusal {
	var hops int64
	if f.hops != nil {
		var ref *Refusal
		if hops, ref = readSaturated(HeaderDelayHops, f.hops.Value); ref != nil {
			ref.FromRules = true
			return ref
		}
	}
	if hops >= int64(p.rules.MaxHops) {
		return &Refusal{Reason: ReasonLoop, FromRules: true, Detail: HeaderDelayHops + " " + decimal(hops) +
			": sent to a source as often as targets.max_hops " + decimal(int64(p.rules.MaxHops)) + " allows, now to " + q.Target}
	}
	q.Hops = int32(min(hops+1, math.MaxInt32))
	return nil
}

// judge gives the verdict on a name.
func (t *targets) judge(name []byte) *verdict {
	if t.last != nil && t.last.name == string(name) {
		return t.last
	}
	v := t.known[string(name)]
	if v == nil {
		if len(name) > maxTopicName {
			return &verdict{why: illegal} // not remembered: it has no bound
		}
		v = t.decide(string(name))
		t.remember(v)
	}
	t.last = v
	return v
}

// remember forgets all when it is full: who sends to more names than that pays
// with a decision for each, and nobody else does.
func (t *targets) remember(v *verdict) {
	switch {
	case t.known == nil:
		t.known = make(map[string]*verdict)
	case len(t.known) >= maxVerdicts:
		clear(t.known)
	}
	t.known[v.name] = v
}

const illegal = " is not a legal topic name"

func (t *targets) decide(name string) *verdict {
	v := &verdict{name: name}
	if !ValidTopic(name) {
		v.why = illegal
		return v
	}
	if strings.HasPrefix(name, "__") {
		v.why = " is an internal topic"
		return v
	}
	for _, glob := range t.rules.Deny {
		if MatchGlob(glob, name) {
			v.why = " is refused by targets.deny " + glob
			return v
		}
	}
	if !t.allowed(name) {
		v.why = " matches nothing in targets.allow"
		return v
	}
	v.source = t.rules.IsSource != nil && t.rules.IsSource(name)
	if v.source && !t.rules.AllowSources {
		v.why = " is itself a source, and targets.allow_sources is off"
	}
	return v
}

func (t *targets) allowed(name string) bool {
	for _, glob := range t.rules.Allow {
		if MatchGlob(glob, name) {
			return true
		}
	}
	return len(t.rules.Allow) == 0
}

// MatchGlob says whether a name matches a pattern, in which * stands for any
// number of characters and ? for one.
func MatchGlob(pattern, name string) bool {
	p, n := 0, 0
	star, mark := -1, 0 // the last * and where its match ends so far
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0:
			mark++
			p, n = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// ValidTopic says whether Kafka takes a topic of this name.
func ValidTopic(name string) bool {
	return name != "." && name != ".." && len(name) <= maxTopicName && legalName(name)
}

// ValidGlob says whether a pattern can match the name of a topic.
func ValidGlob(p string) bool {
	if len(p) > maxTopicName {
		return false
	}
	literals := strings.NewReplacer("*", "a", "?", "a").Replace(p)
	return ValidTopic(literals)
}

func legalNameBytes(name []byte) bool {
	return len(name) > 0 && bytes.IndexFunc(name, illegalRune) < 0
}

func legalName(name string) bool {
	return name != "" && strings.IndexFunc(name, illegalRune) < 0
}

func illegalRune(c rune) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		return false
	}
	return true
}
