package scheduler

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"delay-scheduler/delay"
	"delay-scheduler/offset"
)

// recallFaults are what may go wrong when payloads are read back from a fakeTopic.
type recallFaults struct {
	wait  time.Duration // before each batch
	stuck bool          // nothing comes
	err   error         // told once before anything else
	calls [][]Range     // what was asked for
}

// Recall implements Recaller.
func (f *fakeTopic) Recall(_ string, _ int32, _ offset.TopicID, ranges []Range) Stream {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recall.calls = append(f.recall.calls, ranges)
	s := &fakeRecall{batches: make(chan Batch), quit: make(chan struct{})}
	go s.feed(f, ranges, f.recall.wait, f.recall.err)
	return s
}

type fakeRecall struct {
	batches chan Batch
	quit    chan struct{}
	once    sync.Once
}

func (s *fakeRecall) Batches() <-chan Batch { return s.batches }
func (s *fakeRecall) Close()                { s.once.Do(func() { close(s.quit) }) }

func (s *fakeRecall) feed(f *fakeTopic, ranges []Range, wait time.Duration, err error) {
	if err != nil && !s.give(Batch{Err: err}) {
		return
	}
	for _, r := range ranges {
		for from := r.From; from < r.Below; {
			if !s.unstuck(f) {
				return
			}
			time.Sleep(wait) //nolint:forbidigo // the time of a bubble passes at once
			b := f.recallBatch(from, r)
			from = b.Next
			if !s.give(b) {
				return
			}
		}
	}
	close(s.batches)
}

func (s *fakeRecall) give(b Batch) bool {
	select {
	case s.batches <- b:
		return true
	case <-s.quit:
		return false
	}
}

// unstuck waits as long as nothing comes.
func (s *fakeRecall) unstuck(f *fakeTopic) bool {
	for {
		f.mu.Lock()
		stuck, changed := f.recall.stuck, f.changed
		f.mu.Unlock()
		if !stuck {
			return true
		}
		select {
		case <-changed:
		case <-s.quit:
			return false
		}
	}
}

// recallBatch is one fetch within a range.
func (f *fakeTopic) recallBatch(from int64, r Range) Batch {
	below := r.Below
	records, end, _ := f.from(from)
	f.mu.Lock()
	start := f.start
	f.mu.Unlock()
	if from < start {
		return Batch{From: from, Next: min(start, below), Lost: start - from, LogStart: start, LogEnd: end}
	}
	var within []delay.Record
	for i := range records {
		if o := records[i].Offset; o < below {
			if _, wanted := slices.BinarySearch(r.Only, o); !wanted && r.Only != nil {
				continue
			}
			within = append(within, records[i])
		}
	}
	next := below
	if len(records) == 500 && records[499].Offset < below {
		next = records[499].Offset + 1
	}
	return Batch{From: from, Next: next, Records: within, Passed: len(within), LogStart: start, LogEnd: end}
}

// cut deletes the records below an offset, as retention does.
func (f *fakeTopic) cut(below int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kept := f.records[:0]
	for _, r := range f.records {
		if r.Offset >= below {
			kept = append(kept, r)
		}
	}
	f.records, f.start = kept, below
}

// compact takes one record out of the log, as compaction does.
func (f *fakeTopic) compact(offset int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.records = slices.DeleteFunc(f.records, func(r delay.Record) bool { return r.Offset == offset })
}

// replace puts another record under an offset, as a log does that was cut and has grown
// again.
func (f *fakeTopic) replace(offset int64, target string, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.records, func(r delay.Record) bool { return r.Offset == offset })
	f.records[i].Timestamp = time.Now().UnixMilli()
	f.records[i].Headers = []delay.Header{header("target-topic", target), header("delay-ms", strconv.FormatInt(wait.Milliseconds(), 10))}
}

// recalls are the ranges of all passes so far.
func (f *fakeTopic) recalls() [][]Range {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.recall.calls)
}

// set changes what goes wrong, also for passes under way.
func (f *fakeTopic) set(change func(*recallFaults)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.recall)
	close(f.changed)
	f.changed = make(chan struct{})
}
