//go:build soak

package soak

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"delay-scheduler/internal/testkafka"
)

// entry is what is known of a record: when it is due, from the source as the broker has
// it, and its first copy.
type entry struct {
	due   int64 // epoch ms; 0: not read back yet
	first int64 // append time of the first copy, epoch ms; 0: it has not arrived
	id    uint64

	saidDue int64 // what the first copy says of itself
	saidID  uint64
}

// again is a further copy.
type again struct {
	number    int
	first, at int64
	away      bool // to the target that comes and goes
}

// span is a time from and to which something was the matter, in epoch ms.
type span struct{ from, to int64 }

// ledger is filled by one goroutine that reads sources and targets, and asked by the test.
type ledger struct {
	mu      sync.Mutex // protects everything below
	entries []entry
	asked   int // read back from the sources
	arrived int
	copies  []again
	late    []int64 // ms, since the last report, of targets that are never away
	faults  []string
	wrong   int // how many faults there are, listed or not
}

func (l *ledger) fault(format string, args ...any) {
	l.wrong++
	if len(l.faults) < 10 {
		l.faults = append(l.faults, fmt.Sprintf(format, args...))
	}
}

// at is a record's entry, made when it is first asked for.
func (l *ledger) at(number int) *entry {
	for len(l.entries) <= number {
		l.entries = append(l.entries, entry{})
	}
	return &l.entries[number]
}

// source notes what was asked for.
func (l *ledger) source(r *kgo.Record) {
	n, ok := l.number(r)
	if !ok {
		return
	}
	e := l.at(n)
	e.due = r.Timestamp.UnixMilli() + ms(r, "delay-ms")
	if at := ms(r, "deliver-at"); at > 0 {
		e.due = at
	}
	e.id = hash(fmt.Sprintf("%s/%d/%d/%d", r.Topic, r.Partition, r.Offset, r.Timestamp.UnixMilli()))
	l.asked++
}

// target notes a copy. The copies of a record have a key and so are in one partition, in
// the order of their append times.
func (l *ledger) target(r *kgo.Record, away bool) {
	n, ok := l.number(r)
	if !ok {
		return
	}
	at, due := r.Timestamp.UnixMilli(), ms(r, "delay-due")
	if at < due {
		l.fault("record %d was appended %d ms early", n, due-at)
	}
	e, id := l.at(n), hash(header(r, "delay-id"))
	if e.first != 0 {
		if id != e.saidID {
			l.fault("record %d came again under another delay-id", n)
		}
		l.copies = append(l.copies, again{n, e.first, at, away})
		return
	}
	e.first, e.saidDue, e.saidID = at, due, id
	l.arrived++
	if !away {
		l.late = append(l.late, at-due)
	}
}

// compare says at the end what arrived otherwise than it was asked for.
func (l *ledger) compare() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n, e := range l.entries {
		if e.first == 0 || e.due == 0 {
			continue // lost, or never asked for: that is counted
		}
		if e.saidDue != e.due {
			l.fault("record %d says that it was due at %d, it was at %d", n, e.saidDue, e.due)
		}
		if e.saidID != e.id {
			l.fault("record %d came under another delay-id", n)
		}
	}
}

func (l *ledger) number(r *kgo.Record) (int, bool) {
	digits, _, found := bytes.Cut(r.Value[:min(len(r.Value), 20)], []byte(" "))
	n, err := strconv.Atoi(string(digits))
	if !found || err != nil || !bytes.Equal(r.Value, value(n, len(r.Value))) {
		l.fault("%s/%d/%d is not a record of ours, or has changed", r.Topic, r.Partition, r.Offset)
		return 0, false
	}
	return n, true
}

// value is a record's: its number, and as many bytes as are wanted.
func value(number, size int) []byte {
	v := append(strconv.AppendInt(make([]byte, 0, max(size, 20)), int64(number), 10), ' ')
	for len(v) < size {
		v = append(v, byte(len(v)*7+number))
	}
	return v
}

// report is what a progress line says, and begins the next interval.
func (l *ledger) report() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.late)
	p := func(percent int) int64 {
		if len(l.late) == 0 {
			return 0
		}
		return l.late[(len(l.late)-1)*percent/100]
	}
	line := fmt.Sprintf("asked %d, arrived %d, again %d, wrong %d; late p50 %d ms, p99 %d ms, max %d ms",
		l.asked, l.arrived, len(l.copies), l.wrong, p(50), p(99), p(100))
	l.late = l.late[:0]
	return line
}

// settled says that everything that was produced has been read back, and has arrived.
func (l *ledger) settled(produced int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked >= produced && l.arrived >= produced
}

// missing lists some records that have not arrived.
func (l *ledger) missing() (numbers []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n, e := range l.entries {
		if e.first == 0 && len(numbers) < 10 {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// reader reads topics until its context ends.
func (l *ledger) read(ctx context.Context, t *testing.T, e testkafka.Endpoint, topics []string, note func(*kgo.Record)) (wait func()) {
	client := testkafka.Client(t, e, kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			fetched := client.PollFetches(ctx)
			l.mu.Lock()
			fetched.EachRecord(note)
			l.mu.Unlock()
		}
	}()
	return func() { <-done }
}

func header(r *kgo.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

// ms is a number in a header; 0 when there is none.
func ms(r *kgo.Record, key string) int64 {
	n, _ := strconv.ParseInt(header(r, key), 10, 64)
	return n
}

func hash(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // it never fails
	return h.Sum64()
}

// twice judges the further copies: after a SIGKILL what was sent since the last commit may
// come again; otherwise no more than what was counted as in doubt. What a process that
// stopped during an outage counted last, nobody could read: so what it had sent to the
// target that was out, and got no answer for, may come again as well.
func (l *ledger) twice(t *testing.T, kills []time.Time, unanswered []span, doubts float64) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	allowed, stopped, others := 0, 0, []again{}
	for _, c := range l.copies {
		if slices.ContainsFunc(kills, func(k time.Time) bool {
			return c.first >= k.Add(-commitInterval-time.Second).UnixMilli() && c.first <= k.Add(time.Second).UnixMilli()
		}) {
			allowed++
			continue
		}
		if c.away && slices.ContainsFunc(unanswered, func(s span) bool { return c.first >= s.from && c.first <= s.to }) {
			stopped++
			continue
		}
		others = append(others, c)
	}
	slices.SortFunc(others, func(a, b again) int { return cmp.Compare(a.first, b.first) })
	t.Logf("%d came again after crashes, %d after stops during an outage, %d otherwise, %.0f were counted as in doubt", allowed, stopped, len(others), doubts)
	require.LessOrEqual(t, len(others), int(doubts), "came again and was not in doubt: %v", others[:min(10, len(others))])
}
