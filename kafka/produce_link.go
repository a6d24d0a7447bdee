package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
)

// errNotSent wraps what kept a request from leaving us.
var errNotSent = errors.New("not sent")

// errLinkAborted is the cause when we gave a connection up ourselves.
var errLinkAborted = errors.New("connection given up")

// produceLink is one connection to a broker. One goroutine opens, uses and closes it;
// anybody may abort it, at any time, without waiting: the library holds its lock
// through dialling and writing, so closing through the library could take as long as
// the trouble that we want to get out of.
type produceLink struct {
	addr    string
	config  sarama.Config
	base    Dialer // nil: plain TCP
	broker  *sarama.Broker
	written atomic.Int64 // bytes given to the network

	mu      sync.Mutex // guards what follows; held for no I/O
	aborted bool
	cancel  context.CancelFunc // of the dialling
	wire    net.Conn
}

// newProduceLink prepares a connection. The configuration is copied: the library reads
// it for as long as the connection lives.
func newProduceLink(addr string, config *sarama.Config) *produceLink {
	l := &produceLink{addr: addr, config: forConnection(config), broker: sarama.NewBroker(addr)}
	if config.Net.Proxy.Enable {
		l.base = config.Net.Proxy.Dialer
	}
	l.config.Net.Proxy.Enable = true
	l.config.Net.Proxy.Dialer = l
	return l
}

// open connects, encrypts, agrees on versions and authenticates, within the time given.
// A handshake that only timed out inside the library would count as success there, so
// the time must be less than its read timeout.
func (l *produceLink) open(within time.Duration) error {
	timer := time.AfterFunc(within, l.abort)
	if err := l.broker.Open(&l.config); err != nil {
		timer.Stop()
		return fmt.Errorf("connect to %s: %w", l.addr, err)
	}
	connected, err := l.broker.Connected()
	switch late := !timer.Stop(); {
	case late:
		return fmt.Errorf("connect to %s: no answer within %v", l.addr, within)
	case err != nil:
		return fmt.Errorf("connect to %s: %w", l.addr, explainOpening(l.base, err))
	case !connected:
		return fmt.Errorf("connect to %s: %w", l.addr, sarama.ErrNotConnected)
	}
	return nil
}

// hungUp says whether the broker has closed the connection. Only for a connection on
// which no answer is awaited.
func (l *produceLink) hungUp() bool {
	l.mu.Lock()
	wire := l.wire
	l.mu.Unlock()
	return wire != nil && hungUp(wire)
}

// abort closes the connection, also one that is being made.
func (l *produceLink) abort() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.aborted = true
	if l.cancel != nil {
		l.cancel()
	}
	if l.wire != nil {
		_ = l.wire.Close()
	}
}

// close ends the connection for good. What is unanswered fails.
func (l *produceLink) close() {
	l.abort()
	// The wire is closed already, so this waits for no network; its error says so.
	_ = l.broker.Close()
}

// Dial implements Dialer for the library.
func (l *produceLink) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), l.config.Net.DialTimeout)
	defer cancel()
	l.mu.Lock()
	l.cancel = cancel
	aborted := l.aborted
	l.mu.Unlock()
	if aborted {
		return nil, errLinkAborted
	}
	conn, err := l.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.aborted {
		_ = conn.Close()
		return nil, errLinkAborted
	}
	l.wire = conn
	return &produceWire{Conn: conn, link: l}, nil
}

func (l *produceLink) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if l.base != nil {
		return dialWith(ctx, l.base, network, address)
	}
	d := net.Dialer{KeepAlive: l.config.Net.KeepAlive}
	return d.DialContext(ctx, network, address)
}

// produceWire counts what goes out, so that a failed write of nothing can be told from
// one that the broker may have seen.
type produceWire struct {
	net.Conn
	link *produceLink
}

// Write implements net.Conn.
func (w *produceWire) Write(b []byte) (int, error) {
	n, err := w.Conn.Write(b)
	w.link.written.Add(int64(n))
	return n, err
}
