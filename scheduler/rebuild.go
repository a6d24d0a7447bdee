package scheduler

import (
	"math"
	"time"

	"go.uber.org/zap"

	"delay-scheduler/bucket"
	"delay-scheduler/delay"
)

// progressEvery is how often a rebuild that takes long says how far it is.
const progressEvery = 5 * time.Second

// keptOfRebuild is how far ahead payloads are kept by a rebuild of more than fits.
const keptOfRebuild = 30 * time.Second

// keptBytesPerMs is a slow disk's share for one partition: by so much longer payloads are
// kept as reading all of it might take.
const keptBytesPerMs = 10 << 10

// rebuild is the reading of what the log held when the partition was claimed. What is
// written meanwhile is not waited for, so constant traffic cannot prolong it.
type rebuild struct {
	began   time.Duration // boot time
	told    time.Duration
	from    int64 // offsets; target -1: not known yet
	target  int64
	records int64
	over    bool

	need int64 // what the payloads of all of it would take, as estimated
	cut  int64 // due time, in epoch ms, from which no payload is kept if they do not fit
	made bool  // what was kept beyond it before that was known has been given up
}

func beginRebuild(boot time.Duration) rebuild {
	return rebuild{began: boot, told: boot, target: -1}
}

// aim learns from the first batch how far there is to read, and how much that may be.
func (r *rebuild) aim(position int64, b *Batch, wall time.Time) {
	if r.target >= 0 || b.Err != nil {
		return
	}
	r.from, r.target = max(position, b.LogStart), b.LogEnd
	r.cut = wall.Add(keptOfRebuild).UnixMilli()
	if n := min(len(b.Records), 32); n > 0 {
		bytes := 0
		for i := range b.Records[:n] {
			bytes += len(delay.Pack(&b.Records[i], nil, nil))
		}
		r.need = max(r.target-r.from, 0) * bucket.Cost(bytes/n)
		r.cut += r.need / keptBytesPerMs
	}
}

// spare says that a record read for a rebuild is better left without payload. When all of
// them cannot be held, holding what is far for a while only means giving it up again,
// and the collector looks at it meanwhile: a rebuild that fills the budget took twice as
// long as reading the log.
func (p *partition) spare(due int64) bool {
	r := &p.rebuild
	if r.over || due <= r.cut || p.s.rebuilding.Load() <= p.s.parts.Budget.Limit() {
		return false
	}
	if !r.made {
		r.made = true
		freed, _ := p.index.Spill(math.MaxInt64, r.cut)
		p.account.Release(freed)
	}
	return true
}

// endRebuild takes its payloads out of what is expected.
func (p *partition) endRebuild() {
	p.s.rebuilding.Add(-p.rebuild.need)
	p.rebuild.need = 0
}

// share is how much of the way is done, 0 to 1.
func (r *rebuild) share(position int64) float64 {
	if r.over {
		return 1
	}
	if r.target < 0 {
		return 0
	}
	if r.target <= r.from {
		return 1
	}
	return min(1, max(0, float64(position-r.from)/float64(r.target-r.from)))
}

// left is how long the rest takes at the speed so far; 0 when that cannot be said.
func (r *rebuild) left(position int64, boot time.Duration) time.Duration {
	share := r.share(position)
	if share <= 0 || r.over {
		return 0
	}
	return time.Duration(float64(boot-r.began) * (1 - share) / share)
}

// rebuilt follows the rebuild after a batch.
func (p *partition) rebuilt(b *Batch, boot time.Duration) {
	r := &p.rebuild
	if r.over || b.Err != nil {
		return
	}
	r.records += int64(len(b.Records))
	position := p.tracker.Next()
	if position >= r.target && !p.tracker.Restoring() {
		r.over = true
		p.endRebuild()
		p.shown = boot - statusEvery // whoever waits for it sees it at once
		took := boot - r.began
		// A window of scattered records is a pass over the same log.
		p.recall.took = max(p.recall.took, took)
		p.metrics.rebuild.Observe(took.Seconds())
		p.log.Info("buckets rebuilt", zap.Duration("took", took), zap.Int64("records", r.records), zap.Int("pending", p.tracker.Pending()))
		return
	}
	if boot-r.told >= progressEvery {
		r.told = boot
		p.log.Info("rebuilding the buckets", zap.Int64("records", r.records), zap.Int64("position", position), zap.Int64("until", r.target),
			zap.Float64("share", r.share(position)), zap.Duration("left", r.left(position, boot).Round(time.Second)))
	}
}
