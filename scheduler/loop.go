package scheduler

import (
	"time"

	"go.uber.org/zap"
)

// atOnce is the timer of a loop that has more to do. Arming one with zero costs more,
// and under the race detector two expired timers of one synctest bubble can crash the
// runtime (seen with Go 1.26).
var atOnce = func() <-chan time.Time {
	now := make(chan time.Time)
	close(now)
	return now
}()

// run is the loop. It ends when a command sets ended.
func (p *partition) run() {
	defer close(p.quit)
	defer p.close()
	timer := time.NewTimer(maxTimer)
	defer timer.Stop()
	p.begin()
	for {
		wake := atOnce
		if wait := p.turn(); wait > 0 {
			timer.Reset(wait)
			wake = timer.C
		}
		select {
		case c := <-p.commands:
			if c == nil {
				return
			}
			c(p)
		case b := <-p.wanted():
			p.accept(b)
		case b, more := <-p.recalled():
			p.acceptRecalled(b, more)
		case r := <-p.commits.results:
			p.committed(r)
		case <-p.port.Ready():
		case <-wake:
		}
	}
}

func (p *partition) begin() {
	boot := p.s.parts.Clock.Boot()
	p.commits.results = make(chan commitResult, 1)
	p.rebuild = beginRebuild(boot)
	p.stream = p.s.parts.Log.Open(p.claim.Topic, p.claim.Partition, p.from())
	p.log.Info("partition claimed", zap.Int64("committed", p.claim.Committed), zap.Bool("completed_set", p.tracker.Restoring()))
}

// close gives everything back. What is still unanswered is in doubt from here on.
func (p *partition) close() {
	p.port.Abandon()
	p.port.Drain(p.over)
	p.port.Close()
	if p.stream != nil {
		p.stream.Close()
	}
	p.index.Clear()
	p.endPass(p.s.parts.Clock.Boot())
	p.unsettle()
	p.endRebuild()
	p.account.Close()
	p.snapshot.Store(nil)
}

// turn does all that can be done now and says how long nothing will have to be
// done. Wall time is read once, so one turn cannot contradict itself.
func (p *partition) turn() time.Duration {
	wall, boot := p.s.parts.Clock.Wall(), p.s.parts.Clock.Boot()
	p.turned.Store(int64(boot))
	p.more = false
	held := p.s.watch.observe(wall, boot)
	p.port.Drain(p.over)
	p.heed()
	p.takeRecalled(wall.UnixMilli())
	p.takeBack()
	p.carryOut(boot)
	p.renewed(boot)
	p.takeIn(wall, boot)
	if p.maySend(held, boot) {
		p.fire(wall.UnixMilli(), boot)
	}
	p.plan(wall.UnixMilli(), boot)
	p.settle(wall.UnixMilli())
	p.step(boot)
	p.maybeCommit(boot)
	p.publish(wall, boot)
	if p.more {
		return 0
	}
	return p.nextWake(wall, boot)
}

// nextWake is the time until the next record is due, and never more than maxTimer:
// after a clock step or a suspension the loop looks again within that.
func (p *partition) nextWake(wall time.Time, boot time.Duration) time.Duration {
	wait := maxTimer
	if due, ok := p.index.NextDue(); ok {
		if due > wall.UnixMilli() {
			wait = min(wait, time.UnixMilli(due).Sub(wall))
		} else if p.popNext > boot {
			wait = min(wait, p.popNext-boot)
		}
	}
	if r := &p.recall; r.passAt > boot && (len(p.late) > 0 || len(r.doubtful) > 0) {
		wait = min(wait, r.passAt-boot)
	}
	if p.commits.wanted {
		wait = min(wait, max(p.commits.notBefore-boot, 0))
	}
	if p.phase == held && p.mayLinger() {
		wait = min(wait, max(p.since+lingerAfter-boot, 0))
	}
	if p.unshown {
		wait = min(wait, max(p.shown+statusEvery-boot, 0))
	}
	if r := p.release; r != nil && r.hurry {
		wait = min(wait, max(r.giveUp-boot, 0))
	}
	return max(wait, 0)
}

// wanted is the stream's channel when there is room for another batch.
func (p *partition) wanted() <-chan Batch {
	if p.have || p.stalled || p.stream == nil || p.renewal != nil {
		return nil
	}
	return p.stream.Batches()
}
