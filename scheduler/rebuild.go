package scheduler

import (
	"time"

	"go.uber.org/zap"
)

// progressEvery is how often a rebuild that takes long says how far it is.
const progressEvery = 5 * time.Second

// rebuild is the reading of what the log held when the partition was claimed. What is
// written meanwhile is not waited for, so constant traffic cannot prolong it.
type rebuild struct {
	began   time.Duration // boot time
	told    time.Duration
	from    int64 // offsets; target -1: not known yet
	target  int64
	records int64
	over    bool
}

func beginRebuild(boot time.Duration) rebuild {
	return rebuild{began: boot, told: boot, target: -1}
}

// aim learns from the first batch how far there is to read.
func (r *rebuild) aim(position int64, b *Batch) {
	if r.target < 0 && b.Err == nil {
		r.from, r.target = max(position, b.LogStart), b.LogEnd
	}
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
		took := boot - r.began
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
