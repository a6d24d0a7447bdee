package delay

import (
	"strings"
	"time"
)

// Rules are what one source's configuration says about its records. They are
// never changed, so all partitions of a source may share them.
type Rules struct {
	// Delay is the delay of records that name none (a ladder topic), if HasDelay.
	Delay    time.Duration
	HasDelay bool
	// OriginTime takes the base time from the header origin-time.
	OriginTime bool
	// MaxDelay bounds how far the due time may be ahead of the base time.
	MaxDelay time.Duration
	// Allow and Deny are globs of target names: the source's own where it has any,
	// else the global ones. An empty Allow allows all.
	Allow, Deny []string
	// AllowSources lets a record be sent to a source, MaxHops times at most.
	AllowSources bool
	MaxHops      int
	// IsSource says whether a topic is one of our sources. Nil: none is. Its answer
	// for a name is remembered.
	IsSource func(topic string) bool
	// Retry makes this a retry source; AcceptBare takes its records even if they
	// carry none of our headers.
	Retry, AcceptBare bool
	// Suffix is what the topic's name has after its base name. Empty: derived from
	// the name.
	Suffix string
	// DeadLetterTopic is the configured one. Empty: derived from the name.
	DeadLetterTopic string
	// KeepSchedulingHeaders passes the consumed headers on.
	KeepSchedulingHeaders bool
	// SourceTimestamp forwards with the source record's timestamp.
	SourceTimestamp bool
}

// DeadLetter names the dead-letter topic of a topic of this source.
func (r *Rules) DeadLetter(topic string) string {
	if r.DeadLetterTopic != "" {
		return r.DeadLetterTopic
	}
	base, _ := r.baseName(topic)
	return base + deadLetterSuffix
}

const (
	deadLetterSuffix = "-dlq"
	redeliverySuffix = "-redelivery"
	ladderMark       = ".retry."
)

// baseName leaves out the suffix of a source's name and says whether it had one.
func (r *Rules) baseName(topic string) (string, bool) {
	if base, ok := cutSuffix(topic, r.Suffix); ok {
		return base, true
	}
	if base, ok := cutSuffix(topic, "-delay"); ok {
		return base, true
	}
	if base, ok := cutSuffix(topic, "-retry"); ok {
		return base, true
	}
	if i := strings.LastIndex(topic, ladderMark); i > 0 && isRung(topic[i+len(ladderMark):]) {
		return topic[:i], true
	}
	return topic, false
}

// cutSuffix is strings.CutSuffix that leaves something.
func cutSuffix(topic, suffix string) (string, bool) {
	if suffix == "" || len(topic) <= len(suffix) {
		return topic, false
	}
	return strings.CutSuffix(topic, suffix)
}

// isRung says whether a name's end is a rung of a ladder: a duration such as 30s
// or 1h30m, or the bare number of the rung.
func isRung(s string) bool {
	if s == "" || s[0] < '0' || s[0] > '9' {
		return false
	}
	for _, unit := range strings.FieldsFunc(s, func(c rune) bool { return c >= '0' && c <= '9' }) {
		switch unit {
		case "ms", "s", "m", "h", "d":
		default:
			return false
		}
	}
	return true
}
