package forward

import (
	"context"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"
)

// askTimeout bounds one question to the cluster.
const askTimeout = 10 * time.Second

// park stops a lane because its target is in trouble. Called with mu held.
func (f *Forwarder) park(l *lane, err *Error, at time.Duration) {
	first := l.state != parked
	l.err = err
	if first {
		l.state, l.since = parked, at
		l.epoch.Add(1)
		l.trial = 0
		l.line.lapse(at + grantFor)
		f.metrics.parks.WithLabelValues(className(err.Class)).Inc()
		f.logLane(at, "target in trouble: its records wait", l, err)
	}
	f.noteRefusal(l, err, at)
	if first {
		f.putOff(l, at)
		f.startProbe(l)
	}
}

// putOff sets the next probe: full jitter, so that the lanes that one broker's failure
// parked together do not come back together, and never past the moment at which the
// target is given up, so that this rests on a fresh answer.
func (f *Forwarder) putOff(l *lane, at time.Duration) {
	backoff := f.opts.ProbeMax
	if l.failed < 30 {
		backoff = min(backoff, f.opts.ProbeMin<<l.failed)
	}
	l.failed++
	l.nextAt = at + f.opts.ProbeMin + rand.N(backoff-f.opts.ProbeMin+1)
	if r := l.refused; r.firstAt != never && r.verdict == nil {
		if end := r.firstAt + f.opts.GiveUpAfter; end > at {
			l.nextAt = min(l.nextAt, end)
		}
	}
}

// startProbe gives a lane the goroutine that asks for its target. Called with mu held.
func (f *Forwarder) startProbe(l *lane) {
	if l.quit != nil || f.closed {
		return
	}
	quit := make(chan struct{})
	l.quit = quit
	f.spawn(func(ctx context.Context) { f.probe(ctx, l, quit) })
}

// probe asks the cluster for a lane's target until it may be written to.
func (f *Forwarder) probe(ctx context.Context, l *lane, quit <-chan struct{}) {
	for {
		// What need not wait arms no timer: under the race detector two expired timers
		// of one synctest bubble can crash the runtime (seen with Go 1.26).
		if wait := f.untilProbe(l); wait > 0 {
			if !pause(ctx, quit, wait) {
				return
			}
			continue
		}
		p := f.beginAsking(l, quit)
		if p == nil {
			return
		}
		err := ask(ctx, p, l.target)
		if ctx.Err() != nil {
			return
		}
		if f.answered(l, err) {
			return
		}
	}
}

// pause waits, and says whether to go on.
func pause(ctx context.Context, quit <-chan struct{}, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-quit:
		return false
	case <-timer.C:
		return true
	}
}

func ask(ctx context.Context, p Producer, target string) *Error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return p.Resolve(ctx, target)
}

// untilProbe is how long a lane's goroutine has to wait before it may ask.
func (f *Forwarder) untilProbe(l *lane) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l.handing.Load() > 0 || f.producer == nil {
		return time.Millisecond
	}
	return max(l.nextAt-f.boot(), 0)
}

// beginAsking marks a lane as being asked for. Nil: the lane was dropped meanwhile.
func (f *Forwarder) beginAsking(l *lane, quit <-chan struct{}) Producer {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-quit:
		return nil
	default:
	}
	l.asking = true
	return f.producer
}

// answered takes what the cluster said about a target, and says whether the lane needs
// its goroutine no more.
func (f *Forwarder) answered(l *lane, err *Error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.boot()
	l.asking, l.askedAt = false, at
	if err == nil {
		f.healed(l, at)
		return true
	}
	if err.Class == Fatal {
		f.breakDown(err)
	}
	if l.state == resolving {
		// park wants to start a goroutine; it is this one.
		f.park(l, err, at)
		return false
	}
	l.err = err
	f.noteRefusal(l, err, at)
	f.putOff(l, at)
	return false
}

// healed lets a lane take records after a probe: all of them if it was never in
// trouble, else a few first, because a topic that is there may still refuse to be
// written to. Called with mu held.
func (f *Forwarder) healed(l *lane, at time.Duration) {
	l.quit = nil
	l.refused.healedAt = at
	l.since = at
	if l.state == resolving {
		l.state = open
	} else {
		l.state, l.trial = halfOpen, 0
	}
	f.serve(l, at)
}

// thrived notes that a target has acknowledged records of the given epoch. Called with
// mu held.
func (f *Forwarder) thrived(l *lane, epoch uint32, at time.Duration) {
	if epoch != l.epoch.Load() {
		return
	}
	if l.refused.firstAt != never {
		l.refused = noRefusals()
	}
	l.failed = 0
	if l.state == halfOpen {
		l.state, l.since, l.err, l.trial = open, at, nil, 0
		f.logLane(at, "target is well again", l, nil)
		f.serve(l, at)
	}
}

// logLane logs a change of a lane's state. Producers choose how many targets there
// are, so the lines are rationed.
func (f *Forwarder) logLane(at time.Duration, what string, l *lane, err *Error) {
	if !f.lines.take(at) {
		f.unlogged++
		return
	}
	fields := []zap.Field{zap.String("target", l.target)}
	if f.unlogged > 0 {
		fields = append(fields, zap.Int("unlogged", f.unlogged))
		f.unlogged = 0
	}
	if err == nil {
		f.log.Info(what, fields...)
		return
	}
	fields = append(fields, zap.String("class", className(err.Class)), zap.Error(err.Err))
	f.log.Warn(what, fields...)
}
