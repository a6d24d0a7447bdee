// Package testkafka gives tests a Kafka broker.
package testkafka

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

const DefaultVersion = "4.4.0"

func Version() string { panic("not yet") }

// Endpoint is anything a client can connect to: *Cluster, *FakeCluster, Broker, *devbroker.Broker wrapped.
type Endpoint interface{ Addrs() []string }

// Broker is what a conformance test needs of a broker.
type Broker interface {
	Addrs() []string
	CreateTopic(name string, partitions int, configs map[string]string)
	DeleteTopic(name string)
	AddPartitions(name string, total int)
	Real() bool
}

// Nodes is the optional capability of a Broker with several nodes (Each with WithBrokers): b.(Nodes). Node ids are 0..n-1 on both.
type Nodes interface {
	Broker
	NodeIDs() []int32
	Leader(topic string, partition int32) int32 // -1: none
	Coordinator(group string) int32
	// CreateTopicOn places partition i on the nodes replicas[i] (first is the leader). The embedded broker uses only the first.
	CreateTopicOn(name string, replicas [][]int32, configs map[string]string)
	// Freeze: the node takes connections and requests and answers nothing (SIGSTOP, or a held proxy). Thaw undoes it.
	Freeze(node int32)
	Thaw(node int32)
	// MoveCoordinator gives the group another coordinator (real: the leader of its offsets partition is moved).
	MoveCoordinator(group string)
	// Leaderless takes the leader of a partition away until the returned func is called.
	Leaderless(topic string, partition int32) (undo func())
}

type Option func(*options)
type options struct{}

func WithBrokers(n int) Option              { panic("not yet") }
func WithProperty(key, value string) Option { panic("not yet") } // server.properties override
func WithProxy() Option                     { panic("not yet") } // every broker is advertised behind a Proxy
func WithVersion(version string) Option     { panic("not yet") }
func WithHeap(megabytes int) Option         { panic("not yet") }

// Cluster is a real Apache Kafka. Implements Broker (and Nodes).
type Cluster struct{}

func Start(t testing.TB, opts ...Option) *Cluster { panic("not yet") } // skips (recorded) where there is no Java
func Shared(t testing.TB) *Cluster                { panic("not yet") }
func Need(t testing.TB) *Cluster                  { panic("not yet") } // Shared, or a recorded skip
func Available() (ok bool, why string)            { panic("not yet") }

func (c *Cluster) Addrs() []string { panic("not yet") }
func (c *Cluster) Version() string { panic("not yet") }
func (c *Cluster) Real() bool      { return true }
func (c *Cluster) CreateTopic(name string, partitions int, configs map[string]string) {
	panic("not yet")
}
func (c *Cluster) CreateTopicOn(name string, replicas [][]int32, configs map[string]string) {
	panic("not yet")
}
func (c *Cluster) DeleteTopic(name string)                                { panic("not yet") }
func (c *Cluster) AddPartitions(name string, total int)                   { panic("not yet") }
func (c *Cluster) NodeIDs() []int32                                       { panic("not yet") }
func (c *Cluster) Leader(topic string, partition int32) int32             { panic("not yet") }
func (c *Cluster) Coordinator(group string) int32                         { panic("not yet") }
func (c *Cluster) MoveCoordinator(group string)                           { panic("not yet") }
func (c *Cluster) Leaderless(topic string, partition int32) (undo func()) { panic("not yet") }
func (c *Cluster) Freeze(node int32)                                      { panic("not yet") } // = Stop
func (c *Cluster) Thaw(node int32)                                        { panic("not yet") } // = Cont
func (c *Cluster) Kill(node int32)                                        { panic("not yet") } // SIGKILL
func (c *Cluster) Stop(node int32)                                        { panic("not yet") } // SIGSTOP
func (c *Cluster) Cont(node int32)                                        { panic("not yet") } // SIGCONT
func (c *Cluster) Terminate(node int32)                                   { panic("not yet") } // SIGTERM and wait
func (c *Cluster) Restart(node int32)                                     { panic("not yet") } // after Kill or Terminate (kills a running one), same data and port, waits until ready
func (c *Cluster) Proxy(node int32) *Proxy                                { panic("not yet") } // WithProxy only

