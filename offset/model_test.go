package offset

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	seedFlag  = flag.Uint64("offset.seed", 0, "seed of the model test, 0 for a new one")
	worldFlag = flag.Int("offset.worlds", 60, "how many worlds the model test tries, a quarter under the race detector")
)

// TestTrackerKeepsItsPromisesInAnyWorld drives trackers through random lives of a
// partition and compares them with a model that remembers everything.
func TestTrackerKeepsItsPromisesInAnyWorld(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d (go test ./offset -run %s -offset.seed=%d)", seed, t.Name(), seed)
	var total worldStats
	worlds := *worldFlag
	if raced {
		worlds /= 4
	}
	for i := range worlds {
		w := newWorld(rand.New(rand.NewPCG(seed, uint64(i))))
		for step := range w.steps {
			if err := w.step(); err != nil {
				require.NoError(t, err, "seed %d, world %d, step %d", seed, i, step)
			}
		}
		total.add(w.stats)
	}
	t.Logf("%+v", total)
	require.Positive(t, total.Restarts)
	require.Positive(t, total.InRestore)
	require.Positive(t, total.RuleChanges)
	require.Positive(t, total.Forgotten)
	require.Positive(t, total.Skipped)
	require.Positive(t, total.Early)
	require.Positive(t, total.SeveralSegments)
}

// worldStats show that a run met what it is meant to meet.
type worldStats struct {
	Reads, Completions, Encodes, Restarts, InRestore, RuleChanges int
	Forgotten, Skipped, Early, SeveralSegments, Also              int
}

func (s *worldStats) add(o worldStats) {
	s.Reads += o.Reads
	s.Completions += o.Completions
	s.Encodes += o.Encodes
	s.Restarts += o.Restarts
	s.InRestore += o.InRestore
	s.RuleChanges += o.RuleChanges
	s.Forgotten += o.Forgotten
	s.Skipped += o.Skipped
	s.Early += o.Early
	s.SeveralSegments += o.SeveralSegments
	s.Also += o.Also
}

type world struct {
	r     *rand.Rand
	steps int
	stats worldStats

	log       []fact
	start     int64 // offset of log[0]
	completed map[int64]bool
	committed commit
	rules     uint64
	now       int64

	// the present life
	t      *Tracker
	index  []flight // sorted by key
	sent   []flight
	done   map[int64]bool // known to be done: read as done or completed in this life
	before map[int64]bool // what earlier lives are known to have done

	// habits of this world
	limits           []int
	parked           map[int]bool
	burst            bool
	maxDelay         int64
	ackOdds, refused float64
}

func newWorld(r *rand.Rand) *world {
	w := &world{
		r: r, steps: 150 + r.IntN(250),
		start: []int64{0, 5, 4090, 1 << 40}[r.IntN(4)],
		now:   1_700_000_000_000, completed: map[int64]bool{},
		parked:   map[int]bool{},
		burst:    r.IntN(4) == 0,
		maxDelay: []int64{1, 100, 5000, 100_000}[r.IntN(4)],
		ackOdds:  []float64{0.02, 0.2, 0.5, 0.95}[r.IntN(4)],
		limits:   [][]int{{4096}, {4096, 200}, {0, 64, 72, 90, 120, 200, 400}, {100, 150}}[r.IntN(4)],
	}
	if r.IntN(2) == 0 {
		w.refused = 0.05
	}
	for range r.IntN(4) {
		w.parked[r.IntN(7)] = true
	}
	w.committed = commit{Encoded: Encoded{Offset: w.start}, known: map[int64]bool{}}
	w.restart(nil)
	return w
}

func (w *world) fact(offset int64) fact {
	for int64(len(w.log)) <= offset-w.start {
		f := fact{
			exists: w.r.IntN(12) != 0, byRules: w.r.IntN(5) == 0,
			due: w.now + w.r.Int64N(w.maxDelay+1), target: w.r.IntN(7), listed: 4,
		}
		if w.burst {
			f.due = 1_700_000_000_000 + 1000*(1+w.r.Int64N(2))
		}
		if w.r.Float64() < w.refused {
			f.listed = uint64(w.r.IntN(4))
		}
		w.log = append(w.log, f)
	}
	return w.log[offset-w.start]
}

func (w *world) step() error {
	w.now += w.r.Int64N(200)
	var err error
	switch n := w.r.IntN(100); {
	case n < 40:
		err = w.read(w.r.IntN(40))
	case n < 42:
		err = w.read(w.r.IntN(2000))
	case n < 60:
		w.fire()
	case n < 80:
		w.acknowledge()
	case n < 82:
		w.forward()
	case n < 85:
		w.mistakes()
	case n < 97:
		err = w.encode()
	default:
		w.die()
	}
	if err == nil {
		err = w.t.verify()
	}
	if err == nil {
		err = w.verifyCounts()
	}
	return err
}

