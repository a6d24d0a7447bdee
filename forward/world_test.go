package forward

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"delay-scheduler/bucket"
	"delay-scheduler/delay"
)

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

// pass lets time pass on the fake clock: everything that can happen until then does.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // in a bubble it waits for all the others, not for the wall
}
