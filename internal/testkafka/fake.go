package testkafka

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fakeSessionTimeout is the shortest that the embedded broker allows, as on the real one.
const fakeSessionTimeout = 100 * time.Millisecond

// FakeCluster is the embedded broker in this process. The library's own methods (Fault,
// ControlKey and the like) put in the faults that a real broker cannot be talked into.
//
// It does not enforce the size of commit metadata, does not stamp records with its own
// time (LogAppendTime), and does not replicate.
type FakeCluster struct {
	*kfake.Cluster
	t       testing.TB
	adm     *admin
	proxies *proxies
}

// Fake starts an embedded broker with one node, each node behind a Proxy, and stops it
// with the test. The options are the library's: kfake.SeedTopics(4, "orders"),
// kfake.NumBrokers(3).
func Fake(t testing.TB, opts ...kfake.Opt) *FakeCluster {
	t.Helper()
	fronts := &proxies{}
	cluster, err := kfake.NewCluster(append([]kfake.Opt{
		kfake.NumBrokers(1),
		kfake.GroupMinSessionTimeout(fakeSessionTimeout),
		kfake.ListenFn(fronts.listen),
	}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() {
		cluster.Close()
		fronts.close()
	})
	adm, err := newAdmin(cluster.ListenAddrs(), everyNode, kgo.Dialer(fronts.dialPast))
	require.NoError(t, err)
	t.Cleanup(adm.close)
	return &FakeCluster{Cluster: cluster, t: t, adm: adm, proxies: fronts}
}

// Addrs are where clients connect.
func (f *FakeCluster) Addrs() []string { return f.ListenAddrs() }

// Real is false.
func (f *FakeCluster) Real() bool { return false }

// CreateTopic makes a topic.
func (f *FakeCluster) CreateTopic(name string, partitions int, configs map[string]string) {
	f.t.Helper()
	f.ask(func(ctx context.Context) error { return f.adm.createTopic(ctx, name, partitions, configs) })
}

// CreateTopicOn makes a topic whose partition i is led by replicas[i][0].
func (f *FakeCluster) CreateTopicOn(name string, replicas [][]int32, configs map[string]string) {
	f.t.Helper()
	f.CreateTopic(name, len(replicas), configs)
	for partition, nodes := range replicas {
		require.NoError(f.t, f.MoveTopicPartition(name, int32(partition), nodes[0]))
	}
}

// DeleteTopic deletes a topic.
func (f *FakeCluster) DeleteTopic(name string) {
	f.t.Helper()
	f.ask(func(ctx context.Context) error { return f.adm.deleteTopic(ctx, name) })
}

// AddPartitions makes the topic have that many.
func (f *FakeCluster) AddPartitions(name string, total int) {
	f.t.Helper()
	f.ask(func(ctx context.Context) error { return f.adm.addPartitions(ctx, name, total) })
}

// NodeIDs are the nodes there are now.
func (f *FakeCluster) NodeIDs() []int32 {
	f.t.Helper()
	var ids []int32
	for id := range f.nodeAddrs() {
		ids = append(ids, id)
	}
	return ids
}

// Leader is the node that leads the partition, -1 when there is no such partition.
func (f *FakeCluster) Leader(topic string, partition int32) int32 {
	return f.LeaderFor(topic, partition)
}

// Coordinator is the node that coordinates the group.
func (f *FakeCluster) Coordinator(group string) int32 { return f.CoordinatorFor(group) }

// MoveCoordinator gives this group's coordination to another node, and other groups' by chance too.
func (f *FakeCluster) MoveCoordinator(group string) {
	f.t.Helper()
	require.Greater(f.t, len(f.ListenAddrs()), 1, "one node has nobody to move a coordinator to")
	for before := f.CoordinatorFor(group); f.CoordinatorFor(group) == before; {
		f.RehashCoordinators()
	}
}

// Leaderless answers for the partition what brokers answer that know no leader.
func (f *FakeCluster) Leaderless(topic string, partition int32) (undo func()) {
	fault := func(err *kerr.Error, keys ...kmsg.Key) kfake.Fault {
		return kfake.Fault{Keys: keys, Topic: topic, Partitions: []int32{partition}, Err: err, Count: -1}
	}
	faults := f.Fault(
		fault(kerr.LeaderNotAvailable, kmsg.Metadata),
		fault(kerr.NotLeaderForPartition, kmsg.Produce, kmsg.Fetch, kmsg.ListOffsets),
	)
	return faults.Remove
}

// Proxy is what stands in front of the node.
func (f *FakeCluster) Proxy(node int32) *Proxy {
	f.t.Helper()
	addr, ok := f.nodeAddrs()[node]
	require.True(f.t, ok, "there is no node %d", node)
	return f.proxies.at(addr)
}

// Freeze makes the node accept connections and requests and answer nothing.
func (f *FakeCluster) Freeze(node int32) {
	f.t.Helper()
	f.Proxy(node).Pause()
}

// Thaw undoes Freeze.
func (f *FakeCluster) Thaw(node int32) {
	f.t.Helper()
	f.Proxy(node).Resume()
}

// nodeAddrs are the advertised addresses.
func (f *FakeCluster) nodeAddrs() map[int32]string {
	f.t.Helper()
	addrs := make(map[int32]string)
	f.ask(func(ctx context.Context) error {
		// Not the client's own list of brokers: that is of some time ago.
		metadata, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, f.adm.client)
		if err != nil {
			return err
		}
		for _, broker := range metadata.Brokers {
			addrs[broker.NodeID] = net.JoinHostPort(broker.Host, fmt.Sprint(broker.Port))
		}
		return nil
	})
	return addrs
}

func (f *FakeCluster) ask(do func(context.Context) error) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), adminPatience)
	defer cancel()
	require.NoError(f.t, do(ctx))
}

// proxies are those in front of an embedded broker's nodes: the broker believes that it
// listens on the proxy's address, and advertises that.
type proxies struct {
	mu   sync.Mutex // protects open
	open []*Proxy
}

func (p *proxies) listen(network, address string) (net.Listener, error) {
	if _, port, _ := net.SplitHostPort(address); port == "0" {
		var err error
		if address, err = freeAddr(); err != nil {
			return nil, err
		}
	}
	listener, err := net.Listen(network, "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	proxy, err := openProxy(address, listener.Addr().String())
	if err != nil {
		_ = listener.Close() // The proxy's error says more.
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = append(p.open, proxy)
	return fronted{listener, proxy}, nil
}

func (p *proxies) at(addr string) *Proxy {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, proxy := range p.open {
		if proxy.addr == addr {
			return proxy
		}
	}
	return nil
}

// dialPast connects to what is behind a proxy: an administrator is not to be hurt.
func (p *proxies) dialPast(ctx context.Context, network, addr string) (net.Conn, error) {
	if proxy := p.at(addr); proxy != nil {
		addr = proxy.target
	}
	return new(net.Dialer).DialContext(ctx, network, addr)
}

func (p *proxies) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, proxy := range p.open {
		proxy.Close()
	}
}

// fronted is a node's listener that goes by its proxy's address.
type fronted struct {
	net.Listener
	proxy *Proxy
}

// Addr is the proxy's.
func (f fronted) Addr() net.Addr {
	f.proxy.mu.Lock()
	defer f.proxy.mu.Unlock()
	return f.proxy.listener.Addr()
}

// Close closes the proxy's port too: a node that was removed refuses connections.
func (f fronted) Close() error {
	f.proxy.Refuse()
	return f.Listener.Close()
}
