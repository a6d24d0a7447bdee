package offset

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHoldKeepsWhatIsOverdueAndFreesTheRest(t *testing.T) {
	h := &Hold{From: 10, Below: 20, Due: 1000}

	require.Equal(t, Free, (*Hold)(nil).Fate(15, 0))
	require.Equal(t, Free, h.Fate(9, 0))
	require.Equal(t, Kept, h.Fate(10, 1000))
	require.Equal(t, Free, h.Fate(10, 1001))
	require.Equal(t, Free, h.Fate(20, 0))
	require.Equal(t, Dropped, h.Decide(500).Fate(15, 499))
	require.Equal(t, Released, h.Decide(500).Fate(15, 500))
	require.False(t, h.Decided, "a decision is another hold")
}

func TestHoldIsWrittenAndReadAgain(t *testing.T) {
	for _, h := range []*Hold{
		{From: 5, Below: 900, Due: 1_770_000_000_000},
		{From: 0, Below: 7, Due: Everything},
		{From: 5, Below: 900, Due: 1_770_000_000_000, Decided: true, Since: Everything},
		{From: 5, Below: 900, Due: 1_770_000_000_000, Decided: true, Since: -1},
	} {
		tr := New(Options{TopicID: TopicID{1}, Start: 7})
		tr.SetHold(h)
		tr.Keep(8)
		e := tr.Encode(200)
		s, err := Decode(e.Metadata, TopicID{1}, e.Offset)
		require.NoError(t, err)
		if h.over(tr.Low()) {
			require.Nil(t, s.Hold)
			continue
		}
		require.Equal(t, h, s.Hold)
		info, err := Inspect(e.Metadata)
		require.NoError(t, err)
		require.Equal(t, h, info.Hold)
	}
}

func TestHoldEndsWithItsLastRecord(t *testing.T) {
	tr := New(Options{Start: 5})
	tr.SetHold(&Hold{From: 5, Below: 7, Due: 1000})
	tr.Keep(5)
	tr.Advance(9)
	require.NotNil(t, tr.Hold())
	require.EqualValues(t, 5, tr.Low(), "what is kept is pending")

	tr = New(Options{Start: 5})
	tr.SetHold(&Hold{From: 5, Below: 7, Due: 1000})
	require.False(t, tr.Read(5, 2000, LaneOf("a"), false))
	tr.Complete(5, 2000, LaneOf("a"))
	tr.Advance(9)
	require.Nil(t, tr.Hold(), "nothing was overdue")

	tr.SetHold(&Hold{From: 0, Below: 9, Due: Everything})
	require.NotNil(t, tr.Hold(), "it holds what is below the watermark")
	tr.SetHold(tr.Hold().Decide(Everything))
	require.Nil(t, tr.Hold())
}

func TestNothingHeldIsLostOrSentUndecided(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	decidedInRestore := 0
	for i := range 400 {
		w := newHeldWorld(t, rand.New(rand.NewPCG(seed, uint64(i))))
		for range 60 + w.r.IntN(100) {
			w.step()
		}
		w.finish()
		decidedInRestore += w.decidedInRestore
	}
	require.Positive(t, decidedInRestore)
}

// heldRecord is one of a heldWorld's log.
type heldRecord struct {
	due  int64
	lane uint64
}

// heldWorld is a partition of which some is held, with owners that come and go.
type heldWorld struct {
	t     *testing.T
	r     *rand.Rand
	log   []heldRecord
	start int64 // where the first owner begins
	first *Hold
	since int64
	now   int64

	completed, sent map[int64]bool
	known           map[int64]bool // what the present owner knows to be done
	committed       Encoded
	committedKnown  map[int64]bool
	decided         bool

	tracker          *Tracker
	index, flying    []flight
	decidedInRestore int
}

func newHeldWorld(t *testing.T, r *rand.Rand) *heldWorld {
	w := &heldWorld{t: t, r: r, now: 1000, completed: map[int64]bool{}, sent: map[int64]bool{}, known: map[int64]bool{}}
	for range 100 + r.IntN(200) {
		w.log = append(w.log, heldRecord{due: r.Int64N(2000), lane: LaneOf(string(rune('a' + r.IntN(3))))})
	}
	w.first = &Hold{Below: r.Int64N(int64(len(w.log))), Due: 1000}
	if r.IntN(3) == 0 { // As after a truncation.
		w.first.Due, w.start = Everything, w.first.Below
	}
	w.since = []int64{-1, 500, Everything}[r.IntN(3)]
	w.live(nil, w.start)
	w.tracker.SetHold(w.first)
	w.committed, w.committedKnown = w.tracker.Encode(4096), map[int64]bool{}
	return w
}

// live begins an owner's life.
func (w *heldWorld) live(known *Set, from int64) {
	w.tracker = New(Options{Start: from})
	w.tracker.Restore(known)
	if known != nil {
		w.tracker.SetHold(known.Hold)
	}
	w.index, w.flying = nil, nil
}

func (w *heldWorld) step() {
	w.now += w.r.Int64N(20)
	switch n := w.r.IntN(100); {
	case n < 40:
		w.read(w.r.IntN(40))
	case n < 60:
		w.fire()
	case n < 80:
		w.acknowledge()
	case n < 92:
		w.committed, w.committedKnown = w.tracker.Encode(4096), maps.Clone(w.known)
		require.Zero(w.t, w.committed.Dropped)
	case n < 97:
		w.known = maps.Clone(w.committedKnown)
		known, err := Decode(w.committed.Metadata, TopicID{}, w.committed.Offset)
		require.NoError(w.t, err)
		w.live(known, w.committed.Offset)
	case w.tracker.Hold() != nil && !w.tracker.Hold().Decided:
		w.decide()
	}
	w.check()
}

