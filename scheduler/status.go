package scheduler

import (
	"cmp"
	"fmt"
	"time"

	"delay-scheduler/bucket"
	"delay-scheduler/offset"
)

// PartitionStatus is a snapshot of one loop, at most statusEvery plus one turn old.
type PartitionStatus struct {
	Topic          string        `json:"topic"`
	Partition      int32         `json:"partition"`
	Phase          string        `json:"phase"`
	Session        string        `json:"session"`
	Pending        int           `json:"pending"`
	Bytes          int64         `json:"bytes"`
	InFlight       int           `json:"in_flight"`
	Overdue        int           `json:"overdue"`           // due, and neither sent nor in flight
	NextDue        int64         `json:"next_due_ms"`       // epoch ms; 0: nothing pending in the index
	OldestOverdue  int64         `json:"oldest_overdue_ms"` // epoch ms of its due time; 0: none
	Watermark      int64         `json:"watermark"`         // everything below is done
	Position       int64         `json:"position"`          // next offset to be read
	CompletedAbove int64         `json:"completed_above"`   // done above the watermark
	LogStart       int64         `json:"log_start"`
	LogEnd         int64         `json:"log_end"`
	Fetch          string        `json:"fetch"` // reading, stalled: ..., or the error
	Rebuilding     bool          `json:"rebuilding"`
	RebuildShare   float64       `json:"rebuild_share"`   // of what the log held at the claim, 0 to 1
	RebuildRecords int64         `json:"rebuild_records"` // read for it
	RebuildLeft    time.Duration `json:"rebuild_left_ns"` // 0: over, or not known
	Far            int           `json:"far"`             // pending without payload: due and offset only
	// PayloadHorizon is the due time, in epoch ms, before which pending records have their
	// payload in memory or under way; 0: all have.
	PayloadHorizon  int64         `json:"payload_horizon_ms"`
	AwaitingPayload int           `json:"awaiting_payload"` // due, and not read back yet
	IndexBytes      int64         `json:"index_bytes"`      // of Bytes, what is not payload
	ReadBack        int64         `json:"read_back"`        // payloads read back since the claim
	Amplification   float64       `json:"amplification"`    // records read for each of them
	Gone            int64         `json:"gone"`             // pending records that the log no longer held
	Committed       int64         `json:"committed"`        // -1: nothing yet
	CommitBytes     int           `json:"commit_bytes"`     // of the completed set
	CommitDropped   int64         `json:"commit_dropped"`   // completions that did not fit
	CommitAge       time.Duration `json:"commit_age_ns"`    // since the last one that was taken
	CommitError     string        `json:"commit_error,omitempty"`
	Held            *Held         `json:"held,omitempty"`
	stalled         bool
	lostRecords     bool
	payloadLate     bool
	payloadErr      string
	fetchErr        bool
	foreign         string
	hanging         *Transaction
	leaseOver       bool
	commitErrors    int
	gone            bool
}

// goneShown is how long pending records that the log did not hold any more are reported.
const goneShown = 10 * time.Minute

// Held is what a partition keeps back until somebody decides (Scheduler.Decide).
type Held struct {
	Records int64 `json:"records"` // of those that were read; 0: none was read
	From    int64 `json:"from"`
	Below   int64 `json:"below"`
	Due     int64 `json:"due_ms"` // those due no later, in epoch ms; math.MaxInt64: all
}

