package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"delay-scheduler/config"
	"delay-scheduler/kafka"
	"delay-scheduler/offset"
)

// OffsetsOptions say what is shown of the group's commits.
type OffsetsOptions struct {
	Topics []string // empty: all sources that there are
	// Read is how many records of each partition are read to find out which of them are
	// pending. 0: none.
	Read int64
	// Progress hears now and then how many of them were read. It must not block for long.
	Progress func(read int64)
}

// PartitionOffsets is one partition's commit, decoded.
type PartitionOffsets struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed *int64 `json:"committed,omitempty"` // everything below is done
	LogStart  int64  `json:"log_start"`
	LogEnd    int64  `json:"log_end"`
	Lag       int64  `json:"lag"`     // what a Kafka UI shows: log end - committed
	Problem   string `json:"problem"` // why nothing is known of what is done above; empty: it is known

	MetadataCharacters int        `json:"metadata_characters"`
	Known              int64      `json:"known_below"` // of offsets from here on the commit says nothing
	Horizon            *time.Time `json:"horizon,omitempty"`
	HorizonOffset      int64      `json:"horizon_offset,omitempty"`
	Lanes              []LaneMark `json:"lanes,omitempty"`
	PendingExceptions  int64      `json:"pending_exceptions"`
	DoneExceptions     int64      `json:"done_exceptions"`
	Encoding           string     `json:"encoding,omitempty"` // of the exceptions, in blocks

	Held *HeldPartition `json:"held,omitempty"` // what is kept back until somebody decides

	Counted *Counted `json:"counted,omitempty"` // nil: not read

	stable int64 // up to where it can be read: before the oldest open transaction
}

// LaneMark is a target that lags behind, with its own horizon.
type LaneMark struct {
	Lane    string    `json:"lane"`             // the hash in the commit
	Target  string    `json:"target,omitempty"` // known when a record for it was read
	Horizon time.Time `json:"horizon"`
	id      uint64
}

// Counted is what reading the partition has shown.
type Counted struct {
	Read    int64      `json:"read"`    // offsets looked at, from the committed one on
	Pending int64      `json:"pending"` // of these
	Done    int64      `json:"done"`    // of these, or there is no record
	All     bool       `json:"all"`     // nothing is left to read
	NextDue *time.Time `json:"next_due,omitempty"`
	LastDue *time.Time `json:"last_due,omitempty"`
}

// Estimate is how many records of the partition are pending. It is exact if all were
// read, and otherwise taken from those that were; known is false if none was.
func (p *PartitionOffsets) Estimate() (n int64, exact, known bool) {
	c := p.Counted
	switch {
	case p.Lag == 0:
		return 0, true, true
	case c == nil || c.Read == 0:
		return 0, false, false
	case c.All:
		return c.Pending, true, true
	}
	// The first one read is always pending: the commit is where the oldest one is. It says
	// nothing of the others.
	rest := float64(max(c.Pending-1, 0)) / float64(max(c.Read-1, 1))
	return c.Pending + int64(rest*float64(p.Lag-c.Read)), false, true
}

// offsetsParallel bounds how many partitions are read at a time.
const offsetsParallel = 8

// Offsets decodes what the group has committed of its sources.
func Offsets(ctx context.Context, c *config.Config, o OffsetsOptions) ([]PartitionOffsets, error) {
	admin, err := kafka.NewAdmin(clusterOptions(c))
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	topics, err := sourceTopics(ctx, admin, c, o.Topics)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, t := range topics {
		names = append(names, t.Name)
	}
	committed, err := admin.Committed(ctx, c.Group.ID, names...)
	if err != nil {
		return nil, err
	}
	var all []PartitionOffsets
	for _, t := range topics {
		bounds, err := admin.Bounds(ctx, t.Name)
		if err != nil {
			return nil, err
		}
		for p, b := range bounds {
			all = append(all, decodeCommit(t, p, b, committed[t.Name][p]))
		}
	}
	slices.SortFunc(all, func(a, b PartitionOffsets) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	if o.Read > 0 {
		err = countAll(ctx, c, topics, committed, all, o)
	}
	return all, err
}

// sourceTopics are the named topics, or all that are sources.
func sourceTopics(ctx context.Context, admin *kafka.Admin, c *config.Config, named []string) ([]kafka.TopicInfo, error) {
	all, err := admin.Topics(ctx)
	if err != nil {
		return nil, err
	}
	var found []kafka.TopicInfo
	for _, t := range all {
		if _, source := c.SourceFor(t.Name); slices.Contains(named, t.Name) || len(named) == 0 && source {
			found = append(found, t)
		}
	}
	for _, name := range named {
		if !slices.ContainsFunc(found, func(t kafka.TopicInfo) bool { return t.Name == name }) {
			return nil, fmt.Errorf("topic %s: %w", name, kafka.ErrUnknownTopic)
		}
	}
	return found, nil
}

// decodeCommit reads one partition's commit.
func decodeCommit(t kafka.TopicInfo, partition int32, b kafka.Bounds, commit kafka.Committed) PartitionOffsets {
	p := PartitionOffsets{Topic: t.Name, Partition: partition, LogStart: b.Start, LogEnd: b.End, Lag: b.End - b.Start, stable: b.Stable}
	if commit.Metadata == offset.Candidate {
		p.Problem = "not adopted: only a pattern of sources matches the topic, and no record of the partition carries our headers yet"
		p.Known = b.Start
		return p
	}
	if commit.Offset < 0 {
		p.Problem = "no commit: this group has not read the partition yet"
		p.Known = b.Start
		return p
	}
	p.Committed, p.Known = &commit.Offset, commit.Offset
	p.Lag = max(0, b.End-max(commit.Offset, b.Start))
	p.MetadataCharacters = len(commit.Metadata)
	if info, err := offset.Inspect(commit.Metadata); err == nil {
		p.describe(info)
	}
	if _, err := offset.Decode(commit.Metadata, t.ID, commit.Offset); err != nil {
		p.Problem = metadataProblem(err)
	}
	return p
}

// metadataProblem says what it means that the metadata cannot be used.
func metadataProblem(err error) string {
	switch {
	case errors.Is(err, offset.ErrNone):
		return "the commit has no metadata: nothing is known to be done above the committed offset"
	case errors.Is(err, offset.ErrForeign):
		return "the metadata is another program's: the group is shared with one, or its offsets were set by hand"
	case errors.Is(err, offset.ErrOtherTopic):
		return "the commit is of a topic that was deleted and made again: it will be read from its start"
	}
	return err.Error() + ": nothing is known to be done above the committed offset"
}

func (p *PartitionOffsets) describe(info offset.Info) {
	if h := info.Hold; h != nil {
		held := newHeldPartition(p.Topic, p.Partition, h)
		p.Held = &held
	}
	for _, s := range info.Segments {
		p.Known = max(p.Known, s.To)
		p.PendingExceptions += s.Pending
		p.DoneExceptions += s.Done
		if s.Kinds != "" {
			if p.Encoding != "" {
				p.Encoding += ", "
			}
			p.Encoding += s.Kinds
		}
		if s.Horizon != nil && s.Horizon.Due > 0 {
			h := time.UnixMilli(s.Horizon.Due)
			if p.Horizon == nil || h.After(*p.Horizon) {
				p.Horizon, p.HorizonOffset = &h, s.Horizon.Offset
			}
		}
		for _, l := range s.Lanes {
			p.Lanes = append(p.Lanes, LaneMark{Lane: fmt.Sprintf("%016x", l.Lane), Horizon: time.UnixMilli(l.Horizon.Due), id: l.Lane})
		}
	}
}
