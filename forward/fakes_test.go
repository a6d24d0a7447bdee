package forward

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"delay-scheduler/bucket"
	"delay-scheduler/delay"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
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
			time.Sleep(wait) // of the fake clock: this is the topic's latency
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

// world is a forwarder with a fake cluster, in a bubble.
type world struct {
	t       *testing.T
	f       *Forwarder
	cluster *cluster
	start   time.Time
	owners  []*owner
}

// inBubble runs a test on a fake clock, and ends everything after it.
func inBubble(t *testing.T, o Options, topics []string, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, o, topics)
		defer w.end()
		test(w)
	})
}

func newWorld(t *testing.T, o Options, topics []string) *world {
	w := &world{t: t, cluster: newCluster(topics...), start: time.Now()}
	w.f = New(o, w.cluster, time.Now, w.boot, zap.NewNop(), nil)
	w.cluster.sink = w.f.Acks
	return w
}

func (w *world) boot() time.Duration { return time.Since(w.start) }

func (w *world) end() {
	for _, o := range w.owners {
		o.stop()
	}
	w.f.Close()
	w.cluster.works.Wait()
}

func (w *world) lane(target string) LaneStatus {
	for _, l := range w.f.Lanes() {
		if l.Target == target {
			return l
		}
	}
	return LaneStatus{}
}

// open gives a port without an owner; the test drives it.
func (w *world) open(topic string, partition int32) *Port {
	p := w.f.Open(topic, partition, &delay.Rules{})
	p.SetLease(math.MaxInt64)
	<-p.Ready() // SetLease signals
	return p
}

// entry makes a pending record. Its due time is its offset unless the test changes it.
func entry(offset int64, value int) bucket.Entry {
	rec := &delay.Record{
		Offset: offset, Timestamp: 1_790_000_000_000, Key: []byte(strconv.FormatInt(offset, 10)), Value: make([]byte, value),
		Headers: []delay.Header{{Key: []byte("trace"), Value: []byte("x")}},
	}
	return bucket.Entry{Due: 1_790_000_000_000 + offset, Offset: offset, Message: delay.Pack(rec, &delay.Request{}, nil)}
}

func entries(from, n int64, value int) []bucket.Entry {
	var es []bucket.Entry
	for i := range n {
		es = append(es, entry(from+i, value))
	}
	return es
}

func refusedEntry(offset int64) bucket.Entry {
	rec := &delay.Record{Offset: offset, Timestamp: 1_790_000_000_000, Value: []byte("body")}
	ref := &delay.Refusal{Reason: delay.ReasonMalformedHeader, Detail: `delay-ms "soon"`}
	return bucket.Entry{Due: 0, Offset: offset, Message: delay.Pack(rec, nil, ref)}
}

// drain collects a port's results.
func drain(p *Port) map[int64]delay.Outcome {
	got := map[int64]delay.Outcome{}
	p.Drain(func(e bucket.Entry, o delay.Outcome) { got[e.Offset] = o })
	return got
}

// owner does what a partition's loop does: it keeps what is due by target, offers it
// whenever the port is ready, and puts in front what comes back. It has no timer, so a
// lost signal stops it for good.
type owner struct {
	w       *world
	port    *Port
	add     chan func()
	done    chan struct{}
	pending map[string][]bucket.Entry
	target  map[int64]string

	mu  sync.Mutex
	got map[int64]delay.Outcome
	at  map[int64]time.Time
}

const malformed = "" // the target of entries that carry a refusal

func (w *world) owner(topic string, partition int32) *owner {
	o := &owner{
		w: w, port: w.open(topic, partition), add: make(chan func()), done: make(chan struct{}),
		pending: map[string][]bucket.Entry{}, target: map[int64]string{},
		got: map[int64]delay.Outcome{}, at: map[int64]time.Time{},
	}
	w.owners = append(w.owners, o)
	go o.run()
	return o
}

func (o *owner) run() {
	defer close(o.done)
	for {
		select {
		case do, ok := <-o.add:
			if !ok {
				o.port.Abandon()
				o.port.Drain(func(bucket.Entry, delay.Outcome) {})
				o.port.Close()
				return
			}
			do()
		case <-o.port.Ready():
		}
		o.turn()
	}
}

func (o *owner) turn() {
	o.port.Drain(func(e bucket.Entry, out delay.Outcome) {
		if out == delay.Returned {
			o.put(o.target[e.Offset], e)
			return
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		if was, ok := o.got[e.Offset]; ok {
			panic(fmt.Sprintf("offset %d ended twice: %d, %d", e.Offset, was, out))
		}
		o.got[e.Offset], o.at[e.Offset] = out, time.Now()
	})
	for target, es := range o.pending {
		var n int
		if target == malformed {
			n = o.port.SendDeadLetters(es)
		} else {
			n = o.port.Send(target, es)
		}
		o.pending[target] = es[n:]
	}
}

// put inserts an entry by due time and offset.
func (o *owner) put(target string, e bucket.Entry) {
	order := func(a, b bucket.Entry) int {
		return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.Offset, b.Offset))
	}
	o.target[e.Offset] = target
	es := o.pending[target]
	if n := len(es); n == 0 || order(es[n-1], e) < 0 {
		o.pending[target] = append(es, e)
		return
	}
	i, _ := slices.BinarySearchFunc(es, e, order)
	o.pending[target] = slices.Insert(es, i, e)
}

// send makes entries due now.
func (o *owner) send(target string, es ...bucket.Entry) {
	o.do(func() {
		for _, e := range es {
			o.put(target, e)
		}
	})
}

// do runs something on the owner's goroutine.
func (o *owner) do(what func()) {
	ran := make(chan struct{})
	o.add <- func() { what(); close(ran) }
	<-ran
}

func (o *owner) stop() {
	close(o.add)
	<-o.done
}

// outcome gives how many of the owner's entries ended so.
func (o *owner) outcome(out delay.Outcome) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, got := range o.got {
		if got == out {
			n++
		}
	}
	return n
}

// requireAscending checks that a log has each source's records once and in order.
func requireAscending(t *testing.T, log []arrival) {
	t.Helper()
	last := map[string]int64{}
	for _, a := range log {
		id := a.header("delay-id")
		source := id[:strings.LastIndex(id[:strings.LastIndex(id, "/")], "/")]
		before, ok := last[source]
		require.Truef(t, !ok || before < a.offset, "%s: %d after %d", source, a.offset, before)
		last[source] = a.offset
	}
}
