package scheduler

import (
	"bytes"
	"slices"
	"strconv"
	"sync"
	"time"

	"delay-scheduler/delay"
)

// fakeTopic is a source log: records may be appended at any time.
type fakeTopic struct {
	mu      sync.Mutex
	records []delay.Record
	end     int64
	changed chan struct{}
	last    *fakeStream
	opened  []int64 // the positions that streams were opened at
	start   int64   // of the log
	recall  recallFaults
}

func newFakeTopic() *fakeTopic { return &fakeTopic{changed: make(chan struct{})} }

// add appends a record that asks for a delay; its timestamp is now.
func (f *fakeTopic) add(target string, wait time.Duration) int64 {
	return f.put(header("target-topic", target), header("delay-ms", strconv.FormatInt(wait.Milliseconds(), 10)))
}

// addDue appends a record that is due at a time in epoch ms. A bubble begins in the year
// 2000, where absolute times are below what the protocol takes for milliseconds.
func (f *fakeTopic) addDue(target string, due int64) int64 {
	return f.add(target, time.Until(time.UnixMilli(due)))
}

func (f *fakeTopic) put(headers ...delay.Header) int64 {
	return f.putAt(time.Now().UnixMilli(), headers...)
}

func (f *fakeTopic) putAt(timestamp int64, headers ...delay.Header) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.end
	f.records = append(f.records, delay.Record{
		Topic: "a-delay", Offset: o, Timestamp: timestamp, AppendTime: true,
		Key: []byte("k"), Value: []byte("v" + strconv.FormatInt(o, 10)), Headers: headers,
	})
	f.end++
	close(f.changed)
	f.changed = make(chan struct{})
	return o
}

// addOld appends a record that asked for a delay some time ago.
func (f *fakeTopic) addOld(target string, ago, wait time.Duration) int64 {
	return f.putAt(time.Now().Add(-ago).UnixMilli(),
		header("target-topic", target), header("delay-ms", strconv.FormatInt(wait.Milliseconds(), 10)))
}

// skip leaves a gap, as a transaction marker or compaction does.
func (f *fakeTopic) skip(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end += n
	close(f.changed)
	f.changed = make(chan struct{})
}

// truncate cuts the log, as an unclean election of a leader does.
func (f *fakeTopic) truncate(end int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.records = slices.DeleteFunc(f.records, func(r delay.Record) bool { return r.Offset >= end })
	f.end = end
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fakeTopic) from(o int64) (recs []delay.Record, end int64, changed chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, _ := slices.BinarySearchFunc(f.records, o, func(r delay.Record, o int64) int { return int(r.Offset - o) })
	return slices.Clone(f.records[i:min(i+500, len(f.records))]), f.end, f.changed
}

func header(k, v string) delay.Header { return delay.Header{Key: []byte(k), Value: []byte(v)} }

// tell sends a batch without records, as the log says something of itself now and then.
func (f *fakeTopic) tell(b Batch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b.Next, b.LogEnd = f.end, f.end
	f.last.batches <- b
}

// Open implements Log.
func (f *fakeTopic) Open(_ string, _ int32, from int64) Stream {
	s := &fakeStream{batches: make(chan Batch, 1), quit: make(chan struct{})}
	f.mu.Lock()
	f.opened = append(f.opened, from)
	f.last = s
	f.mu.Unlock()
	go s.feed(f, max(from, 0))
	return s
}

type fakeStream struct {
	batches chan Batch
	quit    chan struct{}
	once    sync.Once
}

func (s *fakeStream) feed(f *fakeTopic, next int64) {
	if _, end, _ := f.from(next); next == end { // As a broker tells the bounds of the log.
		s.batches <- Batch{Next: end, LogEnd: end}
	}
	for {
		recs, end, changed := f.from(next)
		if next > end {
			next = end
			select {
			case s.batches <- Batch{Next: end, LogEnd: end, Truncated: true}:
			case <-s.quit:
				return
			}
			continue
		}
		if next < end {
			recs, release := lent(recs)
			b := Batch{Records: recs, Release: release, Next: end, LogEnd: end}
			if len(recs) == 500 {
				b.Next = recs[len(recs)-1].Offset + 1
			}
			next = b.Next
			select {
			case s.batches <- b:
			case <-s.quit:
				return
			}
			continue
		}
		select {
		case <-changed:
		case <-s.quit:
			return
		}
	}
}

// lent copies records into memory that belongs to somebody else once it is given back:
// then there is nonsense in it, and whoever still uses it is found out.
func lent(records []delay.Record) (lent []delay.Record, release func()) {
	lent = slices.Clone(records)
	for i := range lent {
		r := &lent[i]
		r.Key, r.Value, r.Headers = bytes.Clone(r.Key), bytes.Clone(r.Value), slices.Clone(r.Headers)
		for j, h := range r.Headers {
			r.Headers[j] = delay.Header{Key: bytes.Clone(h.Key), Value: bytes.Clone(h.Value)}
		}
	}
	return lent, func() {
		for i := range lent {
			spoil(lent[i].Key)
			spoil(lent[i].Value)
			for j := range lent[i].Headers {
				spoil(lent[i].Headers[j].Key)
				spoil(lent[i].Headers[j].Value)
			}
		}
		clear(lent)
	}
}

func spoil(b []byte) {
	for i := range b {
		b[i] = '#'
	}
}

func (s *fakeStream) Batches() <-chan Batch { return s.batches }
func (s *fakeStream) Close()                { s.once.Do(func() { close(s.quit) }) }
