package bucket

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"flag"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"delay-scheduler/delay"
)

var seedFlag = flag.Uint64("bucket.seed", 0, "seed of the model tests; 0 takes a new one")

// newRand gives a source of random numbers and says how to have the same again.
func newRand(t testing.TB) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("again with -bucket.seed=%d", seed)
	return rand.New(rand.NewPCG(seed, seed))
}

// pending is a record as the model knows it.
type pending struct {
	Entry
	far   bool
	drawn int // the number of the draw that brought it near; 0: none since it was added
}

func (p *pending) key() Key { return Key{Due: p.Due, Offset: p.Offset} }

// model is the index as simple as it can be: a sorted list.
type model []pending

// find gives the place of the first record that is not before a key.
func (m model) find(k Key) int {
	i, _ := slices.BinarySearchFunc(m, k, func(p pending, k Key) int {
		return cmp.Or(cmp.Compare(p.Due, k.Due), cmp.Compare(p.Offset, k.Offset))
	})
	return i
}

// edge is the key of the first far record.
func (m model) edge() Key {
	if i := m.firstFar(); i < len(m) {
		return m[i].key()
	}
	return Endless
}

// firstFar is the place of the first far record.
func (m model) firstFar() int {
	return sort.Search(len(m), func(i int) bool { return m[i].far })
}

// add says whether the record is near.
func (m *model) add(e Entry) bool {
	p := pending{Entry: e}
	i := m.find(p.key())
	if far := m.firstFar(); i > far || i == far && far < len(*m) && !p.key().Less((*m)[far].key()) {
		p.far, p.Message = true, nil
	}
	*m = slices.Insert(*m, i, p)
	return !p.far
}

func (m *model) popDue(now int64, limit int) []pending {
	n := 0
	for n < len(*m) && n < limit && (*m)[n].Due <= now {
		n++
	}
	popped := slices.Clone((*m)[:n])
	*m = slices.Delete(*m, 0, n)
	return popped
}

// choices is where a test takes its decisions from: a random source or fuzzed bytes.
type choices func(n int) int

// comparison does everything to an index and to the model.
type comparison struct {
	t      testing.TB
	choose choices
	x      *Index
	m      model
	now    int64
	offset int64
	spread int
	popped []Entry
	wanted []Wanted // of all draws
	draws  []int    // the draw of each of them
	draw   int
	spill  int // the last draw before the last spill: its records may have moved
}

func compareWithModel(t testing.TB, ops int, choose choices) {
	starts := []int64{0, -5000, time.Date(2026, 3, 1, 0, 0, 0, 999e6, time.UTC).UnixMilli(), math.MinInt64, math.MaxInt64 - 4000}
	c := &comparison{
		t: t, choose: choose, x: New(),
		now:    starts[choose(len(starts))],
		spread: []int{2, 900, 3000, 1_000_000}[choose(4)],
	}
	c.x.far.splitFrom = []int{0, 100, splitFrom}[choose(3)]
	for i := range ops {
		c.step()
		c.check()
		if i%32 == 0 {
			verify(c.t, c.x)
		}
	}
	c.advance(math.MaxInt64)
	for c.x.Len() > 0 {
		c.pop(100)
		c.check()
	}
	require.Empty(t, c.m)
}

func (c *comparison) step() {
	switch k := c.choose(100); {
	case k < 25:
		c.read(1)
	case k < 40:
		c.read(1 + c.choose(300))
	case k < 42:
		c.read(1500)
	case k < 50:
		c.advance(int64(c.choose(50)))
	case k < 53:
		c.advance(int64(c.choose(2 * c.spread)))
	case k < 65:
		c.pop(c.choose(200))
	case k < 73:
		c.giveUp()
	case k < 84:
		c.fetch()
	case k < 93:
		c.fill()
	case k < 99:
		c.giveBack()
	default:
		c.x.Clear()
		c.m, c.popped, c.wanted, c.draws = nil, nil, nil, nil
	}
}

// read adds records as they are read: with ascending offsets, due any time.
func (c *comparison) read(n int) {
	same := c.choose(3) == 0
	due := c.due()
	for range n {
		if !same {
			due = c.due()
		}
		c.offset += int64(1 + c.choose(2))
		c.add(Entry{Due: due, Offset: c.offset, Lane: math.MaxUint32 - uint32(c.offset), Message: payload(c.offset)})
	}
}

func (c *comparison) due() int64 {
	due := c.now + int64(c.choose(c.spread)) - int64(c.choose(min(c.spread, 1500)))
	if (due > c.now) != (due-c.now > 0) {
		return c.now // beyond the end of int64
	}
	return due
}

func (c *comparison) add(e Entry) {
	near := c.x.Near(Key{Due: e.Due, Offset: e.Offset})
	kept := c.x.Add(e)
	want := c.m.add(e)
	if kept != want || near != want {
		c.t.Fatalf("%+v: kept %v, near %v, and in the model %v", e, kept, near, want)
	}
}

// giveUp spills.
func (c *comparison) giveUp() {
	need, beyond := int64(c.choose(1<<16)), c.due()
	if c.choose(4) == 0 {
		beyond = math.MinInt64
	}
	freed, n := c.x.Spill(need, beyond)
	far := c.m.firstFar()
	var sum int64
	for i := far - n; i < far; i++ {
		p := &c.m[i]
		require.Greater(c.t, p.Due, beyond)
		sum += Cost(len(p.Message))
		p.far, p.Message, p.drawn = true, nil, 0
	}
	require.Equal(c.t, sum, freed)
	if far -= n; freed < need && far > 0 {
		last := c.m[far-1]
		number, _ := split(last.Due)
		require.True(c.t, last.Due <= beyond || c.x.runs[number] != nil, "more was to be given")
	}
	c.spill = c.draw
}

