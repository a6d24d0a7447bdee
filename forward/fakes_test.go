package forward

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"delay-scheduler/delay"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The answers of the fake cluster.
var (
	errUnknown   = &Error{Class: UnknownTopic, Err: errors.New("unknown topic or partition")}
	errForbidden = &Error{Class: NotAuthorized, Err: errors.New("not authorized")}
	errDown      = &Error{Class: Transient, Err: errors.New("no leader")}
	errLarge     = &Error{Class: TooLarge, Err: errors.New("message too large")}
	errInvalid   = &Error{Class: Rejected, Err: errors.New("invalid record")}
	errFatal     = &Error{Class: Fatal, Err: errors.New("fenced")}
)

// arrival is a record in a topic's log.
type arrival struct {
	delay.Outgoing
	offset int64 // in the source
	at     time.Time
}

func (a arrival) header(name string) string {
	for _, h := range a.Headers {
		if string(h.Key) == name {
			return string(h.Value)
		}
	}
	return ""
}

// topic is one topic of the fake cluster. The fields are set by the test under
// cluster.mu, or before anything is sent.
type topic struct {
	missing   bool
	forbidden bool // to write; metadata shows it
	down      bool
	silent    bool                        // never answers
	delay     time.Duration               // of every answer
	limit     int                         // most bytes of a value; 0: no limit
	refuse    func(delay.Outgoing) *Error // anything else

	log      []arrival
	queue    []delay.Outgoing
	working  bool
	tripped  bool // refuses everything after a transient refusal, until it is asked for
	produced int
}

// cluster is a Producer. Each topic answers in order, from a goroutine of its own.
type cluster struct {
	mu     sync.Mutex
	topics map[string]*topic
	asked  map[string]int
	hangs  chan struct{} // not nil: Resolve waits for it
	sink   Sink
	works  sync.WaitGroup
}

func newCluster(topics ...string) *cluster {
	c := &cluster{topics: map[string]*topic{}, asked: map[string]int{}}
	for _, t := range topics {
		c.topics[t] = &topic{}
	}
	return c
}

// set changes a topic, which may be new.
func (c *cluster) set(name string, change func(*topic)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.topics[name] == nil {
		c.topics[name] = &topic{missing: true}
	}
	change(c.topics[name])
}

func (c *cluster) get(name string) *topic {
	if t := c.topics[name]; t != nil {
		return t
	}
	c.topics[name] = &topic{missing: true}
	return c.topics[name]
}

func (c *cluster) log(name string) []arrival {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.get(name).log)
}

func (c *cluster) askedFor(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked[name]
}

func (c *cluster) produced(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.get(name).produced
}

// Resolve implements Producer.
func (c *cluster) Resolve(ctx context.Context, name string) *Error {
	c.mu.Lock()
	hangs := c.hangs
	c.asked[name]++
	c.mu.Unlock()
	if hangs != nil {
		select {
		case <-hangs:
		case <-ctx.Done():
			return &Error{Class: Transient, Err: ctx.Err()}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.topics[name]
	switch {
	case t == nil || t.missing:
		return errUnknown
	case t.down:
		return errDown
	}
	t.tripped = false
	return nil
}

// Produce implements Producer.
func (c *cluster) Produce(name string, records []delay.Outgoing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.get(name)
	t.queue = append(t.queue, records...)
	t.produced += len(records)
	if !t.working && !t.silent {
		t.working = true
		c.works.Go(func() { c.work(t) })
	}
}

func (c *cluster) work(t *topic) {
	for {
		c.mu.Lock()
		batch := t.queue
		t.queue = nil
		wait := t.delay
		if len(batch) == 0 {
			t.working = false
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		if wait > 0 {
			pass(wait) // this is the topic's latency
		}
		c.sink(c.answer(t, batch))
	}
}

func (c *cluster) answer(t *topic, batch []delay.Outgoing) []Ack {
	c.mu.Lock()
	defer c.mu.Unlock()
	acks := make([]Ack, len(batch))
	for i, r := range batch {
		err := t.judge(r)
		acks[i] = Ack{Tag: r.Tag, Err: err}
		if err == nil {
			t.log = append(t.log, arrival{Outgoing: r, offset: r.Tag.(*sending).entry.Offset, at: time.Now()})
		}
	}
	return acks
}

func (t *topic) judge(r delay.Outgoing) *Error {
	switch {
	case t.missing:
		return errUnknown
	case t.forbidden:
		return errForbidden
	case t.down || t.tripped:
		t.tripped = true
		return errDown
	case t.limit > 0 && len(r.Value) > t.limit:
		return errLarge
	case t.refuse != nil:
		return t.refuse(r)
	}
	return nil
}
