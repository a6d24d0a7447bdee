package kafka

import (
	"runtime"
	"sync"
	"time"

	"delay-scheduler/delay"
	"delay-scheduler/forward"
)

// inboxKeep bounds the memory kept for the next turn: about 7 MiB.
const inboxKeep = 1 << 16

// yieldRecords is how many records may wait for the loop before those who hand over more
// give way to it. The runtime lets a goroutine that is woken by a timer, or by another's
// answer, run before those that have waited for longer, so in a burst a dozen callers
// could keep the loop from the processors until all of them had handed over everything.
const yieldRecords = 512

// produceInbox is how everybody else reaches the loop: records and events in one
// order, so that "after this question" means the same to the loop as to who asked.
type produceInbox struct {
	wake chan struct{} // capacity 1
	sink forward.Sink  // for what comes after the end

	mu      sync.Mutex // guards what follows; held for copying only
	items   []inboxItem
	records []delay.Outgoing
	closed  bool

	spareItems   []inboxItem
	spareRecords []delay.Outgoing
	taken        []delay.Outgoing // the loop has them until it gives them back
}

// inboxItem is an event, or n records for a topic.
type inboxItem struct {
	do    func(now time.Time)
	topic string
	n     int
	ms    int64 // wall clock
}

func newProduceInbox(sink forward.Sink) *produceInbox {
	return &produceInbox{wake: make(chan struct{}, 1), sink: sink}
}

// add copies the records: the caller goes on using its slice.
func (in *produceInbox) add(topic string, records []delay.Outgoing, ms int64) {
	in.mu.Lock()
	if in.closed {
		in.mu.Unlock()
		in.refuse(records)
		return
	}
	in.items = append(in.items, inboxItem{topic: topic, n: len(records), ms: ms})
	in.records = append(in.records, records...)
	waiting := len(in.records)
	in.mu.Unlock()
	in.signal()
	if waiting >= yieldRecords {
		runtime.Gosched()
	}
}

// refuse answers for a loop that has ended. The sink may need a lock that our caller
// holds, so it is called from another goroutine.
func (in *produceInbox) refuse(records []delay.Outgoing) {
	acks := make([]forward.Ack, 0, len(records))
	for i := range records {
		err := &forward.Error{Class: forward.Transient, Err: errProducerClosed}
		acks = append(acks, forward.Ack{Tag: records[i].Tag, Err: err})
	}
	go in.sink(acks)
}

// post adds an event.
func (in *produceInbox) post(do func(now time.Time)) {
	in.mu.Lock()
	if !in.closed {
		in.items = append(in.items, inboxItem{do: do})
	}
	in.mu.Unlock()
	in.signal()
}

func (in *produceInbox) signal() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// take gives the loop all there is, until giveBack.
func (in *produceInbox) take() ([]inboxItem, []delay.Outgoing) {
	in.mu.Lock()
	defer in.mu.Unlock()
	items := in.items
	in.taken = in.records
	in.items, in.records = in.spareItems[:0], in.spareRecords[:0]
	in.spareItems, in.spareRecords = nil, nil
	return items, in.taken
}

// giveBack returns the memory that take gave.
func (in *produceInbox) giveBack(items []inboxItem) {
	clear(items)
	clear(in.taken)
	in.mu.Lock()
	defer in.mu.Unlock()
	if cap(in.taken) <= inboxKeep {
		in.spareItems, in.spareRecords = items, in.taken
	}
	in.taken = nil
}

// close refuses what comes later and what has not been taken yet.
func (in *produceInbox) close() {
	in.mu.Lock()
	in.closed = true
	records := in.records
	in.items, in.records = nil, nil
	in.mu.Unlock()
	if len(records) > 0 {
		in.refuse(records)
	}
}
