package kafka

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"delay-scheduler/internal/testkafka"
	"delay-scheduler/scheduler"
)

// recorder is a handler that remembers how it was driven.
type recorder struct {
	t       testing.TB
	busy    atomic.Bool
	quiesce func()                                                                   // nil: nothing to do
	release func(ctx context.Context, s scheduler.Session, claims []scheduler.Claim) // nil: nothing to do

	mu      sync.Mutex // guards what follows
	calls   []string
	session scheduler.Session
	claims  []scheduler.Claim
	holding bool // between Assign and Release
	assigns int
}

func (r *recorder) enter(call string) func() {
	if r.busy.Swap(true) {
		r.t.Errorf("%s is called while another call lasts", call)
	}
	r.mu.Lock()
	r.calls = append(r.calls, call)
	r.mu.Unlock()
	return func() { r.busy.Store(false) }
}

func (r *recorder) Quiesce(context.Context) {
	defer r.enter("quiesce")()
	if r.quiesce != nil {
		r.quiesce()
	}
}

func (r *recorder) Assign(s scheduler.Session, claims []scheduler.Claim) {
	defer r.enter("assign")()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.session, r.claims, r.holding = s, claims, true
	r.assigns++
}

func (r *recorder) Release(ctx context.Context) {
	defer r.enter("release")()
	r.mu.Lock()
	s, claims := r.session, r.claims
	r.holding = false
	r.mu.Unlock()
	if r.release != nil {
		r.release(ctx, s, claims)
	}
}

func (r *recorder) history() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

func (r *recorder) generation() (scheduler.Session, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.session, r.assigns
}

// held are the claims while the handler has them, nil otherwise.
func (r *recorder) held() map[place]scheduler.Claim {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.holding {
		return nil
	}
	m := make(map[place]scheduler.Claim, len(r.claims))
	for _, c := range r.claims {
		m[place{c.Topic, c.Partition}] = c
	}
	return m
}

// member is a group with its recorder, running.
type member struct {
	*recorder
	group  *Group
	cancel context.CancelFunc
	done   chan struct{}
	err    error // once done is closed
}

// stop ends it as a signal would and waits.
func (m *member) stop() {
	m.cancel()
	<-m.done
}

func (m *member) awaitClaims(want int) {
	m.t.Helper()
	require.Eventually(m.t, func() bool { return len(m.held()) == want }, patience, 5*time.Millisecond,
		"the member should come to hold %d partitions", want)
}

// awaitAssign waits for the n-th assignment.
func (m *member) awaitAssign(n int) {
	m.t.Helper()
	require.Eventually(m.t, func() bool { _, k := m.generation(); return k >= n && m.held() != nil }, patience, 5*time.Millisecond,
		"the member should be assigned partitions for the %d. time", n)
}

// commit commits one partition and waits for the answer.
func commitOne(t testing.TB, s scheduler.Session, topic string, partition int32, offset int64, metadata string) error {
	t.Helper()
	answer := make(chan error, 1)
	s.Commit([]scheduler.Commit{{Topic: topic, Partition: partition, Offset: offset, Metadata: metadata, Done: func(err error) { answer <- err }}})
	select {
	case err := <-answer:
		return err
	case <-time.After(patience):
		require.FailNow(t, "the commit was never answered")
		return nil
	}
}

// groupOptions are quick ones. Real brokers do not take shorter sessions than 6 s.
func groupOptions(b testkafka.Endpoint, id string, topics ...string) GroupOptions {
	return GroupOptions{
		Options: Options{Brokers: b.Addrs(), MetadataRefresh: 2 * time.Second},
		ID:      id, SessionTimeout: 6 * time.Second, RebalanceTimeout: 20 * time.Second, RebalanceDrain: time.Second,
		Match: func(topic string) bool { return slices.Contains(topics, topic) },
	}
}

// startMember runs a member that is stopped with the test.
func startMember(t testing.TB, o GroupOptions, change ...func(*recorder)) *member {
	t.Helper()
	r := &recorder{t: t}
	for _, c := range change {
		c(r)
	}
	g, err := NewGroup(o, r, zaptest.NewLogger(t, zaptest.Level(zap.InfoLevel)), nil)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{recorder: r, group: g, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(m.done)
		m.err = g.Run(ctx)
	}()
	t.Cleanup(m.stop)
	return m
}

// owners says how many of the members hold each partition.
func owners(members ...*member) map[place]int {
	count := map[place]int{}
	for _, m := range members {
		for p := range m.held() {
			count[p]++
		}
	}
	return count
}

// awaitOwners waits until n partitions have one owner each, and each member some.
func awaitOwners(t testing.TB, n int, members ...*member) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, m := range members {
			if len(m.held()) == 0 {
				return false
			}
		}
		count := owners(members...)
		return len(count) == n && !slices.ContainsFunc(slices.Collect(maps.Values(count)), func(k int) bool { return k != 1 })
	}, patience, 5*time.Millisecond, "%d partitions should have one owner each", n)
}

// Requests by their number in the protocol.
const (
	keyFetch           = kmsg.Key(1)
	keyListOffsets     = kmsg.Key(2)
	keyMetadata        = kmsg.Key(3)
	keyOffsetCommit    = kmsg.Key(8)
	keyOffsetFetch     = kmsg.Key(9)
	keyFindCoordinator = kmsg.Key(10)
	keyJoinGroup       = kmsg.Key(11)
	keyHeartbeat       = kmsg.Key(12)
	keyLeaveGroup      = kmsg.Key(13)
)

// watchKeys counts requests.
func watchKeys(b *testkafka.FakeCluster, keys ...kmsg.Key) *kfake.FaultHandle {
	return b.Fault(kfake.Fault{Keys: keys, Count: -1, Observe: true, TopLevel: true}, kfake.Fault{Keys: keys, Count: -1, Observe: true})
}

// gathered reads a counter.
func gathered(t testing.TB, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	require.NoError(t, c.Write(&m))
	return m.GetCounter().GetValue()
}

// unstable are the answers after which the group's offsets are asked for again.
var unstable = []*kerr.Error{kerr.UnstableOffsetCommit, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator}

// frozenDialer can take a process off the network without closing anything.
type frozenDialer struct {
	mu     sync.Mutex
	thawed chan struct{} // not nil: frozen; closed by thaw
}

func (d *frozenDialer) freeze() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.thawed = make(chan struct{})
}

func (d *frozenDialer) thaw() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.thawed)
	d.thawed = nil
}

func (d *frozenDialer) state() chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.thawed
}

// Dial implements Dialer.
func (d *frozenDialer) Dial(network, address string) (net.Conn, error) {
	if d.state() != nil {
		return nil, errors.New("the network is down")
	}
	conn, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	return &frozenConn{Conn: conn, dialer: d, closed: make(chan struct{})}, nil
}

type frozenConn struct {
	net.Conn
	dialer *frozenDialer
	once   sync.Once
	closed chan struct{}
}

func (c *frozenConn) wait() error {
	if thawed := c.dialer.state(); thawed != nil {
		select {
		case <-thawed:
		case <-c.closed:
			return net.ErrClosed
		}
	}
	return nil
}

// Write implements net.Conn.
func (c *frozenConn) Write(b []byte) (int, error) {
	if err := c.wait(); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// Close implements net.Conn.
func (c *frozenConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
