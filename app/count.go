package app

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"delay-scheduler/config"
	"delay-scheduler/delay"
	"delay-scheduler/kafka"
	"delay-scheduler/offset"
	"delay-scheduler/scheduler"
)

// countEvery is how often progress is told.
const countEvery = 100 * time.Millisecond

// countAll reads every partition, some at a time, until all are read or the time is
// up. A partition that cannot be read has that for its problem.
func countAll(ctx context.Context, c *config.Config, topics []kafka.TopicInfo, committed map[string]map[int32]kafka.Committed, all []PartitionOffsets, o OffsetsOptions) error {
	fetcher, err := kafka.NewFetcher(kafka.FetchOptions{Options: clusterOptions(c)}, zap.NewNop(), nil)
	if err != nil {
		return err
	}
	defer fetcher.Close()
	ids := map[string]offset.TopicID{}
	for _, t := range topics {
		ids[t.Name] = t.ID
	}
	var read atomic.Int64
	var g errgroup.Group
	g.SetLimit(offsetsParallel)
	done := make(chan error, 1)
	go func() {
		for i := range all {
			p := &all[i]
			g.Go(func() error {
				n, err := newCounter(c, p, ids[p.Topic], committed[p.Topic][p.Partition])
				if err != nil {
					return err
				}
				n.run(ctx, fetcher, o.Read, &read)
				return nil
			})
		}
		done <- g.Wait()
	}()
	tick := time.NewTicker(countEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			if o.Progress != nil {
				o.Progress(read.Load())
			}
		}
	}
}

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

// run reads up to the log's end as it was, limit offsets, or the end of ctx.
func (n *counter) run(ctx context.Context, fetcher *kafka.Fetcher, limit int64, read *atomic.Int64) {
	next := n.from
	if end := min(n.p.stable, n.from+limit); next < end {
		stream := fetcher.Open(n.p.Topic, n.p.Partition, n.from)
		defer stream.Close()
		for next < end && ctx.Err() == nil {
			select {
			case b := <-stream.Batches():
				if b.Err != nil {
					n.p.Problem = "it cannot be read: " + b.Err.Error()
					return
				}
				for i := range b.Records {
					if r := &b.Records[i]; r.Offset < end {
						n.take(r)
						read.Add(1)
					}
				}
				next = min(b.Next, end)
			case <-ctx.Done():
			}
		}
	}
	n.counted.Read = next - n.from
	n.counted.Done = n.counted.Read - n.counted.Pending
	n.counted.All = next >= n.p.stable
	n.p.Counted = &n.counted
}

// take looks at one record.
func (n *counter) take(rec *delay.Record) {
	req, ref := n.source.Judge(n.parser, rec)
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
