package kafka

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"delay-scheduler/scheduler"
)

const (
	// commitLinger is how long the first commit waits for others: partitions commit at
	// the same moment, and one request serves all of them.
	commitLinger = 2 * time.Millisecond
	// commitPause is the pause before a commit is tried again; it doubles up to
	// commitPauseMost.
	commitPause     = 50 * time.Millisecond
	commitPauseMost = 500 * time.Millisecond
	// commitRequestSize is the most that one request holds. Brokers write a request's
	// offsets as one batch and refuse what exceeds their message size.
	commitRequestSize = 256 << 10
)

// committer stores offsets and metadata at the group coordinator, over a connection of
// its own, so that neither heartbeats nor a join hold it up. One goroutine owns the
// connection and sends one request at a time; so of one partition never two commits
// are under way, and they are stored in the order in which they were given.
type committer struct {
	coordinator *groupCoordinator
	group       string
	instance    *string // nil: dynamic membership
	budget      time.Duration
	log         *zap.Logger
	metrics     *groupMetrics

	requestSize int // the goroutine's own

	life context.Context //nolint:containedctx // the goroutine's own: close ends it
	end  context.CancelFunc
	wake chan struct{} // capacity 1
	done chan struct{} // closed when the goroutine is over

	mu     sync.Mutex // guards what follows
	queue  []pendingCommit
	closed bool
	busy   *session      // whose commits are under way
	idle   chan struct{} // closed when they are over; nil: nobody waits
}

// pendingCommit is a commit with nothing known of it yet.
type pendingCommit struct {
	scheduler.Commit
	session *session
	since   time.Time
}

func (p pendingCommit) place() place { return place{p.Topic, p.Partition} }

// place is a partition.
type place struct {
	topic     string
	partition int32
}

// start starts the goroutine; close ends it. The caller has filled in the rest.
func (c *committer) start() {
	c.life, c.end = context.WithCancel(context.Background())
	c.requestSize = commitRequestSize
	c.wake, c.done = make(chan struct{}, 1), make(chan struct{})
	go c.run()
}

// session is one generation of our membership as the scheduler knows it. It stays
// good for commits until the broker refuses one, also after the library is done
// with it.
type session struct {
	committer  *committer
	member     string
	generation int32
	lost       atomic.Bool
}

var _ scheduler.Session = (*session)(nil)

// Commit implements scheduler.Session.
func (s *session) Commit(commits []scheduler.Commit) { s.committer.enqueue(s, commits) }

// ID implements scheduler.Session.
func (s *session) ID() string { return fmt.Sprintf("%s/%d", s.member, s.generation) }

// Lost is true once the broker does not know the session any more.
func (s *session) Lost() bool { return s.lost.Load() }

func (c *committer) enqueue(s *session, commits []scheduler.Commit) {
	now := time.Now()
	fresh := make([]pendingCommit, len(commits))
	for i, commit := range commits {
		fresh[i] = pendingCommit{Commit: commit, session: s, since: now}
	}
	c.mu.Lock()
	lost, closed := s.Lost(), c.closed
	if !lost && !closed {
		c.queue = append(c.queue, fresh...)
	}
	c.mu.Unlock()
	switch {
	case lost:
		settle(fresh, scheduler.ErrFenced)
	case closed:
		settle(fresh, errLeft)
	default:
		c.signal()
	}
}

// errLeft answers commits for which there is nobody any more.
var errLeft = fmt.Errorf("%w: we have left the group", scheduler.ErrUnavailable)

func (c *committer) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// run is the goroutine.
func (c *committer) run() {
	defer close(c.done)
	for {
		select {
		case <-c.life.Done():
			c.giveUp(everything, errLeft)
			return
		case <-c.wake:
		}
		if c.len() < commitBatchFull {
			pause(c.life, commitLinger)
		}
		for batch := c.next(); len(batch) > 0; batch = c.next() {
			c.store(batch)
			c.rest()
		}
	}
}

// commitBatchFull is how many waiting commits make lingering pointless.
const commitBatchFull = 64

func (c *committer) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue)
}

// next takes what one request may hold: commits of one session, each partition once.
// What belongs to lost sessions ends on the way.
func (c *committer) next() []pendingCommit {
	c.giveUp(func(p pendingCommit) bool { return p.session.Lost() }, scheduler.ErrFenced)
	if c.life.Err() != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		return nil
	}
	first := c.queue[0].session
	var batch, rest []pendingCommit
	size, seen := 0, map[place]bool{}
	for _, p := range c.queue {
		full := len(batch) > 0 && size+commitSize(p) > c.requestSize
		if p.session != first || full || seen[p.place()] {
			seen[p.place()] = true // later ones of the partition stay behind it
			rest = append(rest, p)
			continue
		}
		seen[p.place()] = true
		size += commitSize(p)
		batch = append(batch, p)
	}
	c.queue, c.busy = rest, first
	return batch
}

// rest marks that nothing is under way.
func (c *committer) rest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy = nil
	if c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// giveUp ends waiting commits without sending them.
func (c *committer) giveUp(which func(pendingCommit) bool, err error) {
	c.mu.Lock()
	var over []pendingCommit
	c.queue = slices.DeleteFunc(c.queue, func(p pendingCommit) bool {
		if which(p) {
			over = append(over, p)
			return true
		}
		return false
	})
	c.mu.Unlock()
	settle(over, err)
}

func everything(pendingCommit) bool { return true }

func settle(commits []pendingCommit, err error) {
	for _, p := range commits {
		p.Done(err)
	}
}

// fence ends a session: what waits under it, and comes later, is fenced.
func (c *committer) fence(s *session) {
	c.mu.Lock()
	s.lost.Store(true)
	c.mu.Unlock()
	c.giveUp(func(p pendingCommit) bool { return p.session == s }, scheduler.ErrFenced)
}

// retire ends a session and awaits what is under way, so that after it nothing is
// stored under that generation by us.
func (c *committer) retire(ctx context.Context, s *session) {
	c.fence(s)
	c.mu.Lock()
	var idle chan struct{}
	if c.busy == s {
		if c.idle == nil {
			c.idle = make(chan struct{})
		}
		idle = c.idle
	}
	c.mu.Unlock()
	if idle == nil {
		return
	}
	hurry := time.AfterFunc(retirePatience, c.coordinator.cut)
	defer hurry.Stop()
	select {
	case <-idle:
	case <-c.done:
	case <-ctx.Done():
	}
}

// retirePatience is how long an answer to the last commits of a session is awaited
// that is over.
const retirePatience = 300 * time.Millisecond

// close ends the goroutine. Everything that waits gets its answer.
func (c *committer) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.end()
	<-c.done
	// A commit that came in between: the goroutine may have emptied the queue before.
	c.giveUp(everything, errLeft)
	c.coordinator.close()
}
