package forward

import (
	"sync/atomic"
	"time"

	"delay-scheduler/delay"
)

// laneState is how a target is doing.
type laneState uint8

const (
	// resolving: nobody has asked the cluster for the target yet.
	resolving laneState = iota
	// open: records go through.
	open
	// halfOpen: a probe found the target well; a few records go first, and the others
	// when these are acknowledged.
	halfOpen
	// parked: the target is in trouble and takes nothing until a probe succeeds.
	parked
	laneStates
)

var stateNames = [laneStates]string{"resolving", "open", "half-open", "parked"}

func (s laneState) String() string { return stateNames[s] }

// never is a point of the boot clock that has not come.
const never = time.Duration(-1)

// lane is one target. All fields are protected by Forwarder.mu, except the atomic ones.
type lane struct {
	target string
	state  laneState
	since  time.Duration
	usedAt time.Duration
	dead   bool // somebody's dead-letter topic

	used     int64 // bytes in flight
	inFlight int
	line     line

	// epoch counts the times the lane was parked. An acknowledgement of a record sent
	// in an earlier epoch says nothing about how the target is doing now.
	epoch atomic.Uint32
	// handing counts Sends between reading epoch and having produced. A probe waits
	// for none, else such a Send could put its records into a lane that was parked
	// and is well again, before the older ones that came back in between.
	handing atomic.Int32
	trial   int // records of this epoch in flight while half open

	// Trouble and its end.
	err     *Error
	failed  int           // probes and trials in a row
	nextAt  time.Duration // the next probe
	askedAt time.Duration // the last one
	asking  bool
	quit    chan struct{} // closed when the lane is dropped; nil: no goroutine
	refused refusals
	// stuckAt is when this dead-letter topic last refused the pointer to a record.
	stuckAt  time.Duration
	stuckErr *Error
}

// refusals is what is known of a target that is missing or forbidden.
type refusals struct {
	firstAt  time.Duration  // the first refusal without a success since
	healedAt time.Duration  // a probe succeeded, and no refusal came since
	verdict  *delay.Refusal // why its records go to the dead-letter topic, once given up
}

func noRefusals() refusals { return refusals{firstAt: never, healedAt: never} }

// sendable says whether records may be handed over.
func (l *lane) sendable() bool {
	return l.state == open || l.state == halfOpen && l.trial == 0
}

// givenUp says whether records for the target go to the dead-letter topic. The last
// answer has to be a refusal as well: while the whole cluster is in trouble nothing
// is known about the target, and its records wait.
func (l *lane) givenUp() bool {
	if l.state != parked || l.refused.verdict == nil {
		return false
	}
	_, refuses := refusalOf(l.err.Class)
	return refuses
}

const (
	// askEvery is how often the cluster is asked, at most, for a name that it refused.
	askEvery = 10 * time.Second
	// trialRecords is how many records a lane that was in trouble sends first.
	trialRecords = 16
)

// lane finds the lane of a target or makes one for a port; nil is the keeper. Nil: there
// is no place for it now, or its name may not be asked for yet. Called with mu held.
func (f *Forwarder) lane(target string, p *Port, at time.Duration) *lane {
	if !f.usable() {
		return nil
	}
	if l := f.lanes[target]; l != nil {
		l.usedAt = at
		return l
	}
	known, isKnown := f.names.get(target)
	askAt := at
	if isKnown {
		askAt = max(at, known.askedAt+askEvery)
	}
	ask := askAt == at
	if ask && !f.mayAsk(p, isKnown, at) {
		return nil
	}
	if len(f.lanes) >= f.opts.MaxLanes && !f.evict(at) {
		return nil
	}
	l := &lane{target: target, state: resolving, since: at, usedAt: at, nextAt: askAt, askedAt: never, stuckAt: never, refused: noRefusals()}
	if isKnown {
		f.names.remove(target)
		l.state, l.err, l.refused, l.askedAt, l.failed = parked, known.err, known.refused, known.askedAt, known.failed
	}
	l.asking = ask // so that nobody takes its place before it was asked for
	f.lanes[target] = l
	f.startProbe(l)
	return l
}

// mayAsk rations the questions to the cluster about names that may not exist. Those of
// different ports do not compete, and new names do not compete with refused ones, so
// whoever invents names delays the new targets of his own partition and no others.
func (f *Forwarder) mayAsk(p *Port, isKnown bool, at time.Duration) bool {
	if isKnown {
		return f.asks.take(at)
	}
	return p == nil || p.asks.take(at)
}

