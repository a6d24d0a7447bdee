package testkafka

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// node is one broker of a Server: its addresses and data, and the JVM that serves them,
// if one runs.
type node struct {
	id                           int32
	client, internal, controller string            // host:port
	others                       map[string]string // host:port of further listeners of clients, by name
	dir                          string
	proxy                        *Proxy   // nil without WithProxy
	process                      *process // nil before the first start
	frozen                       atomic.Bool
}

func newNode(id int32, dir string, s settings) (*node, error) {
	n := &node{id: id, dir: filepath.Join(dir, fmt.Sprintf("node-%d", id)), others: make(map[string]string)}
	for _, addr := range []*string{&n.client, &n.internal, &n.controller} {
		var err error
		if *addr, err = freeAddr(); err != nil {
			return nil, err
		}
	}
	for _, name := range s.listenerNames()[1:] {
		addr, err := freeAddr()
		if err != nil {
			return nil, err
		}
		n.others[name] = addr
	}
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make a directory for node %d: %w", id, err)
	}
	if s.proxied {
		addr, err := freeAddr()
		if err != nil {
			return nil, err
		}
		if n.proxy, err = openProxy(addr, n.client); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// addr is where clients connect.
func (n *node) addr() string {
	if n.proxy != nil {
		return n.proxy.Addr()
	}
	return n.client
}

func (n *node) dataDir() string        { return filepath.Join(n.dir, "data") }
func (n *node) propertiesFile() string { return filepath.Join(n.dir, "server.properties") }
func (n *node) outputFile() string     { return filepath.Join(n.dir, "output") }

// prepare writes the properties and the formatted storage.
func (n *node) prepare(d *distribution, s settings, secrets *secrets, clusterID string, all []*node) error {
	properties, err := n.properties(s, secrets, all)
	if err != nil {
		return err
	}
	if err := os.WriteFile(n.propertiesFile(), []byte(properties), 0o644); err != nil {
		return fmt.Errorf("write the properties of node %d: %w", n.id, err)
	}
	return d.formatData(n.dataDir(), n.id, clusterID)
}

// properties are the server.properties, with security if there is any.
func (n *node) properties(s settings, secrets *secrets, all []*node) (string, error) {
	if secrets == nil {
		return serverProperties(s, n, all), nil
	}
	secured, err := s.secure(n, secrets)
	if err != nil {
		return "", fmt.Errorf("secure node %d: %w", n.id, err)
	}
	maps.Copy(secured, s.properties) // What a test sets counts.
	s.properties = secured
	return serverProperties(s, n, all), nil
}

func (n *node) start(d *distribution, s settings) error {
	var err error
	n.process, err = startProcess(d.java(s, "kafka.Kafka", n.propertiesFile()), n.outputFile())
	return err
}

func (n *node) running() bool { return n.process != nil && n.process.running() }

// alive says whether the node can answer.
func (n *node) alive() bool { return n.running() && !n.frozen.Load() }

func (n *node) freeze() {
	n.frozen.Store(true)
	n.process.signal(syscall.SIGSTOP)
}

func (n *node) thaw() {
	n.process.signal(syscall.SIGCONT)
	n.frozen.Store(false)
}

func (n *node) kill() {
	if n.process != nil {
		n.process.kill()
	}
	n.frozen.Store(false)
}

// terminatePatience is how long a graceful stop may take before it is a failure.
const terminatePatience = 30 * time.Second

// terminate stops the node gracefully; one that does not stop in time is killed.
func (n *node) terminate(patience time.Duration) error {
	if !n.running() {
		return nil
	}
	n.process.signal(syscall.SIGTERM)
	select {
	case <-n.process.exited:
		return nil
	case <-time.After(patience):
		n.kill()
		return fmt.Errorf("node %d did not stop within %v of SIGTERM", n.id, patience)
	}
}

// close ends the node for good.
func (n *node) close() {
	n.kill()
	if n.proxy != nil {
		n.proxy.Close()
	}
}

// tail is the last lines of what the node printed, over all its starts.
func (n *node) tail(lines int) string {
	output, err := os.ReadFile(n.outputFile())
	if err != nil {
		return err.Error()
	}
	all := strings.Split(string(bytes.TrimSpace(output)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// addressTaken says that the node could not start because somebody took its port
// between our look and its own.
func (n *node) addressTaken() bool {
	return strings.Contains(n.tail(200), "Address already in use")
}
