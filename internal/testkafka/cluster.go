package testkafka

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Cluster is a test's hold on a real Apache Kafka.
type Cluster struct {
	t       testing.TB
	server  *Server // nil: it was started by somebody else, and cannot be hurt from here
	addrs   []string
	version string

	mu  sync.Mutex // protects adm
	adm *admin     // nil until it is needed
}

// Start starts a real Apache Kafka for this test alone, ready to use, and stops it with
// the test; when the test failed, with what the nodes printed. Where there is no Java the
// test is skipped, and counted as not proven.
func Start(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	s, err := newSettings(opts)
	require.NoError(t, err)
	if ok, why := startable(s.version); !ok {
		skip(t, why)
	}
	server, err := Launch(opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(server.Output(100))
		}
		if err := server.Close(); err != nil {
			t.Errorf("stop the broker: %v", err)
		}
	})
	return &Cluster{t: t, server: server, addrs: server.Addrs(), version: server.Version()}
}

// Addrs are where clients connect: the proxies' addresses, with WithProxy.
func (c *Cluster) Addrs() []string { return c.addrs }

// Version is the version of Apache Kafka that runs.
func (c *Cluster) Version() string { return c.version }

// Real is true.
func (c *Cluster) Real() bool { return true }

// CreateTopic makes a topic, replicated on every node. On a shared broker the test
// deletes it when it ends.
func (c *Cluster) CreateTopic(name string, partitions int, configs map[string]string) {
	c.t.Helper()
	c.ask(func(ctx context.Context, a *admin) error { return a.createTopic(ctx, name, partitions, configs) })
	c.deleteAfterwards(name)
}

// CreateTopicOn places partition i on the nodes replicas[i], the leader first.
func (c *Cluster) CreateTopicOn(name string, replicas [][]int32, configs map[string]string) {
	c.t.Helper()
	c.ask(func(ctx context.Context, a *admin) error { return a.createTopicOn(ctx, name, replicas, configs) })
	c.deleteAfterwards(name)
}

// deleteAfterwards keeps a broker that many tests share from collecting open files.
func (c *Cluster) deleteAfterwards(name string) {
	if c.isOwn() {
		return
	}
	c.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), adminPatience)
		defer cancel()
		a, err := newAdmin(c.adminAddrs(), c.alive, c.adminOpts()...)
		if err != nil {
			return
		}
		defer a.close()
		_, _ = a.DeleteTopic(ctx, name) // The test may have deleted it, and nothing depends on it.
	})
}

// DeleteTopic deletes a topic.
func (c *Cluster) DeleteTopic(name string) {
	c.t.Helper()
	c.ask(func(ctx context.Context, a *admin) error { return a.deleteTopic(ctx, name) })
}

// AddPartitions makes the topic have that many.
func (c *Cluster) AddPartitions(name string, total int) {
	c.t.Helper()
	c.ask(func(ctx context.Context, a *admin) error { return a.addPartitions(ctx, name, total) })
}

// Leader is the node that leads the partition, -1 when none does.
func (c *Cluster) Leader(topic string, partition int32) (node int32) {
	c.t.Helper()
	c.ask(func(ctx context.Context, a *admin) (err error) {
		node, err = a.leader(ctx, topic, partition)
		return err
	})
	return node
}

// Coordinator is the node that coordinates the group, -1 when none does.
func (c *Cluster) Coordinator(group string) (node int32) {
	c.t.Helper()
	c.ask(func(ctx context.Context, a *admin) (err error) {
		node, err = a.coordinator(ctx, group)
		return err
	})
	return node
}

// ask does something as an administrator, past every proxy, and fails the test with it.
func (c *Cluster) ask(do func(context.Context, *admin) error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), adminPatience)
	defer cancel()
	require.NoError(c.t, do(ctx, c.admin()))
}

func (c *Cluster) admin() *admin {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.adm == nil {
		a, err := newAdmin(c.adminAddrs(), c.alive, c.adminOpts()...)
		require.NoError(c.t, err)
		c.t.Cleanup(a.close)
		c.adm = a
	}
	return c.adm
}

func (c *Cluster) adminAddrs() []string {
	if c.server == nil {
		return c.addrs
	}
	return c.server.internalAddrs()
}

// adminOpts let an administrator in.
func (c *Cluster) adminOpts() []kgo.Opt {
	if c.server == nil {
		return nil
	}
	return c.server.harnessOpts()
}

// clientOpts let the package's own clients in where there is security: past it.
func (c *Cluster) clientOpts() []kgo.Opt {
	if c.server == nil || c.server.secrets == nil {
		return nil
	}
	return append(c.adminOpts(), kgo.SeedBrokers(c.adminAddrs()...))
}

// alive says whether the node at the i-th address can answer.
func (c *Cluster) alive(i int) bool { return c.server == nil || c.server.nodes[i].alive() }

// isOwn says that the cluster is this test's alone.
func (c *Cluster) isOwn() bool { return c.server != nil && !isShared(c.server) }

// NodeIDs are the nodes that were started, whether they run or not.
func (c *Cluster) NodeIDs() []int32 {
	c.t.Helper()
	var ids []int32
	for _, n := range c.own().nodes {
		ids = append(ids, n.id)
	}
	return ids
}

// Proxy is what stands in front of the node, with WithProxy.
func (c *Cluster) Proxy(node int32) *Proxy {
	c.t.Helper()
	p := c.node(node).proxy
	require.NotNil(c.t, p, "the cluster was started without WithProxy")
	return p
}

// Kill ends the node with SIGKILL.
func (c *Cluster) Kill(node int32) {
	c.t.Helper()
	c.node(node).kill()
}

// Terminate lets the node stop gracefully, and waits.
func (c *Cluster) Terminate(node int32) {
	c.t.Helper()
	require.NoError(c.t, c.node(node).terminate(terminatePatience))
}

// Restart starts nodes that were killed or terminated (or kills those that run) on their
// old data and ports, and waits until they serve. Where a quorum was lost, name enough
// nodes at once to have one again.
func (c *Cluster) Restart(nodes ...int32) {
	c.t.Helper()
	var again []*node
	for _, id := range nodes {
		again = append(again, c.node(id))
	}
	require.NoError(c.t, c.server.restart(again...))
}

// Stop freezes the node with SIGSTOP: the kernel still accepts connections and requests
// for it, and nothing is answered.
func (c *Cluster) Stop(node int32) {
	c.t.Helper()
	c.node(node).freeze()
}

// Cont lets a stopped node go on.
func (c *Cluster) Cont(node int32) {
	c.t.Helper()
	c.node(node).thaw()
}

// Freeze is Stop.
func (c *Cluster) Freeze(node int32) {
	c.t.Helper()
	c.Stop(node)
}

// Thaw is Cont.
func (c *Cluster) Thaw(node int32) {
	c.t.Helper()
	c.Cont(node)
}

// own is the server, if this test may hurt it.
func (c *Cluster) own() *Server {
	c.t.Helper()
	require.True(c.t, c.isOwn(), "a shared broker is not this test's to hurt: use Start")
	return c.server
}

func (c *Cluster) node(id int32) *node {
	c.t.Helper()
	nodes := c.own().nodes
	require.True(c.t, id >= 0 && int(id) < len(nodes), "node %d of %d", id, len(nodes))
	return nodes[id]
}
