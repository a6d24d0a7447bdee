package scheduler

import (
	"cmp"
	"slices"
	"time"

	"delay-scheduler/bucket"
)

const (
	// leadLeast and leadMost bound how long before it is due the payload of a record is
	// asked for.
	leadLeast = 3 * time.Second
	leadMost  = 2 * time.Minute
	// horizonMost is how far ahead payloads are read back however much room there is.
	horizonMost = 10 * time.Minute
	// windowRecords is the least that is worth a pass over the log, unless it is urgent.
	windowRecords = 256
	// drawMost bounds a window, and so what one turn does to draw it.
	drawMost = 1 << 18
	// slackShare of what is held is left free by a window, for what is read meanwhile.
	slackShare = 8
	// passPause is the least time between two passes, so that a log that gives nothing is
	// not asked without end. It holds for what is late as well: a pass for that alone,
	// begun before a window may be drawn again, keeps the window waiting until its end, and
	// by then the next is late.
	passPause = 100 * time.Millisecond
	// gapBytes is what is rather read over than left out: a request takes about as long
	// as reading so much.
	gapBytes = 256 << 10
	// sparse is one wanted record in how many makes it worth while to say which. Where
	// they lie denser, those that have become late meanwhile are taken on the way.
	sparse = 4
)

// lead is how long before the earliest record without payload is due its window is
// read. Twice the time that the last pass took leaves the other half for the next.
func (r *recalling) lead() time.Duration {
	return min(max(2*r.took+leadLeast, leadLeast), leadMost)
}

// plan decides whether payloads are read back now, and which: what is late, and the
// window of the earliest records beyond the edge, as many as there is room for.
func (p *partition) plan(now int64, boot time.Duration) {
	r := &p.recall
	if r.stream != nil || boot < r.passAt || p.stream == nil && !p.stalled || p.phase == gone {
		return
	}
	wanted := p.lateWanted(r.wanted[:0])
	wanted = p.draw(wanted, now, boot)
	wanted = append(wanted, r.doubtful...)
	if len(wanted) == 0 {
		r.free(p.account)
		return
	}
	slices.SortFunc(wanted, func(a, b bucket.Wanted) int { return cmp.Compare(a.Offset, b.Offset) })
	wanted = slices.CompactFunc(wanted, func(a, b bucket.Wanted) bool { return a.Offset == b.Offset })
	r.wanted, r.at, r.began = wanted, 0, boot
	r.stream = p.s.parts.Recaller.Recall(p.claim.Topic, p.claim.Partition, p.claim.TopicID, r.ranges(p.room.each))
	r.doubtful = r.doubtful[:0]
	p.metrics.passes.Inc()
}

// draw moves the next window out of the far tier and reserves room for its payloads.
func (p *partition) draw(dst []bucket.Wanted, now int64, boot time.Duration) []bucket.Wanted {
	r := &p.recall
	due, ok := p.index.FarDue()
	if !ok {
		return dst
	}
	ahead := time.Duration(min(due-now, leadMost.Milliseconds()*2)) * time.Millisecond
	if ahead > r.lead() {
		return dst
	}
	n := min((p.account.Free()-p.account.Used()/slackShare)/p.room.each, drawMost)
	if n < windowRecords && ahead > 0 {
		r.passAt = boot + passPause
		p.s.parts.Budget.Ask(due)
		return dst
	}
	for n = max(n, 0); n > 0 && !p.account.Take(n*p.room.each); {
		n /= 2
	}
	r.reserved = n * p.room.each
	before := len(dst)
	dst = p.index.Draw(int(n), now+horizonMost.Milliseconds(), dst)
	drawn := dst[before:]
	p.charge(int64(len(drawn)) * bucket.Cost(0))
	r.window = len(drawn) > 0
	drawn = slices.DeleteFunc(drawn, func(w bucket.Wanted) bool {
		// What will wait for a target in trouble is not read back before it is well, and
		// what was deleted not at all.
		return p.lanes.byID[w.Lane].shelf.Len() > 0 || w.Offset < p.fetched.logStart
	})
	return dst[:before+len(drawn)]
}

// charge takes bytes from what is reserved, or from the account even if they are not
// there.
func (p *partition) charge(n int64) {
	if p.recall.reserved >= n {
		p.recall.reserved -= n
		return
	}
	p.account.Force(n)
}

// ranges are the runs of the log that hold what is wanted. What lies close together is
// read in one go; what is doubtful is asked for by itself, since only a fetch exactly at
// an offset proves that nothing is there.
func (r *recalling) ranges(recordBytes int64) []Range {
	gap := max(gapBytes/max(recordBytes, 1), 1)
	var out []Range
	offsets := make([]int64, 0, len(r.wanted))
	begin := 0 // of the last range's offsets
	end := func() {
		if n := len(out); n > 0 && out[n-1].Below-out[n-1].From > sparse*int64(len(offsets)-begin) {
			out[n-1].Only = offsets[begin:len(offsets):len(offsets)]
		}
		begin = len(offsets)
	}
	for _, w := range r.wanted {
		_, alone := r.alone[w.Offset]
		if n := len(out); n > 0 && !alone && !out[n-1].Exact && w.Offset-out[n-1].Below <= gap {
			out[n-1].Below = w.Offset + 1
		} else {
			end()
			out = append(out, Range{From: w.Offset, Below: w.Offset + 1, Exact: alone})
		}
		offsets = append(offsets, w.Offset)
	}
	end()
	return out
}
