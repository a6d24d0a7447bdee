package offset

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// flow is a partition at work: records arrive, leave when they are due, and are
// acknowledged some time later.
type flow struct {
	t       *Tracker
	log     []verdict          // by offset from the start
	due     map[int64][]flight // by millisecond, in offset order
	acks    map[int64][]flight // by millisecond
	parked  map[uint64]bool
	latency func() int64
	done    int
}

func newFlow(latency func() int64) *flow {
	return &flow{
		t:   New(Options{TopicID: TopicID{9}, Start: 123_456_789, Fingerprint: 1, Nonce: 2}),
		due: map[int64][]flight{}, acks: map[int64][]flight{}, parked: map[uint64]bool{}, latency: latency,
	}
}

func (f *flow) read(due int64, lane uint64) {
	o := f.t.Next()
	r := flight{o, verdict{due: due, lane: lane}}
	f.log = append(f.log, r.verdict)
	f.t.Read(o, due, lane, false)
	f.due[due] = append(f.due[due], r)
}

// turn sends what is due at now and takes the acknowledgements that arrive at now.
func (f *flow) turn(now int64) {
	for _, r := range f.due[now] {
		f.t.Due(r.offset, r.due, r.lane)
		if !f.parked[r.lane] {
			at := now + f.latency()
			f.acks[at] = append(f.acks[at], r)
		}
	}
	delete(f.due, now)
	for _, r := range f.acks[now] {
		f.t.Complete(r.offset, r.due, r.lane)
		f.done++
	}
	delete(f.acks, now)
}

// requireSameAfterRestart reads everything again with the set that was encoded.
func requireSameAfterRestart(t *testing.T, f *flow, e Encoded) {
	t.Helper()
	require.Zero(t, e.Dropped)
	set, err := Decode(e.Metadata, f.t.id, e.Offset)
	require.NoError(t, err)
	again := New(Options{TopicID: f.t.id, Start: e.Offset, Fingerprint: 1, Nonce: 3})
	again.Restore(set)
	for o := e.Offset; o < f.t.Next(); o++ {
		v := f.log[o-123_456_789]
		if done := again.Read(o, v.due, v.lane, false); done == f.t.pending.has(o) {
			require.Failf(t, "wrong", "offset %d: done %v", o, done)
		}
	}
	require.Equal(t, f.t.Pending(), again.Pending())
	require.Equal(t, f.t.Low(), again.Low())
	require.NoError(t, again.verify())
	// Written by the one that restored it, the set costs no more than before.
	next := again.Encode(4096)
	require.Zero(t, next.Dropped)
	require.LessOrEqual(t, len(next.Metadata), len(e.Metadata)+32)
}

func skipRaced(t *testing.T) {
	t.Helper()
	if raced {
		t.Skip("a large case, without goroutines")
	}
}

func describe(t *testing.T, name string, e Encoded) {
	t.Helper()
	info, err := Inspect(e.Metadata)
	require.NoError(t, err)
	for _, s := range info.Segments {
		t.Logf("%s: %d characters; offsets %d, lanes %d, pending %d, written as %s in %d bytes",
			name, info.Characters, s.To-s.From, len(s.Lanes), s.Pending, s.Kinds, s.Bytes)
	}
}

const now0 = int64(1_770_000_000_000)

// steadyFlow is 10,000 records a second with random delays of up to 50 s to twenty
// targets; a first record waits for a day. Two targets are in trouble from second 60 on.
func steadyFlow(records int, latency func() int64) (f *flow, now int64) {
	r := rand.New(rand.NewPCG(1, 2))
	f = newFlow(latency)
	f.read(now0+86_400_000, LaneOf("tomorrow"))
	for now = now0; len(f.log) < records; now++ {
		for range 10 {
			f.read(now+r.Int64N(50_000), LaneOf(fmt.Sprint("target", r.IntN(20))))
		}
		if now == now0+60_000 {
			f.parked[LaneOf("target3")], f.parked[LaneOf("target7")] = true, true
		}
		f.turn(now)
	}
	return f, now
}

func TestMillionCompletionsWithTwoLanesInTroubleFitInAKilobyte(t *testing.T) {
	skipRaced(t)
	r := rand.New(rand.NewPCG(3, 4))
	f, _ := steadyFlow(1_400_000, func() int64 { return 1 + r.Int64N(20) })
	e := f.t.Encode(4096)
	describe(t, "random delays, two lanes in trouble", e)
	require.Greater(t, f.done, 1_000_000)
	require.GreaterOrEqual(t, f.t.Above(), int64(f.done))
	require.LessOrEqual(t, len(e.Metadata), 1024)
	requireSameAfterRestart(t, f, e)
}

func TestBurstKilledHalfWayFitsInAKilobyte(t *testing.T) {
	skipRaced(t)
	f := newFlow(nil)
	r := rand.New(rand.NewPCG(5, 6))
	f.read(now0+86_400_000, LaneOf("tomorrow"))
	lanes := []uint64{LaneOf("a"), LaneOf("b"), LaneOf("c"), LaneOf("d")}
	for range 1_000_000 {
		f.read(now0, lanes[r.IntN(len(lanes))])
	}
	// All of it leaves the index; the targets have got to different places, and each is
	// acknowledged in batches that overtake each other.
	for _, rec := range f.due[now0] {
		f.t.Due(rec.offset, rec.due, rec.lane)
	}
	for i, id := range lanes {
		var mine []flight
		for _, rec := range f.due[now0] {
			if rec.lane == id {
				mine = append(mine, rec)
			}
		}
		for n := 0; n < len(mine)/2-1000*i; n++ {
			if n >= len(mine)/2-1000*i-500 && n%500 < 100 {
				continue // a batch still under way
			}
			f.t.Complete(mine[n].offset, mine[n].due, mine[n].lane)
			f.done++
		}
	}
	e := f.t.Encode(4096)
	describe(t, "burst of one instant, four targets", e)
	require.Greater(t, f.done, 450_000)
	require.LessOrEqual(t, len(e.Metadata), 1024)
	requireSameAfterRestart(t, f, e)
}

func TestBurstToOneTargetIsAFewRuns(t *testing.T) {
	skipRaced(t)
	f := newFlow(nil)
	f.read(now0+86_400_000, LaneOf("tomorrow"))
	for range 1_000_000 {
		f.read(now0, 1)
	}
	burst := f.due[now0]
	for _, rec := range burst[:600_000] {
		f.t.Due(rec.offset, rec.due, rec.lane)
	}
	for i, rec := range burst[:500_000] {
		if i < 490_000 || i/2_000%2 == 1 {
			f.t.Complete(rec.offset, rec.due, rec.lane)
		}
	}
	e := f.t.Encode(4096)
	describe(t, "burst of one instant, one target", e)
	require.LessOrEqual(t, len(e.Metadata), 150)
	requireSameAfterRestart(t, f, e)
}

func TestSlowAcknowledgementsStillFit(t *testing.T) {
	skipRaced(t)
	r := rand.New(rand.NewPCG(7, 8))
	f, _ := steadyFlow(900_000, func() int64 { return 250 + r.Int64N(500) })
	e := f.t.Encode(1 << 20)
	describe(t, "every acknowledgement takes 250 to 750 ms", e)
	requireSameAfterRestart(t, f, e)
}