// fetch draws.
func (c *comparison) fetch() {
	n, until := c.choose(500), c.due()
	if c.choose(2) == 0 {
		until = math.MaxInt64
	}
	c.draw++
	got := c.x.Draw(n, until, c.wanted)[len(c.wanted):]
	from := c.m.firstFar()
	to := from
	for to < len(c.m) && to-from < n && c.m[to].Due <= until {
		c.m[to].far, c.m[to].drawn = false, c.draw
		to++
	}
	require.Equal(c.t, to-from, len(got))
	for i, w := range got {
		j := c.m.find(Key{Due: w.Due, Offset: w.Offset})
		require.True(c.t, j >= from && j < to && c.m[j].Offset == w.Offset && c.m[j].Lane == w.Lane, "%+v", w)
		require.True(c.t, i == 0 || got[i-1].Offset < w.Offset)
		c.draws = append(c.draws, c.draw)
	}
	c.wanted = append(c.wanted, got...)
}

// fill gives payloads to some of what was ever drawn.
func (c *comparison) fill() {
	for range min(len(c.wanted), c.choose(200)) {
		i := c.choose(len(c.wanted))
		w := c.wanted[i]
		filled := c.x.Fill(w, payload(w.Offset))
		j := c.m.find(Key{Due: w.Due, Offset: w.Offset})
		there := j < len(c.m) && c.m[j].Offset == w.Offset && c.m[j].Due == w.Due && !c.m[j].far && c.m[j].Message == nil
		must := there && c.m[j].drawn == c.draws[i] && c.draws[i] > c.spill
		if filled && !there || must && !filled {
			c.t.Fatalf("%+v: filled %v, there %v, unmoved %v", w, filled, there, must)
		}
		if filled {
			c.m[j].Message = payload(w.Offset)
		}
	}
	if len(c.wanted) > 5000 {
		c.wanted, c.draws = nil, nil
	}
}

func (c *comparison) advance(by int64) {
	if c.now > math.MaxInt64-by {
		c.now = math.MaxInt64
		return
	}
	c.now += by
}

func (c *comparison) pop(limit int) {
	got := c.x.PopDue(c.now, limit, nil)
	want := c.m.popDue(c.now, limit)
	require.Equal(c.t, len(want), len(got))
	for i := range want {
		w, g := &want[i].Entry, &got[i]
		// require.Equal on every record would take most of the test's time.
		if w.Due != g.Due || w.Offset != g.Offset || w.Lane != g.Lane || !bytes.Equal(w.Message, g.Message) {
			require.Equal(c.t, *w, *g)
		}
	}
	c.popped = append(c.popped, got...)
}

// giveBack adds some of what has left again, in any order.
func (c *comparison) giveBack() {
	for range min(len(c.popped), c.choose(100)) {
		i := c.choose(len(c.popped))
		e := c.popped[i]
		if c.choose(4) == 0 {
			e.Message = nil
		}
		c.add(e)
		c.popped[i] = c.popped[len(c.popped)-1]
		c.popped = c.popped[:len(c.popped)-1]
	}
	if len(c.popped) > 2000 {
		c.popped = c.popped[:0]
	}
}

func (c *comparison) check() {
	require.Equal(c.t, len(c.m), c.x.Len())
	require.Equal(c.t, len(c.m)-c.m.firstFar(), c.x.Far())
	require.Equal(c.t, c.m.edge(), c.x.Edge())
	due, ok := c.x.NextDue()
	require.Equal(c.t, len(c.m) > 0, ok)
	if ok {
		require.Equal(c.t, c.m[0].Due, due)
	}
	due, ok = c.x.FarDue()
	require.Equal(c.t, c.x.Far() > 0, ok)
	if ok {
		require.Equal(c.t, c.m.edge().Due, due)
	}
}

// payload is a message that tells which record it belongs to.
func payload(offset int64) delay.Message {
	return delay.Message(binary.BigEndian.AppendUint64(nil, uint64(offset)))
}

func TestIndexBehavesLikeASortedList(t *testing.T) {
	t.Parallel()
	r := newRand(t)
	runs := 16
	if testing.Short() {
		runs = 4
	}
	for range runs {
		compareWithModel(t, 400, r.IntN)
	}
}

// FuzzIndex: for any order of adding, popping, giving back and clearing, the index
//   - gives what a sorted list gives, in the order of (due, offset);
//   - gives nothing before its due time;
//   - loses no record and no payload, and doubles none;
//   - knows its length and its next due time at every moment.
func FuzzIndex(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 1, 2, 3, 4, 50, 99, 0, 200, 70, 70, 95, 60, 80, 45, 255, 0, 0, 1, 90})
	f.Fuzz(func(t *testing.T, data []byte) {
		ops := min(len(data), 300)
		compareWithModel(t, ops, func(n int) int {
			if len(data) < 2 {
				return 0
			}
			v := int(data[0])<<8 | int(data[1])
			data = data[1:]
			return v % n
		})
	})
}
