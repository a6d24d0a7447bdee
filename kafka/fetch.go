package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"delay-scheduler/scheduler"
)

// FetchOptions are how partitions are read.
type FetchOptions struct {
	Options
	// MaxWait is how long a broker holds a request for records to arrive. Zero: 500 ms.
	MaxWait time.Duration
	// MaxBytes bounds one response. A broker may have two under way. Zero: 16 MiB.
	MaxBytes int32
	// PartitionBytes bounds one partition's share of a response; a batch that is larger
	// comes alone and whole. Zero: 1 MiB.
	PartitionBytes int32
	// HangingAfter is after how long a transaction that stays open is reported. Zero:
	// DefaultHangingAfter.
	HangingAfter time.Duration
}

func (o FetchOptions) withDefaults() FetchOptions {
	if o.MaxWait == 0 {
		o.MaxWait = 500 * time.Millisecond
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 16 << 20
	}
	if o.PartitionBytes == 0 {
		o.PartitionBytes = 1 << 20
	}
	if o.HangingAfter == 0 {
		o.HangingAfter = DefaultHangingAfter
	}
	return o
}

func (o FetchOptions) validate() error {
	errs := []error{o.Options.validate()}
	if o.MaxWait < 0 || o.MaxWait > requestTimeout {
		errs = append(errs, fmt.Errorf("fetch wait %v is outside 0 to %v", o.MaxWait, requestTimeout))
	}
	if o.PartitionBytes < 0 || o.MaxBytes < o.PartitionBytes {
		errs = append(errs, fmt.Errorf("fetch size of a partition (%d) is negative or more than that of a request (%d)", o.PartitionBytes, o.MaxBytes))
	}
	return errors.Join(errs...)
}

// Fetcher reads partitions. Each has a goroutine that owns its position and its
// troubles (stream); each broker has three that make the requests (node, poller); one
// more asks who leads what (leaders). What is in memory at most: three responses for a
// broker (fresh records, what lags, payloads read back), and for each partition one batch that its receiver has not taken yet.
type Fetcher struct {
	opts    FetchOptions
	conf    *sarama.Config
	log     *zap.Logger
	metrics *fetchMetrics
	leaders *leaders

	// scope gives a context that ends with the fetcher.
	scope func() (context.Context, context.CancelFunc)
	stop  context.CancelFunc
	work  sync.WaitGroup

	sheets sheets // for pages

	mu     sync.Mutex // guards what follows
	closed bool
	nodes  map[string]*nodeUse // by address
	sizes  map[place]int64     // bytes of a record, as last seen by a recall
}

// nodeUse is a node with the number of streams that read from it.
type nodeUse struct {
	*node
	users int
	stop  context.CancelFunc
}

var (
	_ scheduler.Log      = (*Fetcher)(nil)
	_ scheduler.Recaller = (*Fetcher)(nil)
)

// NewFetcher makes a fetcher; it connects when a partition is opened.
func NewFetcher(o FetchOptions, log *zap.Logger, reg prometheus.Registerer) (*Fetcher, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("set up fetching: %w", err)
	}
	conf := o.config("fetch")
	ctx, cancel := context.WithCancel(context.Background())
	f := &Fetcher{
		opts: o, conf: conf, log: log.Named("fetch"), metrics: newFetchMetrics(reg),
		leaders: newLeaders(newLookup(conf, o.Brokers)),
		scope:   func() (context.Context, context.CancelFunc) { return context.WithCancel(ctx) },
		stop:    cancel,
		nodes:   make(map[string]*nodeUse),
		sizes:   make(map[place]int64),
	}
	f.work.Go(func() { f.leaders.run(ctx) })
	return f, nil
}

// Open starts reading a partition at an offset. It never fails: trouble comes as
// batches with an Err. The channel of batches is not buffered; the stream stands behind
// it with one batch, and fetches the next when that is taken.
func (f *Fetcher) Open(topic string, partition int32, from int64) scheduler.Stream {
	ctx, cancel := f.scope()
	s := newStream(f, topic, partition, from, cancel)
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.work.Go(func() { s.run(ctx) })
	}
	return s
}

// Close ends all streams, cuts all connections and waits for the goroutines.
func (f *Fetcher) Close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.stop()
	f.work.Wait()
}

// attach gives the node at an address, for a stream to use until it detaches.
func (f *Fetcher) attach(addr string) *node {
	f.mu.Lock()
	defer f.mu.Unlock()
	u := f.nodes[addr]
	if u == nil {
		ctx, cancel := f.scope()
		u = &nodeUse{node: newNode(f.opts, f.conf, addr, f.metrics), stop: cancel}
		f.nodes[addr] = u
		f.log.Debug("reading from a broker", zap.String("broker", addr))
		// A stream attaches from its own goroutine, so Close is still waiting.
		f.work.Go(func() { u.quick.run(ctx) })
		f.work.Go(func() { u.tail.run(ctx) })
		f.work.Go(func() { u.past.run(ctx) })
	}
	u.users++
	return u.node
}

// detach ends the use; a node without users is closed.
func (f *Fetcher) detach(n *node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	u := f.nodes[n.addr]
	u.users--
	if u.users == 0 {
		u.stop()
		f.log.Debug("nothing is read from a broker any more", zap.String("broker", n.addr))
		delete(f.nodes, n.addr)
	}
}
