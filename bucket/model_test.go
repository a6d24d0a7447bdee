package bucket

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"flag"
	"math"
	"math/rand/v2"
	"slices"
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

// model is the index as simple as it can be: a sorted list.
type model []Entry

func (m *model) add(e Entry) {
	i, _ := slices.BinarySearchFunc(*m, e, compareEntries)
	*m = slices.Insert(*m, i, e)
}

func (m *model) popDue(now int64, limit int) []Entry {
	n := 0
	for n < len(*m) && n < limit && (*m)[n].Due <= now {
		n++
	}
	popped := slices.Clone((*m)[:n])
	*m = slices.Delete(*m, 0, n)
	return popped
}

func compareEntries(a, b Entry) int {
	return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.Offset, b.Offset))
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
}

func compareWithModel(t testing.TB, ops int, choose choices) {
	starts := []int64{0, -5000, time.Date(2026, 3, 1, 0, 0, 0, 999e6, time.UTC).UnixMilli(), math.MinInt64, math.MaxInt64 - 4000}
	c := &comparison{
		t: t, choose: choose, x: New(),
		now:    starts[choose(len(starts))],
		spread: []int{2, 900, 3000, 1_000_000}[choose(4)],
	}
	for range ops {
		c.step()
		c.check()
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
	case k < 40:
		c.read(1)
	case k < 50:
		c.read(1 + c.choose(300))
	case k < 65:
		c.advance(int64(c.choose(50)))
	case k < 70:
		c.advance(int64(c.choose(2 * c.spread)))
	case k < 93:
		c.pop(c.choose(200))
	case k < 99:
		c.giveBack()
	default:
		c.x.Clear()
		c.m, c.popped = nil, nil
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
	c.x.Add(e)
	c.m.add(e)
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
		w, g := &want[i], &got[i]
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
	due, ok := c.x.NextDue()
	require.Equal(c.t, len(c.m) > 0, ok)
	if ok {
		require.Equal(c.t, c.m[0].Due, due)
	}
	require.LessOrEqual(c.t, len(c.x.runs), len(c.x.seconds))
	require.Equal(c.t, len(c.x.queue), len(c.x.seconds))
}

// payload is a message that tells which record it belongs to.
func payload(offset int64) delay.Message {
	return delay.Message(binary.BigEndian.AppendUint64(nil, uint64(offset)))
}

func TestIndexBehavesLikeASortedList(t *testing.T) {
	t.Parallel()
	r := newRand(t)
	runs := 40
	if testing.Short() {
		runs = 10
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
