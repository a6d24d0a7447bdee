package testkafka

import (
	"fmt"
	"maps"
	"os"
	"regexp"
)

// DefaultVersion is the Apache Kafka that tests run on. KAFKA_VERSION names another one.
const DefaultVersion = "4.4.0"

// The environment of a test run.
const (
	// EnvVersion is the version of Apache Kafka that is started.
	EnvVersion = "KAFKA_VERSION"
	// EnvBrokers names a broker that runs already, which Shared then uses: host:port[,host:port].
	EnvBrokers = "TEST_KAFKA_BROKERS"
	// EnvBrokersVersion is the version of that broker.
	EnvBrokersVersion = "TEST_KAFKA_VERSION"
	// EnvUnproven is a file that gets a line for each test that had no real broker.
	EnvUnproven = "TEST_UNPROVEN"
)

// Version is the version of Apache Kafka that Start starts.
func Version() string {
	if v := os.Getenv(EnvVersion); v != "" {
		return v
	}
	return DefaultVersion
}

// defaultHeap is what a test's broker needs, with some air.
const defaultHeap = 384

// Option changes what Start, Launch and Each start.
type Option func(*settings)

type settings struct {
	version    string
	brokers    int
	heap       int // MB
	proxied    bool
	optimized  bool
	properties map[string]string
	secured    bool // by any of the options in security.go
	acls       bool
	listeners  map[string]Listener // of clients, by name
	users      map[string]string   // password by name
}

// WithBrokers starts n nodes, 1 to 3. Their ids are 0 to n-1.
func WithBrokers(n int) Option { return func(s *settings) { s.brokers = n } }

// WithProperty sets a server property on every node. On the embedded broker of Each it
// is a broker configuration, as far as that knows it.
//
// There are three listeners: CLIENT for tests, INTERNAL and CONTROLLER for the cluster
// itself and for CreateTopic and the like. The security options (WithTLS, WithSASL,
// WithACLs) concern CLIENT only.
func WithProperty(key, value string) Option {
	return func(s *settings) { s.properties[key] = value }
}

// WithProxy puts a Proxy in front of every node and advertises that to clients. The
// nodes talk to each other past it.
func WithProxy() Option { return func(s *settings) { s.proxied = true } }

// WithVersion starts that version instead of Version().
func WithVersion(version string) Option { return func(s *settings) { s.version = version } }

// WithHeap gives each node that many MB.
func WithHeap(megabytes int) Option { return func(s *settings) { s.heap = megabytes } }

// WithOptimizer lets the JVM compile for speed. Without it a node is up in half the CPU
// time and serves more slowly: right for seconds of tests, wrong for a benchmark.
func WithOptimizer() Option { return func(s *settings) { s.optimized = true } }

var versionPattern = regexp.MustCompile(`^\d+\.\d+\.\d+$`)

func newSettings(opts []Option) (settings, error) {
	s := settings{
		version: Version(), brokers: 1, heap: defaultHeap, properties: make(map[string]string), listeners: make(map[string]Listener), users: make(map[string]string),
	}
	for _, opt := range opts {
		opt(&s)
	}
	s.properties = maps.Clone(s.properties)
	if !versionPattern.MatchString(s.version) {
		return s, fmt.Errorf("%s is %q, want a release of Apache Kafka like %s", EnvVersion, s.version, DefaultVersion)
	}
	if s.brokers < 1 || s.brokers > 3 {
		return s, fmt.Errorf("start %d brokers: want 1 to 3", s.brokers)
	}
	return s, nil
}
