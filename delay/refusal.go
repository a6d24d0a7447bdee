package delay

import (
	"encoding/hex"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Reason says in one word why a record went to its dead-letter topic.
type Reason string

// The reasons. The first three are written by consumers and only passed on here.
const (
	ReasonMaxRetryExceeded  Reason = "MAX_RETRY_EXCEEDED"
	ReasonNonRetryable      Reason = "NON_RETRYABLE"
	ReasonDeserializeFailed Reason = "DESERIALIZE_FAILED"
	ReasonMalformedHeader   Reason = "MALFORMED_HEADER"
	ReasonDelayOutOfRange   Reason = "DELAY_OUT_OF_RANGE"
	ReasonTargetRefused     Reason = "TARGET_REFUSED"
	ReasonUnknownTopic      Reason = "UNKNOWN_TOPIC"
	ReasonNotAuthorized     Reason = "NOT_AUTHORIZED"
	ReasonRecordTooLarge    Reason = "RECORD_TOO_LARGE"
	ReasonLoop              Reason = "LOOP"
)

var reasons = [...]Reason{
	ReasonMaxRetryExceeded, ReasonNonRetryable, ReasonDeserializeFailed,
	ReasonMalformedHeader, ReasonDelayOutOfRange, ReasonTargetRefused,
	ReasonUnknownTopic, ReasonNotAuthorized, ReasonRecordTooLarge, ReasonLoop,
}

// Reasons lists every reason, so that a metric can have its labels from the start.
func Reasons() []Reason { return append([]Reason(nil), reasons[:]...) }

// Refusal says why a record will not be forwarded.
type Refusal struct {
	Reason Reason
	// Detail is one line that names the header or the rule, and the value.
	Detail string
	// FromRules says that the verdict depends on the configuration, not on the
	// record alone: another configuration may take the record.
	FromRules bool
}

// Error implements error.
func (r Refusal) Error() string { return string(r.Reason) + ": " + r.Detail }

// malformed refuses a record that no configuration would take.
func malformed(detail string) *Refusal {
	return &Refusal{Reason: ReasonMalformedHeader, Detail: detail}
}

// malformedHere refuses a record that another configuration might take.
func malformedHere(detail string) *Refusal {
	return &Refusal{Reason: ReasonMalformedHeader, Detail: detail, FromRules: true}
}

func outOfRange(detail string) *Refusal {
	return &Refusal{Reason: ReasonDelayOutOfRange, Detail: detail, FromRules: true}
}

func targetRefused(detail string) *Refusal {
	return &Refusal{Reason: ReasonTargetRefused, Detail: detail, FromRules: true}
}

const (
	maxDetail = 512 // bytes of a dlq-detail
	maxShown  = 64  // bytes of a header's value in it
)

// show renders a header's value for a detail: text in quotes, else hexadecimal.
func show(v []byte) string {
	if v == nil {
		return "null"
	}
	end := ""
	if len(v) > maxShown {
		end = "... (" + strconv.Itoa(len(v)) + " bytes)"
		v = v[:maxShown]
	}
	if printable(v) {
		return `"` + string(v) + `"` + end
	}
	return "0x" + hex.EncodeToString(v) + end
}

// oneLine makes any text fit for a header that people read in a terminal: one
// line, printable, of at most limit bytes.
func oneLine(s string, limit int) string {
	if len(s) > limit {
		s = cut(s, limit-3) + "..."
	}
	if isPlain(s) {
		return s
	}
	return strings.Map(func(c rune) rune {
		switch {
		case c == utf8.RuneError:
			return '?'
		case !unicode.IsPrint(c):
			return ' '
		}
		return c
	}, s)
}

// cut shortens a longer text without splitting a character.
func cut(s string, limit int) string {
	for i := limit; i > limit-utf8.UTFMax && i > 0; i-- {
		if utf8.RuneStart(s[i]) {
			return s[:i]
		}
	}
	return s[:limit]
}

func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}