func (p *partition) publish(wall time.Time, boot time.Duration) {
	p.unshown = boot-p.shown < statusEvery && p.snapshot.Load() != nil
	if p.unshown {
		return
	}
	p.shown = boot
	now := wall.UnixMilli()
	if p.phase == running {
		p.lanes.expected(now, expectWithin, p.port.Expect)
	}
	st := &PartitionStatus{
		Topic: p.claim.Topic, Partition: p.claim.Partition, Phase: p.phase.String(),
		Pending: p.tracker.Pending(), Bytes: p.account.Used(), InFlight: p.port.InFlight(),
		Watermark: p.tracker.Low(), Position: p.tracker.Next(), CompletedAbove: p.tracker.Above(),
		LogStart: p.fetched.logStart, LogEnd: p.fetched.logEnd, Fetch: "reading", hanging: p.fetched.hanging,
		Rebuilding: !p.rebuild.over, RebuildShare: p.rebuild.share(p.tracker.Next()), RebuildRecords: p.rebuild.records,
		RebuildLeft: p.rebuild.left(p.tracker.Next(), boot), Committed: p.claim.Committed,
		CommitBytes: len(p.commits.sent.metadata), CommitDropped: p.commits.dropped,
		stalled: p.stalled, fetchErr: p.fetched.err != nil, commitErrors: p.commits.errors, gone: p.phase == gone,
		leaseOver: boot >= p.lease && p.phase == running,
	}
	if p.session != nil {
		st.Session = p.session.ID()
	}
	if a := p.commits.accepted; a.session != nil {
		st.Committed, st.CommitAge = a.offset, boot-a.at
	}
	if p.commits.lastErr != nil {
		st.CommitError = p.commits.lastErr.Error()
	}
	switch {
	case p.fetched.err != nil:
		st.Fetch = p.fetched.err.Error()
	case p.stalled:
		st.Fetch = "stalled: memory.budget is used up"
	}
	if p.candidate.open && p.candidate.seen > 0 {
		st.Fetch, st.foreign = "waiting for a record that is ours", p.candidate.describe()
	}
	if h := p.tracker.Hold(); h != nil && !h.Decided {
		st.Held = &Held{Records: p.kept, From: h.From, Below: h.Below, Due: h.Due}
	}
	p.tiers(st, now, boot)
	p.backlog(st, now)
	p.snapshot.Store(st)
}

// tiers fills in what is in memory and what is not.
func (p *partition) tiers(st *PartitionStatus, now int64, boot time.Duration) {
	st.Far, st.AwaitingPayload, st.IndexBytes = p.index.Far(), len(p.late), p.room.structures
	if edge := p.index.Edge(); edge != bucket.Endless {
		st.PayloadHorizon = edge.Due
	}
	r := &p.recall
	if st.ReadBack = r.returned; r.returned > 0 {
		st.Amplification = float64(r.read) / float64(r.returned)
	}
	if st.Gone = p.lost.records; p.lost.told && boot-p.lost.last < goneShown {
		st.lostRecords = true
	}
	if len(p.late) > 0 {
		due, _ := p.oldestLate()
		if st.payloadLate = due <= now-overdueGrace; st.payloadLate && p.recall.err != nil {
			st.payloadErr = p.recall.err.Error()
		}
		for _, waiting := range p.ties {
			st.Overdue += len(waiting)
		}
		st.OldestOverdue = due
	}
}

// backlog fills in what is due and has not left.
func (p *partition) backlog(st *PartitionStatus, now int64) {
	if due, ok := p.index.NextDue(); ok {
		st.NextDue = due
		if due <= now && (st.OldestOverdue == 0 || due < st.OldestOverdue) {
			st.OldestOverdue = due
		}
	}
	for _, l := range p.waiters {
		due, ok := l.oldest()
		if !ok {
			continue
		}
		st.Overdue += l.backlog()
		if st.OldestOverdue == 0 || due < st.OldestOverdue {
			st.OldestOverdue = due
		}
	}
	if st.NextDue != 0 && st.NextDue <= now-overdueGrace {
		// Due and still in the index: sends are held, or a long turn. Their number is
		// not known without popping them, so one stands for all.
		st.Overdue++
	}
}

// overdueFor is how long ago the oldest overdue record was due, by the wall clock; 0 when
// nothing is overdue. A snapshot may be older than now, and a clock may step back.
func (st *PartitionStatus) overdueFor(now time.Time) time.Duration {
	if st.OldestOverdue == 0 {
		return 0
	}
	return max(0, now.Sub(time.UnixMilli(st.OldestOverdue)))
}

// Partitions gives a snapshot of all loops, by topic and partition.
func (s *Scheduler) Partitions() []PartitionStatus {
	var out []PartitionStatus
	for _, p := range s.all() {
		if st := p.snapshot.Load(); st != nil {
			out = append(out, *st)
		}
	}
	return out
}

// Trouble is something that degrades the process without stopping it.
type Trouble struct {
	Reason  string `json:"reason"`  // one of a fixed list; a metric label
	Subject string `json:"subject"` // the part concerned
	Detail  string `json:"detail"`
}

// Reasons for which the scheduler reports itself degraded.
const (
	TroubleBudget      = "budget"
	TroubleFetch       = "fetch"
	TroubleCommit      = "commit"
	TroubleLease       = "lease"
	TroubleGone        = "topic_deleted"
	TroubleStuck       = "stuck"
	TroubleJump        = "clock_jump"
	TroubleBehind      = "clock_behind"
	TroubleHeld        = "held"
	TroubleForeign     = "foreign_topic"
	TroubleHanging     = "hanging_transaction"
	TroubleGoneRecords = "gone_records"
	TroublePayload     = "payload_late"
	commitTroubles     = 3 // refusals in a row before it is called trouble
)

