package main

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// asked is a record as the delay topic has it.
type asked struct {
	partition int32
	offset    int64
	due       int64 // epoch ms, from the broker's append time
	target    string
	record    *kgo.Record
}

// arrived is one copy in a target.
type arrived struct {
	topic     string
	partition int32
	offset    int64
	at        int64 // append time, epoch ms
	record    *kgo.Record
}

// rules are what the judgement depends on beside the records.
type rules struct {
	kills      []time.Time // of SIGKILLs
	window     time.Duration
	slack      time.Duration // a request under way at the kill may still be appended
	murmur     func(key []byte, partitions int32) int32
	partitions int32
}

// Verdict is how a run is judged.
type Verdict struct {
	Records    int   `json:"records"`
	Delivered  int   `json:"delivered"`
	Lost       int   `json:"lost"`
	Early      int   `json:"early"`
	EarliestMS int64 `json:"earliest_ms"` // how much before its due time the worst one was
	Changed    int   `json:"changed"`     // key, value, headers or target differ
	Misplaced  int   `json:"misplaced"`   // not in the partition where a Java producer puts the key
	Disordered int   `json:"disordered"`  // equal due, same partitions, not in offset order
	Allowed    int   `json:"duplicates_allowed"`
	Forbidden  int   `json:"duplicates_forbidden"`
	OtherID    int   `json:"duplicates_with_another_id"`
	P50MS      int64 `json:"late_p50_ms"`
	P99MS      int64 `json:"late_p99_ms"`
	MaxMS      int64 `json:"late_max_ms"`
	Exits      int   `json:"bad_exits"` // processes that did not end well after SIGTERM
	Seed       uint64

	ResidentMiB int     `json:"resident_mib"` // the most that a process had
	Fat         int     `json:"too_much_resident"`
	Used        float64 `json:"used"`   // what the counter of -used came to
	Unused      int     `json:"unused"` // it counted nothing

	Example string `json:"example,omitempty"` // the first fault found
}

// Kept says whether the promise was kept.
func (v Verdict) Kept() bool {
	return v.Lost+v.Early+v.Changed+v.Misplaced+v.Disordered+v.Forbidden+v.OtherID+v.Exits+v.Fat+v.Unused == 0
}

func (v Verdict) String() string {
	return fmt.Sprintf("seed=%d records=%d lost=%d early=%d changed=%d misplaced=%d disordered=%d dup_allowed=%d dup_forbidden=%d dup_other_id=%d bad_exits=%d late p50=%dms p99=%dms max=%dms resident=%dMiB used=%.0f %s",
		v.Seed, v.Records, v.Lost, v.Early, v.Changed, v.Misplaced, v.Disordered, v.Allowed, v.Forbidden, v.OtherID, v.Exits, v.P50MS, v.P99MS, v.MaxMS, v.ResidentMiB, v.Used, v.Example)
}

func (v *Verdict) fault(n *int, format string, args ...any) {
	*n++
	if v.Example == "" {
		v.Example = fmt.Sprintf(format, args...)
	}
}

// judge compares what was asked for with what arrived. Both are keyed by the
// record's number; copies are in the order of their append times.
func judge(want map[int]asked, got map[int][]arrived, r rules) Verdict {
	v := Verdict{Records: len(want)}
	var late []int64
	for n, w := range want {
		copies := got[n]
		if len(copies) == 0 {
			v.fault(&v.Lost, "record %d (%d/%d, due %d) never arrived", n, w.partition, w.offset, w.due)
			continue
		}
		v.Delivered++
		late = append(late, copies[0].at-w.due)
		for i, c := range copies {
			v.one(n, w, c, r)
			if i > 0 {
				v.twice(n, copies[0], c, r)
			}
		}
	}
	v.order(want, got)
	slices.Sort(late)
	if len(late) > 0 {
		v.P50MS, v.P99MS, v.MaxMS = late[len(late)/2], late[len(late)*99/100], late[len(late)-1]
	}
	return v
}

