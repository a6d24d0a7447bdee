package scheduler

import (
	"strconv"
	"sync"
	"time"
)

// fakeClock is the bubble's clock with a step added to wall time, and time that
// passed while the machine was suspended.
type fakeClock struct {
	mu        sync.Mutex
	step      time.Duration
	suspended time.Duration
	began     time.Time
}

func newFakeClock() *fakeClock { return &fakeClock{began: time.Now()} }

func (c *fakeClock) wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.step + c.suspended)
}

func (c *fakeClock) boot() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.began) + c.suspended
}

func (c *fakeClock) stepBy(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.step += d
}

func (c *fakeClock) suspend(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.suspended += d
}

// fakeGroup is the coordinator: it stores commits of the current generation.
type fakeGroup struct {
	mu         sync.Mutex
	generation int
	offset     int64
	metadata   string
	count      int
	fail       func(Commit) error
	log        []int64
	keptFor    time.Duration
}

func newFakeGroup() *fakeGroup { return &fakeGroup{offset: -1} }

func (g *fakeGroup) next() *fakeSession {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.generation++
	return &fakeSession{g: g, generation: g.generation}
}

func (g *fakeGroup) committed() (int64, string, int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.offset, g.metadata, g.count
}

func (g *fakeGroup) claim() Claim {
	o, m, _ := g.committed()
	return Claim{Topic: "a-delay", TopicID: [16]byte{1}, Committed: o, Metadata: m, KeptFor: g.keptFor}
}

type fakeSession struct {
	g          *fakeGroup
	generation int
}

func (s *fakeSession) ID() string { return strconv.Itoa(s.generation) }

func (s *fakeSession) Commit(commits []Commit) {
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	for _, c := range commits {
		var err error
		if s.g.fail != nil {
			err = s.g.fail(c)
		}
		switch {
		case err != nil:
		case s.generation != s.g.generation:
			err = ErrFenced
		default:
			s.g.offset, s.g.metadata = c.Offset, c.Metadata
			s.g.count++
			s.g.log = append(s.g.log, c.Offset)
		}
		c.Done(err)
	}
}
