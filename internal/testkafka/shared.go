package testkafka

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

// shared is the broker that all tests of this process use together.
var shared struct {
	sync.Mutex // protects the rest, and makes one test start it while the others wait
	server     *Server
	err        error
}

// Shared is one node of a real Apache Kafka for all tests of this process, or for all of
// `make test` when TEST_KAFKA_BROKERS names one. Tests do not disturb each other if each
// uses UniqueName; none may stop or freeze it.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	if brokers := os.Getenv(EnvBrokers); brokers != "" {
		return &Cluster{t: t, addrs: strings.Split(brokers, ","), version: os.Getenv(EnvBrokersVersion)}
	}
	server, err := startShared()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(server.Output(30))
		}
	})
	return &Cluster{t: t, server: server, addrs: server.Addrs(), version: server.Version()}
}

func startShared() (*Server, error) {
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = Launch()
	}
	return shared.server, shared.err
}

func stopShared() error {
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		return nil
	}
	server := shared.server
	shared.server = nil
	return server.Close()
}

// Main runs the tests of a package that uses Shared, Need or Each, and stops the shared
// broker:
//
//	func TestMain(m *testing.M) { os.Exit(testkafka.Main(m)) }
//
// Without it the broker is killed with the process, and its data stay until the next run.
func Main(m *testing.M) int { return Suite(m).Run() }

// Suite is Main for goleak, which runs the tests itself:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(testkafka.Suite(m)) }
func Suite(m *testing.M) interface{ Run() int } { return suite{m} }

type suite struct{ m *testing.M }

func (s suite) Run() int {
	code := s.m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the shared broker:", err)
		return max(code, 1)
	}
	return code
}

func isShared(server *Server) bool {
	shared.Lock()
	defer shared.Unlock()
	return shared.server == server
}
