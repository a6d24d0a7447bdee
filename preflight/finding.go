package preflight

import (
	"cmp"
	"slices"
)

// Severity is how bad a finding is.
type Severity string

// The severities, worst first.
const (
	Fail    Severity = "fail"    // it will not work, or records will be lost
	Warn    Severity = "warn"    // it works, and something will be regretted
	Unknown Severity = "unknown" // it cannot be proven either way; the finding says why
	Pass    Severity = "pass"
)

// Severities lists all severities, worst first.
func Severities() []Severity { return []Severity{Fail, Warn, Unknown, Pass} }

// Finding is one answer.
type Finding struct {
	ID       string   `json:"id"` // one of a fixed list
	Severity Severity `json:"severity"`
	Subject  string   `json:"subject"`      // the part concerned
	Found    string   `json:"found"`        // what is so
	Do       string   `json:"do,omitempty"` // how to mend it; empty: nothing is to be done
}

// IDs of the findings.
const (
	IDBrokers          = "brokers"
	IDVersions         = "versions"
	IDSources          = "sources"
	IDLeader           = "leader"
	IDTimestamp        = "timestamp_type"
	IDRetention        = "retention"
	IDRetentionBytes   = "retention_bytes"
	IDPending          = "retention_pending"
	IDCleanup          = "cleanup_policy"
	IDTiering          = "tiered_storage"
	IDReplication      = "replication"
	IDDeadLetter       = "dead_letter_topic"
	IDDeadLetterSize   = "dead_letter_size"
	IDDeadLetterSource = "dead_letter_source"
	IDTarget           = "target_topic"
	IDOffsets          = "offsets_retention"
	IDAccess           = "access"
	IDTargets          = "targets_allow"
	IDClock            = "clock"
	IDGroup            = "group"
	IDMembers          = "group_members"
	IDInstance         = "group_instance"
	IDCommits          = "group_commits"
	IDMemory           = "memory"
)

// Count counts the findings of each severity; every severity has an entry.
func Count(findings []Finding) map[Severity]int {
	n := make(map[Severity]int)
	for _, s := range Severities() {
		n[s] = 0
	}
	for _, f := range findings {
		n[f.Severity]++
	}
	return n
}

// sorted puts the worst first and keeps the order of the checks otherwise.
func sorted(findings []Finding) []Finding {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Compare(slices.Index(Severities(), a.Severity), slices.Index(Severities(), b.Severity))
	})
	return findings
}
