package kafka

import (
	"sync"
	"time"

	"github.com/IBM/sarama"

	"delay-scheduler/delay"
	"delay-scheduler/forward"
)

// produceTopic is what the loop knows of a target.
type produceTopic struct {
	name string
	id   sarama.Uuid
	// count is the number of partitions, 0 until the metadata is known.
	count int
	// parts are all partitions that ever were. They outlive a topic that goes away,
	// because one that only seemed gone goes on with its sequences.
	parts  []*producePartition
	absent produceAbsence
	// unplaced are records that came before the metadata did.
	unplaced      []delay.Outgoing
	unplacedSince time.Time
	unplacedMS    int64 // when the latest of them was produced, by the wall clock
	lookupErr     *forward.Error

	sticky *producePartition // where records without a key go
	limit  int               // bytes of a batch, lowered when the topic refused larger ones

	refusal produceRefusal
	asked   time.Time // last question for the metadata
	fresh   time.Time // last answer
	used    time.Time // last record or question from the lane
}

// produceAbsence counts the answers that say that a topic does not exist.
type produceAbsence struct {
	since   time.Time
	answers int
	err     *forward.Error
}

// produceRefusal makes records that arrive in the wake of a trouble come back at
// once. Without it this could happen: the lane produces r9 while r1 to r8 are on their
// way back to it; the trouble passes, r9 is written, and r1 to r8 only after it.
type produceRefusal struct {
	err   *forward.Error
	until time.Time
}

// active says whether records come back; it lapses by itself for lanes that do not ask.
func (r *produceRefusal) active(now time.Time) bool {
	if r.err != nil && now.After(r.until) {
		r.err = nil
	}
	return r.err != nil
}

// producePartition is one partition's queue: first the window (produce_window.go), then
// what has no number yet.
type producePartition struct {
	topic *produceTopic
	index int32
	node  *produceNode // the leader; nil: none
	epoch int32        // the leader's

	window []*produceBatch // numbered and not over, in order; at most windowMost
	queue  []*produceBatch // to be sent before open
	open   *produceBatch   // takes more records
	hint   int             // how many records the last one took

	id       produceIdentity  // under which next counts
	next     int32            // sequence of the next record
	proven   bool             // the broker knows us under id, see produce_window.go
	provenAt time.Time        // when it last showed
	sentence *produceSentence // of the first of window, not yet carried out
	via      *produceConn     // on which what is under way is under way
	sentAt   time.Time        // when the latest batch left
	behind   bool             // listed, because open waits for what is under way
	overdue  bool             // that has taken so long that open leaves as it is

	ready   bool // waits in a list of its node
	readyAt time.Time
	touched bool // has records since the last pump

	trouble produceTrouble
	refused produceRefusal
	health  produceHealth // slow: travels alone
	gone    bool          // its log does not exist any more
}

// produceTrouble is what keeps a partition from making progress.
type produceTrouble struct {
	since   time.Time // zero: no trouble
	err     error
	class   forward.Class
	failed  int       // answers in a row
	retryAt time.Time // not before
	told    bool      // that it lasts
}

// produceBatch is a run of records for one partition.
type produceBatch struct {
	part    *producePartition
	records []delay.Outgoing
	bytes   int       // upper bound of the encoded size
	headers int       // of all records
	first   time.Time // when the first record came
	floorMS int64     // wall clock when the latest record was produced
	stampMS int64     // time of sending, the same for every attempt

	id        produceIdentity
	seq       int32
	sequenced bool

	attempts int  // unanswered
	tries    int  // all attempts so far
	out      bool // the latest of them counts and is unanswered
	written  bool // waits in the window for those before it
	// offset and appendedMS are where and, on a topic with LogAppendTime, when it was
	// written.
	offset     int64
	appendedMS int64
	corrupt    int  // answers that say so
	ambiguous  bool // may be in a log
	settled    bool // the lane has heard
	lingering  bool // waits for company

	// refused is what the records get when their turn comes; they are never sent.
	refused *forward.Error
}

var produceBatches = sync.Pool{New: func() any { return new(produceBatch) }}

func newProduceBatch(p *producePartition, now time.Time) *produceBatch {
	b := produceBatches.Get().(*produceBatch)
	if cap(b.records) < p.hint {
		b.records = make([]delay.Outgoing, 0, p.hint)
	}
	b.part, b.first, b.bytes = p, now, batchOverhead
	return b
}

// recycle gives the batch's memory back. A batch with an unanswered attempt is left to
// the garbage collector, because a connection may still be reading it.
func (b *produceBatch) recycle() {
	if b.attempts > 0 {
		return
	}
	clear(b.records)
	*b = produceBatch{records: b.records[:0]}
	produceBatches.Put(b)
}

func (b *produceBatch) add(r *delay.Outgoing, size int, ms int64) {
	b.records = append(b.records, *r)
	b.bytes += size
	b.headers += len(r.Headers)
	b.floorMS = max(b.floorMS, ms)
}

// definite says that the batch is certainly in no log and will not get there.
func (b *produceBatch) definite() bool { return !b.ambiguous && b.attempts == 0 }

// full says that a record of this size would not join the open batch.
func (p *producePartition) full(size int, o *ProducerOptions) bool {
	b := p.open
	return b != nil && (b.bytes+size > p.topic.limit || len(b.records) >= o.MaxBatchRecords)
}

// cut ends the open batch. The next record without a key goes elsewhere.
func (p *producePartition) cut() {
	if p.open == nil {
		return
	}
	p.queue = append(p.queue, p.open)
	p.hint = len(p.open.records)
	p.open = nil
	if p.topic.sticky == p {
		p.topic.sticky = nil
	}
}