func (v *Verdict) one(n int, w asked, c arrived, r rules) {
	if c.at < w.due {
		v.EarliestMS = max(v.EarliestMS, w.due-c.at)
		v.fault(&v.Early, "record %d was appended %d ms early", n, w.due-c.at)
	}
	if why := differs(w, c); why != "" {
		v.fault(&v.Changed, "record %d: %s", n, why)
	}
	if w.record.Key != nil && c.partition != r.murmur(w.record.Key, r.partitions) {
		v.fault(&v.Misplaced, "record %d is in partition %d", n, c.partition)
	}
}

// twice judges a further copy: only what was sent since the last commit before a
// SIGKILL may come again, and under the same id.
func (v *Verdict) twice(n int, first, c arrived, r rules) {
	if value(first.record, "delay-id") != value(c.record, "delay-id") {
		v.fault(&v.OtherID, "record %d came again with another delay-id", n)
		return
	}
	at := time.UnixMilli(first.at)
	for _, k := range r.kills {
		if !at.Before(k.Add(-r.window)) && !at.After(k.Add(r.slack)) {
			v.Allowed++
			return
		}
	}
	v.fault(&v.Forbidden, "record %d came again; its first copy is of %s", n, at.Format("15:04:05.000"))
}

// order checks that records of one source partition with equal due time keep their
// offset order in each target partition, by their first copies.
func (v *Verdict) order(want map[int]asked, got map[int][]arrived) {
	type line struct {
		from  int32
		due   int64
		topic string
		to    int32
	}
	type pair struct{ source, target int64 }
	lines := map[line][]pair{}
	for n, w := range want {
		if c := got[n]; len(c) > 0 {
			l := line{w.partition, w.due, c[0].topic, c[0].partition}
			lines[l] = append(lines[l], pair{w.offset, c[0].offset})
		}
	}
	for l, pairs := range lines {
		slices.SortFunc(pairs, func(a, b pair) int { return int(a.source - b.source) })
		for i := 1; i < len(pairs); i++ {
			if pairs[i].target < pairs[i-1].target {
				v.fault(&v.Disordered, "partition %d, due %d: offset %d before %d in %s/%d", l.from, l.due, pairs[i].source, pairs[i-1].source, l.topic, l.to)
			}
		}
	}
}

// differs says in what a copy is not what it should be, or nothing.
func differs(w asked, c arrived) string {
	switch {
	case c.topic != w.target:
		return fmt.Sprintf("is in %s, not in %s", c.topic, w.target)
	case !same(w.record.Key, c.record.Key):
		return "has another key"
	case !same(w.record.Value, c.record.Value):
		return "has another value"
	}
	want := expected(w)
	if len(want) != len(c.record.Headers) {
		return fmt.Sprintf("has %d headers, should have %d", len(c.record.Headers), len(want))
	}
	for i, h := range c.record.Headers {
		if h.Key != want[i].Key || !same(h.Value, want[i].Value) {
			return fmt.Sprintf("header %d is %s=%q, should be %s=%q", i, h.Key, h.Value, want[i].Key, want[i].Value)
		}
	}
	return ""
}

// expected are the headers of protocol.md section 3.
func expected(w asked) []kgo.RecordHeader {
	var out []kgo.RecordHeader
	for _, h := range w.record.Headers {
		switch h.Key {
		case "target-topic", "delay-ms", "next-retry-time", "deliver-at", "delay-id", "delay-due":
		default:
			out = append(out, h)
		}
	}
	id := fmt.Sprintf("%s/%d/%d/%d", w.record.Topic, w.partition, w.offset, w.record.Timestamp.UnixMilli())
	return append(out, kgo.RecordHeader{Key: "delay-id", Value: []byte(id)}, kgo.RecordHeader{Key: "delay-due", Value: fmt.Append(nil, w.due)})
}

// same compares bytes and tells null from empty.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func value(r *kgo.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}