// TroubleReasons lists all reasons, so that a metric can show those that are absent.
func TroubleReasons() []string {
	return []string{TroubleBudget, TroubleFetch, TroubleCommit, TroubleLease, TroubleGone, TroubleStuck, TroubleJump, TroubleBehind, TroubleHeld, TroubleForeign, TroubleHanging, TroubleGoneRecords, TroublePayload}
}

// Troubles lists what is wrong at the moment.
func (s *Scheduler) Troubles() []Trouble {
	var out []Trouble
	if leap, behind := s.watch.state(); leap > 0 {
		out = append(out, Trouble{TroubleJump, "clock", fmt.Sprintf("wall time leapt ahead by %v: sends are held until fresh records confirm it (clock.on_jump)", leap.Round(time.Second))})
	} else if behind > 0 {
		out = append(out, Trouble{TroubleBehind, "clock", fmt.Sprintf("the brokers' clocks are %v ahead of this machine's (clock.max_skew %v): records leave late", behind.Round(time.Second), s.opts.MaxSkew)})
	}
	boot := s.parts.Clock.Boot()
	for _, p := range s.all() {
		subject := fmt.Sprintf("%s/%d", p.claim.Topic, p.claim.Partition)
		if idle := boot - time.Duration(p.turned.Load()); idle > stuckAfter {
			out = append(out, Trouble{TroubleStuck, subject, fmt.Sprintf("the loop has not turned for %v", idle.Round(time.Second))})
		}
		if st := p.snapshot.Load(); st != nil {
			out = append(out, st.troubles(subject)...)
		}
	}
	return out
}

func (st *PartitionStatus) troubles(subject string) []Trouble {
	var out []Trouble
	if st.stalled {
		out = append(out, Trouble{TroubleBudget, subject, fmt.Sprintf("memory.budget is used up: reading stands at offset %d of %d", st.Position, st.LogEnd)})
	}
	if st.fetchErr {
		out = append(out, Trouble{TroubleFetch, subject, st.Fetch})
	}
	if st.commitErrors >= commitTroubles {
		out = append(out, Trouble{TroubleCommit, subject, st.CommitError})
	}
	if st.leaseOver {
		out = append(out, Trouble{TroubleLease, subject, "no commit was taken for too long: sends are held, since another process may own the partition"})
	}
	if st.Held != nil {
		out = append(out, Trouble{TroubleHeld, subject, st.Held.describe()})
	}
	if st.foreign != "" {
		out = append(out, Trouble{TroubleForeign, subject, st.foreign})
	}
	if h := st.hanging; h != nil {
		out = append(out, Trouble{TroubleHanging, subject, h.describe()})
	}
	if st.lostRecords {
		out = append(out, Trouble{TroubleGoneRecords, subject, fmt.Sprintf("%d pending records are not in the log any more and cannot be sent: retention or deletion (the log starts at %d)", st.Gone, st.LogStart)})
	}
	if st.payloadLate {
		why := cmp.Or(st.payloadErr, "the broker gives fewer than fall due, or memory.budget is too small for that many")
		out = append(out, Trouble{TroublePayload, subject, fmt.Sprintf("%d records are due and their payloads are not read back yet: %s", st.AwaitingPayload, why)})
	}
	if st.gone {
		out = append(out, Trouble{TroubleGone, subject, "the topic was deleted with records pending"})
	}
	return out
}

func (h *Held) describe() string {
	what := fmt.Sprintf("%d records that were overdue when a group without a commit found them", h.Records)
	if h.Due == offset.Everything {
		what = fmt.Sprintf("offsets %d to %d of a log that ended before the committed offset", h.From, h.Below-1)
	}
	return what + " are held: say what becomes of them with scheduler offsets accept"
}

func (t *Transaction) describe() string {
	who := "a producer that cannot be named"
	if t.ProducerID >= 0 {
		who = fmt.Sprintf("producer id %d", t.ProducerID)
	}
	return fmt.Sprintf("a transaction of %s has been open since offset %d for %v: what was written after it cannot be read until it ends (kafka-transactions.sh abort ends it by hand)",
		who, t.Offset, t.Open.Round(time.Second))
}
