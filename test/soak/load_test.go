//go:build soak

package soak

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// source is a delay topic and how its delays are distributed.
type source struct {
	name       string
	partitions int
	share      int // of a hundred records
	wait       func(rnd *rand.Rand, now time.Time, longest time.Duration) time.Duration
}

// sources have delays from nothing to the longest, which is ten minutes in a full run.
var sources = []source{
	{"fixed", 4, 20, func(_ *rand.Rand, _ time.Time, longest time.Duration) time.Duration { return longest / 20 }},
	{"uniform", 6, 35, func(r *rand.Rand, _ time.Time, longest time.Duration) time.Duration {
		return time.Duration(r.Int64N(int64(longest)))
	}},
	{"exponential", 3, 25, func(r *rand.Rand, _ time.Time, longest time.Duration) time.Duration {
		return time.Duration(r.ExpFloat64() * float64(longest) / 20)
	}},
	{"bimodal", 3, 10, func(r *rand.Rand, _ time.Time, longest time.Duration) time.Duration {
		if r.IntN(2) == 0 {
			return time.Duration(r.Int64N(int64(time.Second)))
		}
		return longest*9/10 + time.Duration(r.Int64N(int64(longest/10)))
	}},
	// All of a while fall due at one instant.
	{"instant", 2, 10, func(_ *rand.Rand, now time.Time, longest time.Duration) time.Duration {
		return now.Truncate(longest / 5).Add(2 * longest / 5).Sub(now)
	}},
}

// targets are where records go. The last one comes and goes.
var targets = []string{"a", "b", "c", "guest"}

const guest = "guest"

// size of a record's value: mostly a few hundred bytes, and up to 100 KB.
func size(rnd *rand.Rand) int {
	least, most := 100.0, 1_000.0
	switch n := rnd.IntN(1000); {
	case n < 5:
		least, most = 10_000, 100_000
	case n < 60:
		least, most = 1_000, 10_000
	}
	return int(least * math.Pow(most/least, rnd.Float64()))
}

// load produces until the time is over, and delays nothing beyond it.
type load struct {
	world
	client   *kgo.Client
	rnd      *rand.Rand
	rate     int
	ends     time.Time
	produced atomic.Int64 // acknowledged
	failed   atomic.Pointer[error]
}

// world names a run's topics.
type world struct{ name string }

func (w world) topic(suffix string) string { return w.name + "-" + suffix }

// run keeps the rate on average, a hundredth of a second at a time.
func (l *load) run(ctx context.Context, longest time.Duration) {
	began, n := time.Now(), 0
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		var now time.Time
		select {
		case now = <-tick.C:
		case <-ctx.Done():
			return
		}
		for ; n < int(now.Sub(began).Seconds()*float64(l.rate)); n++ {
			if left := l.ends.Sub(now); left > 0 {
				l.client.Produce(context.WithoutCancel(ctx), l.record(n, now, min(longest, left)), l.acknowledged)
			}
		}
	}
}

func (l *load) acknowledged(_ *kgo.Record, err error) {
	if err != nil {
		l.failed.Store(&err)
		return
	}
	l.produced.Add(1)
}

// record n has a delay of its source's kind, capped at what is left of the run.
func (l *load) record(n int, now time.Time, longest time.Duration) *kgo.Record {
	s := l.pick()
	wait := min(s.wait(l.rnd, now, longest), longest)
	r := &kgo.Record{
		Topic: l.topic(s.name + "-delay"), Key: fmt.Appendf(nil, "key-%d", n%5000), Value: value(n, size(l.rnd)),
		Headers: []kgo.RecordHeader{
			{Key: "target-topic", Value: []byte(l.topic(targets[l.rnd.IntN(len(targets))]))},
			{Key: "trace", Value: []byte{0, 255}},
		},
	}
	when := kgo.RecordHeader{Key: "delay-ms", Value: strconv.AppendInt(nil, wait.Milliseconds(), 10)}
	if s.name == "instant" {
		when = kgo.RecordHeader{Key: "deliver-at", Value: strconv.AppendInt(nil, now.Add(wait).UnixMilli(), 10)}
	}
	r.Headers = append(r.Headers, when)
	return r
}

func (l *load) pick() source {
	n := l.rnd.IntN(100)
	for _, s := range sources {
		if n -= s.share; n < 0 {
			return s
		}
	}
	return sources[0]
}
