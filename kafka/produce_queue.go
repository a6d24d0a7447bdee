package kafka

import (
	"slices"
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

// producePartition is one partition's queue. One batch is in flight at a time, which
// is what keeps the order through resends. More would need a list for inflight and a
// resend of all that follow a batch that failed; sequences are given out at the first
// sending, so nothing else would change.
type producePartition struct {
	topic *produceTopic
	index int32
	node  *produceNode // the leader; nil: none
	epoch int32        // the leader's

	inflight *produceBatch
	queue    []*produceBatch // to be sent before open
	open     *produceBatch   // takes more records
	hint     int             // how many records the last one took

	id   produceIdentity // under which next counts
	next int32           // sequence of the next record

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

	attempts  int  // unanswered
	tries     int  // all attempts so far
	corrupt   int  // answers that say so
	ambiguous bool // may be in a log
	settled   bool // the lane has heard
	lingering bool // waits for company

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

// head is the batch to be sent next, nil if there is none.
func (p *producePartition) head() *produceBatch {
	if len(p.queue) > 0 {
		return p.queue[0]
	}
	return p.open
}

// take removes the head.
func (p *producePartition) take() *produceBatch {
	if len(p.queue) == 0 {
		p.cut()
	}
	if len(p.queue) == 0 {
		return nil
	}
	b := p.queue[0]
	p.queue = slices.Delete(p.queue, 0, 1)
	return b
}

// putBack makes batches the next to be sent, in their order.
func (p *producePartition) putBack(batches ...*produceBatch) {
	p.queue = slices.Insert(p.queue, 0, batches...)
}

// sequence gives a batch its place in the partition's numbering, once.
func (p *producePartition) sequence(b *produceBatch, current produceIdentity) {
	if b.sequenced {
		return
	}
	if p.id.generation == 0 {
		p.id = current
	}
	b.id, b.seq, b.sequenced = p.id, p.next, true
	p.next = nextSequence(p.next, len(b.records))
}

// unsequence gives the numbers back of a batch that is certainly in no log. The batch
// must be the last that was given any.
func (p *producePartition) unsequence(b *produceBatch) {
	if b.sequenced {
		p.next, b.sequenced = b.seq, false
	}
}

// nextSequence counts records; after 2^31-1 comes 0.
func nextSequence(first int32, n int) int32 {
	return int32((int64(first) + int64(n)) & 0x7fffffff)
}
