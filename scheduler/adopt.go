package scheduler

import (
	"fmt"

	"go.uber.org/zap"

	"delay-scheduler/delay"
	"delay-scheduler/offset"
)

// adoptAfter is how many records without any header of ours a partition may begin with
// before it is taken for another program's.
const adoptAfter = 1000

// candidacy is the state of a partition of which it is not known yet whether it is ours:
// only a pattern matches its topic, and nothing was committed for it. Another framework's
// orders-retry would be emptied into a dead-letter topic (design.md section 4,
// subscription). While it lasts, nothing is stored or sent, and what is committed says
// no more than that the partition is ours to look at.
type candidacy struct {
	open bool  // undecided
	from int64 // where the partition began when it was first read; -1: it was not
	seen int   // records without any header of ours
	over bool  // nothing more is read: another program's
}

func newCandidacy(c Claim, s Source) candidacy {
	return candidacy{open: s.Candidate && c.Committed < 0, from: -1}
}

// unmarked takes the commit of a candidate for what it is worth: none.
func (c Claim) unmarked() Claim {
	if c.Metadata == offset.Candidate {
		c.Committed, c.Metadata = -1, ""
	}
	return c
}

// ours says whether a batch settles that the partition is ours.
func (c *candidacy) ours(b *Batch) bool {
	for i := range b.Records {
		if delay.CarriesOurs(b.Records[i].Headers) {
			return true
		}
	}
	if c.from < 0 {
		c.from = b.Next
		if len(b.Records) > 0 {
			c.from = b.Records[0].Offset
		}
	}
	c.seen += len(b.Records)
	return false
}

// examine looks at a batch of a candidate and says whether it may be taken in.
func (p *partition) examine(b *Batch) bool {
	c := &p.candidate
	if !c.ours(b) {
		if c.seen >= adoptAfter && !c.over {
			c.over = true
			p.stream.Close()
			p.stream = nil
			p.log.Warn("the topic is not read: its first records carry none of our headers; name it in sources if it is ours", zap.Int("records", c.seen))
		}
		return false
	}
	c.open = false
	// A stop before anything completes has to leave a commit of ours, not the candidate's:
	// with that, what is deleted meanwhile would not be missed.
	p.commits.dirty = true
	if c.seen == 0 {
		return true
	}
	// Those that were passed over are ours too, and malformed.
	p.log.Info("a record with our headers came: the topic is ours", zap.Int("passed_over", c.seen))
	p.stream.Close()
	p.stream = p.s.parts.Log.Open(p.claim.Topic, p.claim.Partition, c.from)
	c.seen = 0
	return false
}

func (c *candidacy) describe() string {
	return fmt.Sprintf("the first %d records carry none of our headers, and only a pattern of sources matches the topic: name it there if it is ours", c.seen)
}
