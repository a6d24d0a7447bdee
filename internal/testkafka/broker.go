// Package testkafka gives tests a Kafka broker: Apache Kafka itself on a JVM (Start,
// Shared, Need), an embedded one in the test's own process (Fake), or first the one and
// then the other (Each), with ways to hurt them and a foreign client to look at them.
//
// It never leaves a broker behind: each belongs to a test or to the test process, and
// dies with it, even by SIGKILL. Where there is no Java, tests that need the real broker
// are skipped, and the line they leave in the file named by TEST_UNPROVEN says so.
//
// Concurrency: brokers and proxies may be used from any goroutine of a test; helpers that
// can fail the test are for the test's own goroutine, as with testing.TB itself.
package testkafka

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Endpoint is anything that a client can connect to.
type Endpoint interface{ Addrs() []string }

// Broker is what tests need of a broker. Its methods fail the test when they cannot do
// what they say, and return when it can be seen in the metadata of every node.
type Broker interface {
	Endpoint
	// CreateTopic makes a topic, replicated on every node.
	CreateTopic(name string, partitions int, configs map[string]string)
	DeleteTopic(name string)
	// AddPartitions makes the topic have that many.
	AddPartitions(name string, total int)
	// Real says that it is Apache Kafka.
	Real() bool
}

// Nodes is the capability of brokers that are in this test's hands, node by node. With
// several nodes (WithBrokers) they can be hurt one at a time; ids are 0 to n-1.
type Nodes interface {
	Broker
	NodeIDs() []int32
	// CreateTopicOn places partition i on the nodes replicas[i], the leader first. The
	// embedded broker replicates nothing and takes only the leader.
	CreateTopicOn(name string, replicas [][]int32, configs map[string]string)
	// Leader is -1 when there is none.
	Leader(topic string, partition int32) int32
	// Coordinator is -1 when there is none.
	Coordinator(group string) int32
	// MoveCoordinator gives the group's coordination to another node.
	MoveCoordinator(group string)
	// Leaderless takes away the leader of a partition that has one replica, until undo.
	// The real broker kills the node that holds it.
	Leaderless(topic string, partition int32) (undo func())
	// Freeze makes a node accept connections and requests and answer nothing, until Thaw.
	Freeze(node int32)
	Thaw(node int32)
}

var (
	_ Nodes = (*Cluster)(nil)
	_ Nodes = (*FakeCluster)(nil)
)

// Each runs the test on the embedded broker and on the real one. Without options the real
// one is Shared; with options both are the test's own, and have the capability Nodes.
func Each(t *testing.T, fn func(t *testing.T, b Broker), opts ...Option) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		s, err := newSettings(opts)
		if err != nil {
			t.Fatal(err)
		}
		fn(t, Fake(t, kfake.NumBrokers(s.brokers), kfake.BrokerConfigs(s.properties)))
	})
	t.Run("real", func(t *testing.T) {
		if len(opts) == 0 {
			fn(t, Need(t))
			return
		}
		fn(t, Start(t, opts...))
	})
}