func (w *heldWorld) decide() {
	if w.tracker.Restoring() {
		w.decidedInRestore++
	}
	w.decided = true
	known, from := w.tracker.Snapshot(), w.tracker.Low()
	if known.Hold.Due == Everything {
		from = min(from, known.Hold.From)
	}
	known.Hold = known.Hold.Decide(w.since)
	w.live(known, from)
}

func (w *heldWorld) read(n int) {
	for ; n > 0 && w.tracker.Next() < int64(len(w.log)); n-- {
		o := w.tracker.Next()
		rec := w.log[o]
		lane := rec.lane
		switch w.tracker.Hold().Fate(o, rec.due) {
		case Kept:
			w.tracker.Keep(o)
			continue
		case Dropped:
			w.tracker.Advance(o + 1)
			continue
		case Released:
			lane = HeldLane
		case Free:
		}
		again := w.known[o]
		if w.tracker.Read(o, rec.due, lane, false) {
			require.True(w.t, w.completed[o], "LOST: offset %d is called done", o)
			continue
		}
		require.False(w.t, again, "offset %d is sent again", o)
		w.index = append(w.index, flight{o, verdict{rec.due, lane, false}})
	}
	slices.SortFunc(w.index, func(a, b flight) int { return a.key().Compare(b.key()) })
}

func (w *heldWorld) fire() {
	for len(w.index) > 0 && w.index[0].due <= w.now {
		f := w.index[0]
		w.index = w.index[1:]
		w.tracker.Due(f.offset, f.due, f.lane)
		w.flying = append(w.flying, f)
		w.sent[f.offset] = true
		fate := w.fate(f.offset)
		require.True(w.t, fate == Free || fate == Released, "offset %d was sent", f.offset)
	}
}

// fate is what should become of a record by what is decided now.
func (w *heldWorld) fate(offset int64) Fate {
	h := w.first
	if w.decided {
		h = h.Decide(w.since)
	}
	return h.Fate(offset, w.log[offset].due)
}

func (w *heldWorld) acknowledge() {
	for n := w.r.IntN(30); n > 0 && len(w.flying) > 0; n-- {
		i := w.r.IntN(len(w.flying))
		f := w.flying[i]
		w.flying = slices.Delete(w.flying, i, i+1)
		w.completed[f.offset], w.known[f.offset] = true, true
		w.tracker.Complete(f.offset, f.due, f.lane)
	}
}

func (w *heldWorld) check() {
	require.NoError(w.t, w.tracker.verify())
	from := w.first.From
	if h := w.tracker.Hold(); w.first.Due == Everything {
		require.True(w.t, w.decided || h != nil)
		if h != nil && !h.Decided {
			from = w.start // Below it the hold itself remembers.
		}
	}
	for o := from; o < w.tracker.Low(); o++ {
		require.True(w.t, w.completed[o] || w.fate(o) == Dropped, "LOST: the watermark %d has passed %d", w.tracker.Low(), o)
	}
}

// finish lets everything that can leave, and asks for the decision at the end.
func (w *heldWorld) finish() {
	if h := w.tracker.Hold(); h != nil && !h.Decided {
		w.decide()
	}
	if w.r.IntN(2) == 0 {
		w.committed = w.tracker.Encode(4096)
		known, err := Decode(w.committed.Metadata, TopicID{}, w.committed.Offset)
		require.NoError(w.t, err)
		w.live(known, w.committed.Offset)
	}
	w.now = 3000
	w.read(len(w.log))
	w.fire()
	for len(w.flying) > 0 {
		w.acknowledge()
	}
	w.check()
	require.EqualValues(w.t, len(w.log), w.tracker.Low())
	require.Nil(w.t, w.tracker.Hold())
	for o := range w.log {
		if !w.decided && w.fate(int64(o)) == Kept {
			continue // The hold was over before: there was nothing in it.
		}
		require.Equal(w.t, w.fate(int64(o)) != Dropped, w.sent[int64(o)], "offset %d", o)
	}
}

func TestDecisionIsReadAsItWasWritten(t *testing.T) {
	d := Decision{Below: 5, Due: Everything, Since: -1}
	got, err := ParseDecision(d.String())
	require.NoError(t, err)
	require.Equal(t, d, got)
	for _, m := range []string{"", "ds1.AAAA", "ds-accept1 below=1 due=2", d.String() + " ", "ds-accept1 below=+1 due=2 since=3"} {
		_, err := ParseDecision(m)
		require.ErrorIs(t, err, ErrNoDecision, m)
	}
	require.True(t, d.About(&Hold{Below: 5, Due: Everything}))
	require.False(t, d.About(nil))
	require.False(t, d.About(&Hold{Below: 5, Due: Everything, Decided: true}))
	require.False(t, d.About(&Hold{Below: 5, Due: 7}))
}

func TestHoldOfALogThatWasCutBeforeItIsOver(t *testing.T) {
	s := &Set{Offset: 60, Hold: &Hold{From: 50, Below: 100, Due: 1000}}
	require.Equal(t, &Hold{From: 50, Below: 70, Due: 1000}, s.Below(70).Hold)
	require.EqualValues(t, 100, s.Hold.Below, "the set itself is as it was")
	require.Nil(t, s.Below(50).Hold, "none of its records are left")
	require.Nil(t, s.Below(10).Hold)
}
