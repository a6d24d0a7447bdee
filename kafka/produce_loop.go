package kafka

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"go.uber.org/zap"

	"delay-scheduler/delay"
	"delay-scheduler/forward"
)

// What hinders a record on our side.
var (
	errProducerClosed = errors.New("the producer is closed")
	errNoIdentity     = errors.New("no producer id yet")
	errNoLeader       = errors.New("the partition has no leader")
	errNotConnected   = errors.New("no connection to the leader yet")
	errUnanswered     = errors.New("not acknowledged when the producer was closed")
)

const (
	// firstBackoff and lastBackoff bound the wait before a resend.
	firstBackoff = 20 * time.Millisecond
	lastBackoff  = time.Second
	// readMargin is how much longer than the broker we wait: its answer that time is up
	// has to reach us.
	readMargin = 2 * time.Second
	// scanEvery is how often hindered partitions are looked at.
	scanEvery = 20 * time.Millisecond
	// tidyEvery is how often idle connections and topics are looked at.
	tidyEvery = time.Second
	// turnRecords is after how many records the loop looks after everything else.
	turnRecords = 4096
)

// produceLoop is the producer's one owner of state: topics, partitions, batches, what
// is in flight, what each broker owes us. Its goroutine never waits for a broker.
// Others hand it records and events through the inbox, in one order: callers of the
// Producer, the goroutines of connections (produce_conn.go), the locator.
//
// One record's way: inbox -> topic (metadata known?) -> partition -> open batch ->
// pump (may it leave?) -> ready list of the leader -> window and request -> connection ->
// answered -> acknowledged through the sink.
type produceLoop struct {
	opts      ProducerOptions
	config    *sarama.Config
	codec     sarama.CompressionCodec
	handshake time.Duration // for connecting
	sink      forward.Sink
	placed    func(*produceBatch) // before the acknowledgement of what is written; may be nil
	log       *zap.Logger
	metrics   *produceMetrics
	inbox     *produceInbox
	locator   *produceLocator

	life  context.Context //nolint:containedctx // of the goroutines that ask questions; stop ends it
	stop  context.CancelFunc
	wg    sync.WaitGroup
	ended chan struct{} // closed after the last acknowledgement

	topics map[string]*produceTopic
	nodes  map[int32]*produceNode

	identity      produceIdentity
	generation    uint64 // of the latest identity
	identityAsked bool
	identityErr   error

	touched   []*producePartition // got records since the last dispatch
	lingering []lingerer          // oldest first
	behind    []*producePartition // whose open batch waits for an answer
	blocked   map[*producePartition]struct{}
	waiting   map[*produceTopic]struct{} // for metadata
	// nextBehind is when the first of behind has waited enough.
	nextBehind time.Time
	nextScan   time.Time
	nextTidy   time.Time

	acks      []forward.Ack
	pending   int // records taken and not acknowledged
	bytes     int // of the pending records that are in batches
	closing   bool
	abandoned int
	finished  bool
}

func newProduceLoop(o ProducerOptions, sink forward.Sink, log *zap.Logger, m *produceMetrics) *produceLoop {
	config := o.config("produce")
	config.Net.MaxOpenRequests = pipeline
	config.Net.ReadTimeout = o.RequestTimeout + min(readMargin, o.RequestTimeout)
	config.Net.WriteTimeout = config.Net.ReadTimeout
	l := &produceLoop{
		opts: o, config: config, codec: produceCodecs[o.Compression], sink: sink, log: log, metrics: m,
		handshake: min(dialTimeout, config.Net.ReadTimeout*4/5),
		inbox:     newProduceInbox(sink),
		ended:     make(chan struct{}),
		topics:    make(map[string]*produceTopic),
		nodes:     make(map[int32]*produceNode),
		blocked:   make(map[*producePartition]struct{}),
		waiting:   make(map[*produceTopic]struct{}),
	}
	l.life, l.stop = context.WithCancel(context.Background())
	asked := *config
	asked.Net.ReadTimeout = askerTimeout + readMargin
	l.locator = newProduceLocator(newProduceAsker(&asked, o.Brokers), config.Version, func(v targetsView) {
		l.inbox.post(func(now time.Time) { l.learn(v, now) })
	})
	return l
}

func (l *produceLoop) start() {
	l.askIdentity()
	l.wg.Go(func() { l.locator.run(l.life) })
	l.wg.Go(l.loop)
}

