package offset

import (
	"errors"
	"fmt"
)

// Decision is what somebody decided about the hold of a partition. It is written as
// commit metadata of another group, since a group that has members takes commits from
// them alone.
type Decision struct {
	Below, Due int64 // which hold it is about
	// Since is the due time (epoch ms) from which on records are sent; what was due
	// before is dropped. Everything drops all.
	Since int64
}

// Candidate is the metadata of a commit for a partition of which it is not known yet
// whether it is ours: nothing of it was done. The commit only shows that its writer owns
// the partition.
const Candidate = "ds-candidate1"

// ErrNoDecision says that metadata is no decision.
var ErrNoDecision = errors.New("no decision about held records")

const decisionForm = "ds-accept1 below=%d due=%d since=%d"

// String is the form in which a decision is committed.
func (d Decision) String() string { return fmt.Sprintf(decisionForm, d.Below, d.Due, d.Since) }

// ParseDecision reads what String has written. The error is ErrNoDecision.
func ParseDecision(metadata string) (Decision, error) {
	var d Decision
	if _, err := fmt.Sscanf(metadata, decisionForm, &d.Below, &d.Due, &d.Since); err != nil || d.String() != metadata {
		return Decision{}, fmt.Errorf("%w: %q", ErrNoDecision, metadata)
	}
	return d, nil
}

// About says whether a hold is the one that was decided about, and still undecided.
func (d Decision) About(h *Hold) bool {
	return h != nil && !h.Decided && h.Below == d.Below && h.Due == d.Due
}