// admit says how many records of the given sizes may be handed over now, and reserves
// room for them. If not all: the port has a place in the line. Called with mu held.
func (f *Forwarder) admit(l *lane, p *Port, sizes []int64, at time.Duration) int {
	if !l.sendable() || !l.line.present(p) {
		f.queue(l, wish(p, sizes))
		return 0
	}
	most := len(sizes)
	if l.state == halfOpen {
		most = min(most, trialRecords)
	}
	n := 0
	for n < most && f.room.fits(l.used+l.line.granted, sizes[n]) {
		f.room.move(&l.used, sizes[n])
		n++
	}
	l.inFlight += n
	if l.state == halfOpen {
		l.trial += n
	}
	switch {
	case n == len(sizes):
	case n == 0:
		l.line.push(wish(p, sizes))
	default:
		l.line.add(wish(p, sizes[n:]))
	}
	if !l.line.empty() {
		f.hungry[l] = struct{}{}
		f.serve(l, at)
	}
	return n
}

// queue gives somebody a place in a lane's line. Called with mu held.
func (f *Forwarder) queue(l *lane, t turn) {
	l.line.add(t)
	f.hungry[l] = struct{}{}
}

// release takes records out of flight. Called with mu held.
func (f *Forwarder) release(l *lane, n int, bytes int64) {
	l.inFlight -= n
	f.room.move(&l.used, -bytes)
}

// serve calls those in a lane's line for whom there is room. It is called whenever
// there may be: after a release in any lane, a change of state, a turn taken, a grant
// lapsed. So whoever is in a line is called, or has a need that does not fit now.
// Called with mu held.
func (f *Forwarder) serve(l *lane, at time.Duration) {
	q := &l.line
	q.lapse(at)
	for len(q.turns) > 0 && l.sendable() {
		need := f.room.quantum(q.turns[0].first, q.turns[0].asked)
		if !f.room.fits(l.used+q.granted, need) || l.state == halfOpen && len(q.grants) > 0 {
			break
		}
		f.call(q.call(need, at+grantFor))
		if !f.fast {
			f.fast = true
			f.kickKeeper()
		}
	}
	if q.empty() {
		delete(f.hungry, l)
	}
}

// serveAll does the same for all lanes with a line.
func (f *Forwarder) serveAll(at time.Duration) {
	for l := range f.hungry {
		f.serve(l, at)
	}
}

// call wakes whoever waited; nil are the dead letters, whose goroutine is the keeper.
func (f *Forwarder) call(p *Port) {
	if p == nil {
		f.kickKeeper()
		return
	}
	p.signal()
}

// idle says whether nothing at all is going on in a lane.
func (f *Forwarder) idle(l *lane) bool {
	return f.free(l) && l.line.empty()
}

// free says whether a lane could be forgotten if somebody needed its place.
func (f *Forwarder) free(l *lane) bool {
	return l.inFlight == 0 && l.handing.Load() == 0 && !l.asking && f.waiting[l.target] == nil
}

// evict makes a place in the table: of a name that the cluster refuses and was asked
// for longest ago (what is known of it is kept, see nameCache), else of the idle
// target used longest ago, else of any other in trouble. A producer that invents
// names so evicts its own. Called with mu held.
func (f *Forwarder) evict(at time.Duration) bool {
	var best *lane
	bestRank, bestAge := 0, time.Duration(0)
	for _, l := range f.lanes {
		rank, age := f.evictable(l)
		if rank > bestRank || rank == bestRank && rank > 0 && age < bestAge {
			best, bestRank, bestAge = l, rank, age
		}
	}
	if best == nil {
		return false
	}
	f.drop(best, at)
	return true
}

// evictable ranks a lane for evict, 0 for not at all; within a rank the least point
// in time goes first.
func (f *Forwarder) evictable(l *lane) (rank int, since time.Duration) {
	switch {
	case !f.free(l):
		return 0, 0
	case l.state == parked && l.refused.firstAt != never:
		return 3, l.askedAt
	case l.line.empty():
		return 2, l.usedAt
	case l.state == parked:
		return 1, l.askedAt
	}
	return 0, 0
}

// drop forgets a lane, but not that its name was refused. Called with mu held.
func (f *Forwarder) drop(l *lane, at time.Duration) {
	delete(f.lanes, l.target)
	delete(f.hungry, l)
	if l.quit != nil {
		close(l.quit)
		l.quit = nil
	}
	if l.state == parked && l.refused.firstAt != never {
		f.names.put(l.target, refusedName{askedAt: l.askedAt, err: l.err, refused: l.refused, failed: l.failed})
	}
	l.line.disperse(f.want)
}
