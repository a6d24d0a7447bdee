package testkafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Server is a running Apache Kafka that belongs to no test: Start and Shared hand out a
// Cluster on it, and a program keeps one for others.
type Server struct {
	distribution *distribution
	settings     settings
	nodes        []*node
	workdir      *workdir
	secrets      *secrets // nil: nothing is secured
	closeOnce    sync.Once
}

// startPatience is how long a start may take on a busy machine; on an idle one it is 2 s.
const startPatience = 90 * time.Second

// Launch starts Apache Kafka and waits until it serves.
func Launch(opts ...Option) (*Server, error) {
	s, err := newSettings(opts)
	if err != nil {
		return nil, err
	}
	d, err := fetchDistribution(s.version)
	if err != nil {
		return nil, err
	}
	return launchOn(d, s, func(n *node) error { return n.start(d, s) })
}

// launchAttempts are starts with other ports each, when somebody was faster to take one.
const launchAttempts = 3

func launchOn(d *distribution, s settings, start func(*node) error) (*Server, error) {
	for attempt := 1; ; attempt++ {
		server, err := newServer(d, s)
		if err != nil {
			return nil, err
		}
		if err = server.startAll(start); err == nil {
			return server, nil
		}
		taken := server.addressTaken()
		err = errors.Join(fmt.Errorf("start Apache Kafka %s: %w\n%s", s.version, err, server.Output(100)), server.Close())
		if !taken || attempt == launchAttempts {
			return nil, err
		}
	}
}

func newServer(d *distribution, s settings) (*Server, error) {
	dir, err := newWorkdir()
	if err != nil {
		return nil, err
	}
	server := &Server{distribution: d, settings: s, workdir: dir}
	if s.secured {
		if server.secrets, err = newSecrets(); err != nil {
			return nil, errors.Join(err, server.Close())
		}
	}
	for id := range s.brokers {
		n, err := newNode(int32(id), dir.path, s)
		if err != nil {
			return nil, errors.Join(err, server.Close())
		}
		server.nodes = append(server.nodes, n)
	}
	clusterID := newUUID()
	for _, n := range server.nodes {
		if err := n.prepare(d, s, server.secrets, clusterID, server.nodes); err != nil {
			return nil, errors.Join(err, server.Close())
		}
	}
	return server, nil
}

func (s *Server) startAll(start func(*node) error) error {
	for _, n := range s.nodes {
		if err := start(n); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	if err := s.ready(ctx, s.nodes...); err != nil {
		return err
	}
	return s.addUsers(ctx)
}

// addUsers gives the users of a secured cluster their SCRAM passwords. (PLAIN has them in
// the properties.)
func (s *Server) addUsers(ctx context.Context) error {
	if s.secrets == nil || len(s.settings.users) == 0 {
		return nil
	}
	a, err := newAdmin(s.internalAddrs(), everyNode, s.harnessOpts()...)
	if err != nil {
		return err
	}
	defer a.close()
	for name, password := range s.settings.users {
		if err := a.setPassword(ctx, name, password); err != nil {
			return err
		}
	}
	return nil
}

// Addrs are where clients connect.
func (s *Server) Addrs() []string {
	var addrs []string
	for _, n := range s.nodes {
		addrs = append(addrs, n.addr())
	}
	return addrs
}

// ListenerAddrs are where clients connect to a listener of WithListener; none, if it was
// started without it.
func (s *Server) ListenerAddrs(name string) []string {
	var addrs []string
	for _, n := range s.nodes {
		if addr, ok := n.others[name]; ok {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// AuthorityPEM is the certificate of who signed those of the brokers; nil, if it was
// started without a security option.
func (s *Server) AuthorityPEM() []byte {
	if s.secrets == nil {
		return nil
	}
	return s.secrets.authority.PEM()
}

// Version is the version of Apache Kafka that runs.
func (s *Server) Version() string { return s.settings.version }

// Close kills every node, waits, and removes the data. It may be called again.
func (s *Server) Close() error {
	var err error
	s.closeOnce.Do(func() {
		for _, n := range s.nodes {
			n.close()
		}
		err = s.workdir.remove()
	})
	return err
}

// Output is the last lines of what each node printed.
func (s *Server) Output(lines int) string {
	var b strings.Builder
	for _, n := range s.nodes {
		fmt.Fprintf(&b, "--- node %d, the last %d lines:\n%s\n", n.id, lines, n.tail(lines))
	}
	return b.String()
}

// internalAddrs are where the cluster itself connects: past proxies and security.
func (s *Server) internalAddrs() []string {
	var addrs []string
	for _, n := range s.nodes {
		addrs = append(addrs, n.internal)
	}
	return addrs
}

func (s *Server) addressTaken() bool {
	for _, n := range s.nodes {
		if n.addressTaken() {
			return true
		}
	}
	return false
}

func (s *Server) runningNodes() int {
	running := 0
	for _, n := range s.nodes {
		if n.running() {
			running++
		}
	}
	return running
}

// restart starts nodes that do not run, on their old data and ports, and waits until
// they serve. Several at once, as a quorum that is lost needs more than one to come back.
func (s *Server) restart(nodes ...*node) error {
	for _, n := range nodes {
		n.kill()
		if err := n.start(s.distribution, s.settings); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	if err := s.ready(ctx, nodes...); err != nil {
		return fmt.Errorf("restart: %w\n%s", err, s.Output(100))
	}
	return nil
}