// encode checks what is written against what is true, and perhaps commits it.
func (w *world) encode() error {
	w.stats.Encodes++
	limit := w.limits[w.r.IntN(len(w.limits))]
	e := w.t.Encode(limit)
	if len(e.Metadata) > limit {
		return fmt.Errorf("%d characters for a limit of %d", len(e.Metadata), limit)
	}
	if e.Offset != w.t.Low() {
		return fmt.Errorf("encoded offset %d, low is %d", e.Offset, w.t.Low())
	}
	c := commit{Encoded: e, rules: w.rules, known: w.known()}
	if err := w.judge(w.decode(c), c, e.Dropped); err != nil {
		return err
	}
	if err := w.judge(w.t.Snapshot(), c, 0); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	if e.Dropped == 0 && limit >= 4096 && len(e.Metadata) == 0 {
		return fmt.Errorf("not even a header")
	}
	if w.r.IntN(3) > 0 {
		w.committed = c
	}
	return nil
}

// known is all that the present owner knows to be done.
func (w *world) known() map[int64]bool {
	known := map[int64]bool{}
	for o := range w.done {
		known[o] = true
	}
	for o := range w.before {
		if o >= w.t.Next() {
			known[o] = true
		}
	}
	return known
}

func (w *world) decode(c commit) *Set {
	s, err := Decode(c.Metadata, w.id(), c.Offset)
	if err != nil && c.Metadata != "" {
		panic(fmt.Sprintf("decode what was encoded: %v", err))
	}
	return s
}

func (w *world) id() TopicID { return TopicID{1, 2, 3} }

// judge asks a set about every record, as a tracker with the same rules would.
func (w *world) judge(s *Set, c commit, dropped int64) error {
	if s == nil {
		return nil
	}
	if len(s.segments) > 1 {
		w.stats.SeveralSegments++
	}
	var forgotten int64
	for i := range w.log {
		o := w.start + int64(i)
		if o < c.Offset || !w.log[i].exists {
			continue
		}
		v := w.log[i].under(w.rules)
		isDone := says(s, o, v, w.rules)
		if isDone && !w.completed[o] {
			return fmt.Errorf("LOST: offset %d is written as done", o)
		}
		if !isDone && c.known[o] {
			forgotten++
		}
	}
	w.stats.Forgotten += int(forgotten)
	if forgotten > dropped {
		return fmt.Errorf("%d completed records are not in the set, %d counted as dropped", forgotten, dropped)
	}
	return nil
}

// says is what a set says of a record to an owner with these rules.
func says(s *Set, offset int64, v verdict, rules uint64) bool {
	if s == nil {
		return false
	}
	for _, seg := range s.segments {
		seg.stale = seg.stale || s.Fingerprint != rules
		if seg.isDone(Key{v.due, offset}, v.lane, v.fromRules) {
			return true
		}
	}
	return false
}

// die ends a life at any moment; the next begins with the last commit.
func (w *world) die() {
	w.stats.Restarts++
	if w.t.Restoring() {
		w.stats.InRestore++
	}
	var memory *Set
	if w.r.IntN(3) == 0 {
		w.stats.Also++
		memory = w.t.Snapshot()
	}
	w.restart(memory)
}

func (w *world) restart(memory *Set) {
	if w.r.IntN(10) == 0 {
		w.rules++
		w.stats.RuleChanges++
	}
	set := w.decode(w.committed)
	known := w.committed.known
	if memory != nil {
		known = w.known()
		maps.Copy(known, w.committed.known)
	}
	before := map[int64]bool{}
	for o := range known {
		v := w.fact(o).under(w.rules)
		if says(set, o, v, w.rules) || says(memory, o, v, w.rules) || o < w.committed.Offset {
			before[o] = true
		}
	}
	w.t = New(Options{TopicID: w.id(), Start: w.committed.Offset, Fingerprint: w.rules, Nonce: 7})
	w.t.left.every = 3
	w.t.Restore(set, memory)
	w.before, w.done = before, map[int64]bool{}
	w.index, w.sent = nil, nil
}

func (w *world) verifyCounts() error {
	if got, want := w.t.Pending(), len(w.index)+len(w.sent); got != want {
		return fmt.Errorf("%d pending, should be %d", got, want)
	}
	for _, f := range w.index {
		if f.offset < w.t.Low() {
			return fmt.Errorf("LOST: low %d has passed the pending %d", w.t.Low(), f.offset)
		}
	}
	for _, f := range w.sent {
		if f.offset < w.t.Low() {
			return fmt.Errorf("LOST: low %d has passed the unacknowledged %d", w.t.Low(), f.offset)
		}
	}
	if w.t.Exceptions() > w.t.Open()+w.t.early.len() {
		return fmt.Errorf("%d exceptions of %d open records", w.t.Exceptions(), w.t.Open())
	}
	if got, want := w.t.Above(), w.t.Next()-w.t.Low()-int64(w.t.Pending()); got != want {
		return fmt.Errorf("%d above, should be %d", got, want)
	}
	return nil
}