// FakeCluster is kfake in this process. Implements Broker and Nodes.
type FakeCluster struct{ *kfake.Cluster }

// Fake starts it (1 node unless kfake.NumBrokers; kfake.SeedTopics(4, "a") seeds topics) and closes it with the test.
func Fake(t testing.TB, opts ...kfake.Opt) *FakeCluster { panic("not yet") }

func (f *FakeCluster) Addrs() []string { panic("not yet") }
func (f *FakeCluster) Real() bool      { return false }
func (f *FakeCluster) CreateTopic(name string, partitions int, configs map[string]string) {
	panic("not yet")
}
func (f *FakeCluster) CreateTopicOn(name string, replicas [][]int32, configs map[string]string) {
	panic("not yet")
}
func (f *FakeCluster) DeleteTopic(name string)                                { panic("not yet") }
func (f *FakeCluster) AddPartitions(name string, total int)                   { panic("not yet") }
func (f *FakeCluster) NodeIDs() []int32                                       { panic("not yet") }
func (f *FakeCluster) Leader(topic string, partition int32) int32             { panic("not yet") }
func (f *FakeCluster) Coordinator(group string) int32                         { panic("not yet") }
func (f *FakeCluster) MoveCoordinator(group string)                           { panic("not yet") }
func (f *FakeCluster) Leaderless(topic string, partition int32) (undo func()) { panic("not yet") }
func (f *FakeCluster) Freeze(node int32)                                      { panic("not yet") }
func (f *FakeCluster) Thaw(node int32)                                        { panic("not yet") }
func (f *FakeCluster) Proxy(node int32) *Proxy                                { panic("not yet") } // every node has one

// Each runs fn as subtests "embedded" and "real". Without options the real one is Shared; with options both are private.
func Each(t *testing.T, fn func(t *testing.T, b Broker), opts ...Option) { panic("not yet") }

// Proxy stands in front of one broker.
type Proxy struct{}

// NewProxy forwards a port of its own to target (which does not advertise it); closed with the test.
func NewProxy(t testing.TB, target string) *Proxy { panic("not yet") }

func (p *Proxy) Addr() string          { panic("not yet") }
func (p *Proxy) Pause()                { panic("not yet") } // accept, never answer
func (p *Proxy) Resume()               { panic("not yet") } // undo everything
func (p *Proxy) Drop()                 { panic("not yet") } // close all connections there are
func (p *Proxy) Refuse()               { panic("not yet") } // drop, and refuse new ones until Resume
func (p *Proxy) Delay(d time.Duration) { panic("not yet") } // on responses
func (p *Proxy) DropResponses()        { panic("not yet") } // requests reach the broker, responses are lost, until Resume

// Client side, all with franz-go; they fail the test on error.

func Client(t testing.TB, e Endpoint, opts ...kgo.Opt) *kgo.Client { panic("not yet") }
func Admin(t testing.TB, e Endpoint) *kadm.Client                  { panic("not yet") }

// Produce waits for every acknowledgement and returns the records with partition, offset set.
func Produce(t testing.TB, e Endpoint, records ...*kgo.Record) []*kgo.Record { panic("not yet") }

// ReadAll reads the topic from its start until n records were read or within has passed, and returns what it got.
func ReadAll(t testing.TB, e Endpoint, topic string, n int, within time.Duration, opts ...kgo.Opt) []*kgo.Record {
	panic("not yet")
}

// LogAppendTime are the configs of a topic stamped by the broker (real only).
func LogAppendTime() map[string]string { panic("not yet") }

// Commit is a committed offset.
type Commit struct {
	Offset   int64
	Metadata string
}

// Committed is what the group has committed in the topic, by partition.
func Committed(t testing.TB, e Endpoint, group, topic string) map[int32]Commit { panic("not yet") }

// UniqueName is a topic or group name that nobody else uses, made of the test's name.
func UniqueName(t testing.TB) string { panic("not yet") }

// Main runs a package's tests, then stops the shared broker: os.Exit(testkafka.Main(m)). Needed wherever Shared, Need or Each are used.
func Main(m *testing.M) int { panic("not yet") }