// loop runs turns until everything is acknowledged after Close has begun.
func (l *produceLoop) loop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for !l.finished {
		select {
		case <-l.inbox.wake:
		case <-timer.C:
		}
		l.turn()
		timer.Reset(l.untilNext(time.Now()))
	}
	l.end()
}

// turn does everything that is due.
func (l *produceLoop) turn() {
	now := time.Now()
	items, records := l.inbox.take()
	since := 0
	for _, item := range items {
		if item.do != nil {
			item.do(now)
			continue
		}
		for left := records[:item.n]; len(left) > 0; {
			part := left[:min(len(left), turnRecords-since)]
			left = left[len(part):]
			l.accept(item.topic, part, item.ms, now)
			if since += len(part); since == turnRecords {
				l.act(now)
				since, now = 0, time.Now()
			}
		}
		records = records[item.n:]
	}
	l.inbox.giveBack(items)
	for _, n := range l.nodes {
		// Only now have all answers been seen that came before this turn.
		l.watch(n, now)
	}
	l.act(now)
	l.finished = l.closing && l.pending == 0
}

// act sends what may leave and tells what has ended.
func (l *produceLoop) act(now time.Time) {
	for _, p := range l.touched {
		p.touched = false
		l.pump(p, now)
	}
	l.touched = l.touched[:0]
	l.endLingering(now)
	l.hurryBehind(now)
	if !now.Before(l.nextScan) {
		l.scan(now)
	}
	for _, n := range l.nodes {
		l.dispatch(n, now)
	}
	if !now.Before(l.nextTidy) {
		l.tidy(now)
	}
	l.metrics.inFlight.Set(float64(l.bytes))
	l.tell()
}

// tell gives the acknowledgements to the sink.
func (l *produceLoop) tell() {
	if len(l.acks) > 0 {
		l.sink(l.acks)
		clear(l.acks)
		l.acks = l.acks[:0]
	}
}

// untilNext is how long nothing is due unless something comes in.
func (l *produceLoop) untilNext(now time.Time) time.Duration {
	next := l.nextTidy
	sooner := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	if len(l.lingering) > 0 {
		sooner(l.lingering[0].first.Add(l.opts.Linger))
	}
	if len(l.behind) > 0 {
		sooner(l.nextBehind)
	}
	if len(l.blocked) > 0 || len(l.waiting) > 0 {
		sooner(l.nextScan)
	}
	for _, n := range l.nodes {
		if t, ok := n.nextWatch(&l.opts); ok {
			sooner(t)
		}
		if n.waiting() {
			sooner(l.nextScan)
		}
	}
	return max(next.Sub(now), 0)
}

// beginClose takes nothing more and lets everything that waits for company leave.
func (l *produceLoop) beginClose(now time.Time) {
	l.closing = true
	l.endLingering(now)
}

// abandon reports everything that has not ended.
func (l *produceLoop) abandon(time.Time) {
	l.closing = true
	l.abandoned = l.pending
	refused := &forward.Error{Class: forward.Transient, Err: errProducerClosed}
	unanswered := &forward.Error{Class: forward.Transient, Err: errUnanswered}
	for _, t := range l.topics {
		l.refuseUnplaced(t, refused)
		for _, p := range t.parts {
			for b := p.take(); b != nil; b = p.take() {
				switch {
				case b.written:
					l.settle(b, nil, false)
				case b.refused != nil:
					l.settle(b, b.refused, false)
				case b.definite():
					l.settle(b, refused, false)
				default:
					l.settle(b, unanswered, true)
				}
			}
		}
	}
}

// end stops every goroutine. Closing is final: what comes later is refused.
func (l *produceLoop) end() {
	l.inbox.close()
	l.tell()
	for _, n := range l.nodes {
		for _, c := range n.conns() {
			l.drop(c)
		}
	}
	l.metrics.inFlight.Set(0)
	l.stop()
	close(l.ended)
}

// ack notes the end of records.
func (l *produceLoop) ack(records []delay.Outgoing, err *forward.Error, uncertain bool) {
	for i := range records {
		l.acks = append(l.acks, forward.Ack{Tag: records[i].Tag, Err: err, Uncertain: uncertain})
	}
	l.pending -= len(records)
}

// settle ends a batch.
func (l *produceLoop) settle(b *produceBatch, err *forward.Error, uncertain bool) {
	if err == nil && l.placed != nil {
		l.placed(b)
	}
	l.ack(b.records, err, uncertain)
	l.bytes -= b.bytes
	if err == nil {
		l.metrics.records.Add(float64(len(b.records)))
	}
	b.settled = true
	b.recycle()
}
