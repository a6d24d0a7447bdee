package scheduler

import (
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"delay-scheduler/bucket"
	"delay-scheduler/delay"
	"delay-scheduler/offset"
)

// Limits of one loop. They bound how long a turn may take, and so how late a record
// may be because of its neighbours.
const (
	maxTimer     = time.Second            // no timer is armed further ahead: a clock step costs at most this
	chunk        = 2048                   // records that leave in one turn
	intakeChunk  = 1024                   // records taken in in one turn
	plentyWaits  = 4 * chunk              // records that wait for their lanes
	popPause     = 5 * time.Millisecond   // between two chunks that are popped while plenty waits
	lingerChunk  = 128                    // the same of each lane under an old generation: what a new owner may repeat
	windowMost   = 8192                   // of one lane in flight: what the completed set has to describe singly
	windowLeast  = 64                     //
	statusEvery  = 250 * time.Millisecond // how often a snapshot is published
	reopenRoom   = 256 << 10              // bytes that must be free before a stalled partition reads on
	leaseShare   = 0.7                    // of the session timeout
	commitRetry  = 500 * time.Millisecond // after a commit that the coordinator did not take
	lingerAfter  = 700 * time.Millisecond // a re-forming group normally needs less (design.md section 4)
	stuckAfter   = 10 * time.Second       // a loop that has not turned for this long is reported
	overdueGrace = 1000                   // ms after which a due record that is not in flight is counted
)

// partition is one claimed partition's state. Everything in it belongs to the
// goroutine of run, except what is marked atomic.
type partition struct {
	s       *Scheduler
	claim   Claim
	source  Source
	log     *zap.Logger
	metrics *metrics

	account *bucket.Account
	index   *bucket.Index
	tracker *offset.Tracker
	parser  *delay.Parser
	lanes   *laneTable
	port    Port

	stream  Stream
	batch   Batch // what is being taken in
	at      int   // position within batch.Records
	have    bool  // batch is not yet used up
	started bool  // something was read, so the tracker knows a position
	stalled bool  // no room: the stream is closed until there is
	// futureTold says that a timestamp ahead of the clock was warned about.
	futureTold bool
	fetched    struct {
		logStart, logEnd int64
		err              error
		hanging          *Transaction
	}

	phase   phase
	session Session
	lease   time.Duration // boot time until which sends are allowed
	since   time.Duration // boot time at which the phase began
	release *order        // the drain being carried out
	commits commitState
	window  int           // records of one lane in flight at most
	popNext time.Duration // boot time before which nothing is popped while plenty waits

	waiters  []*lane        // lanes for which something waits
	returned []bucket.Entry // scratch: came back during this turn
	due      []bucket.Entry // scratch: popped in this turn
	more     bool           // more is to be done at once

	room     room
	recall   recalling
	late     map[int64]tie // due, and their payloads are not back yet, by offset
	ties     map[tie][]bucket.Entry
	inOrder  []bucket.Entry     // of a shelf, back before the end of the pass
	vanished map[int64]struct{} // not due yet, and known to be in no log any more
	lost     losses
	// unshelved is how many of what is late were asked for from a shelf.
	unshelved int
	renewal   func()        // reads the partition again; nil: no need to
	renewBy   time.Duration // boot time until which what is in flight is awaited for it
	keys      []bucket.Key  // scratch

	candidate candidacy
	kept      int64         // records that the hold keeps
	verdict   *offset.Hold  // the hold as decided, until it is carried out
	verdictBy time.Duration // boot time until which what is in flight is awaited for it

	rebuild rebuild

	commands chan command
	quit     chan struct{} // closed when the loop has ended

	turned   atomic.Int64 // boot time of the last turn, for the watchdog
	snapshot atomic.Pointer[PartitionStatus]
	shown    time.Duration // boot time of the last snapshot
	unshown  bool          // a turn was made since
}

// phase says what a loop may do.
type phase uint8

const (
	running   phase = iota // sends and commits under the session
	draining               // sends nothing new; awaits what is in flight, then commits
	held                   // waits for the group to re-form
	lingering              // works on under the old generation, chunk by chunk
	quiet                  // sends nothing and commits nothing until it is assigned again
	gone                   // the topic does not exist any more
)

func (p phase) String() string {
	return [...]string{"running", "draining", "held", "lingering", "quiet", "gone"}[p]
}

// command is what others ask of a loop. It runs on the loop's goroutine.
type command func(p *partition)

// order is a drain: stop sending, await, commit, then report.
type order struct {
	hurry   bool          // what is in flight is not awaited any more
	giveUp  time.Duration // then: boot time after which the commit is not awaited either
	hold    bool          // work on under the old generation if nothing is heard
	drained bool          // nothing is in flight any more, or it is not awaited
	done    chan struct{}
}

func newPartition(s *Scheduler, c Claim, src Source) *partition {
	log := s.log.With(zap.String("topic", c.Topic), zap.Int32("partition", c.Partition))
	p := &partition{
		s: s, claim: c, source: src, log: log, metrics: s.metrics,
		account:  s.parts.Budget.Open(),
		index:    bucket.New(),
		parser:   delay.NewParser(c.Topic, src.Rules),
		lanes:    newLaneTable(),
		port:     s.parts.Outlet.Open(c.Topic, c.Partition, src.Rules),
		window:   windowMost,
		room:     newRoom(),
		late:     map[int64]tie{},
		ties:     map[tie][]bucket.Entry{},
		commands: make(chan command, 4),
		quit:     make(chan struct{}),
	}
	p.commits.limit = s.opts.MetadataLimit
	p.candidate = newCandidacy(c, src)
	p.tracker = s.newTracker(c, src, max(c.Committed, 0))
	return p
}

func (s *Scheduler) newTracker(c Claim, src Source, start int64) *offset.Tracker {
	return offset.New(offset.Options{TopicID: c.TopicID, Start: start, Nonce: s.nonce, Fingerprint: src.Fingerprint})
}

// restore tells the completed set what was done before. Metadata that cannot be
// read is "nothing known": at least once allows it, and it is said.
func (p *partition) restore(also []*offset.Set) {
	set, err := offset.Decode(p.claim.Metadata, p.claim.TopicID, p.claim.Committed)
	if err != nil && p.claim.Committed >= 0 && p.claim.Metadata != "" {
		p.metrics.metadataRefused.Inc()
		p.log.Warn("commit metadata is not used: records sent before may be sent again", zap.Error(err))
	}
	if err != nil && p.claim.Committed >= 0 {
		// Somebody moved the offset by hand, or another program committed: what this
		// process remembers of the partition would defeat that.
		also = nil
	}
	if err != nil || faultForget {
		set = nil
	}
	if set != nil {
		p.tracker.SetHold(set.Hold)
	}
	if set != nil || len(also) > 0 {
		p.tracker.Restore(set, also...)
	}
}

// from is where reading begins: the position reached, or the log's start.
func (p *partition) from() int64 {
	switch {
	case p.started:
		return p.tracker.Next()
	case p.claim.Committed >= 0:
		return p.claim.Committed
	}
	return -1
}

// do hands a command to the loop; it is false when the loop has ended.
func (p *partition) do(c command) bool {
	select {
	case p.commands <- c:
		return true
	case <-p.quit:
		return false
	}
}

func (p *partition) setPhase(ph phase, boot time.Duration) {
	if p.phase != ph {
		p.log.Debug("phase", zap.Stringer("from", p.phase), zap.Stringer("to", ph))
	}
	p.phase, p.since = ph, boot
}
