package app

import (
	"context"
	"fmt"
	"time"

	"delay-scheduler/config"
	"delay-scheduler/delay"
	"delay-scheduler/kafka"
	"delay-scheduler/offset"
	"delay-scheduler/scheduler"
)

// counter reads one partition as a restarted scheduler would, and counts what that
// would find pending.
type counter struct {
	p       *PartitionOffsets
	source  scheduler.Source
	parser  *delay.Parser
	tracker *offset.Tracker
	from    int64
	lanes   map[uint64]*LaneMark // whose names are looked for
	counted Counted
}

func newCounter(c *config.Config, p *PartitionOffsets, id offset.TopicID, commit kafka.Committed) (*counter, error) {
	all, err := newSources(c)
	if err != nil {
		return nil, err
	}
	n := &counter{p: p, source: all.of(p.Topic), from: p.LogStart, lanes: map[uint64]*LaneMark{}}
	for i := range p.Lanes {
		n.lanes[p.Lanes[i].id] = &p.Lanes[i]
	}
	n.parser = delay.NewParser(p.Topic, n.source.Rules)
	n.from = max(n.from, commit.Offset)
	n.tracker = offset.New(offset.Options{TopicID: id, Start: n.from, Fingerprint: n.source.Fingerprint})
	if set, err := offset.Decode(commit.Metadata, id, commit.Offset); err == nil {
		n.tracker.Restore(set)
	}
	return n, nil
}

// run reads up to the log's end as it was, or limit offsets.
func (n *counter) run(ctx context.Context, fetcher *kafka.Fetcher, limit int64) error {
	end := min(n.p.stable, n.from+limit)
	next := n.from
	if next < end {
		stream := fetcher.Open(n.p.Topic, n.p.Partition, n.from)
		defer stream.Close()
		for next < end {
			select {
			case b := <-stream.Batches():
				if b.Err != nil {
					return fmt.Errorf("read %s/%d: %w", n.p.Topic, n.p.Partition, b.Err)
				}
				for i := range b.Records {
					if r := &b.Records[i]; r.Offset < end {
						n.take(r)
					}
				}
				next = min(b.Next, end)
			case <-ctx.Done():
				return fmt.Errorf("read %s/%d, at offset %d of %d: %w", n.p.Topic, n.p.Partition, next, end, context.Cause(ctx))
			}
		}
	}
	n.counted.Read = next - n.from
	n.counted.Done = n.counted.Read - n.counted.Pending
	n.counted.All = next >= n.p.LogEnd
	n.p.Counted = &n.counted
	return nil
}

// take looks at one record.
func (n *counter) take(rec *delay.Record) {
	req, ref := judge(n.source, n.parser, rec)
	target, due, fromRules := req.Target, req.Due, req.FromRules
	if ref != nil {
		target, due, fromRules = n.source.Rules.DeadLetter(rec.Topic), offset.Refused, ref.FromRules
	}
	lane := offset.LaneOf(target)
	if mark := n.lanes[lane]; mark != nil {
		mark.Target = target
	}
	if n.tracker.Read(rec.Offset, due, lane, fromRules) {
		return
	}
	n.counted.Pending++
	if ref != nil {
		return
	}
	at := time.UnixMilli(due)
	if n.counted.NextDue == nil || at.Before(*n.counted.NextDue) {
		n.counted.NextDue = &at
	}
	if n.counted.LastDue == nil || at.After(*n.counted.LastDue) {
		n.counted.LastDue = &at
	}
}
