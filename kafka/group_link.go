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

// connectTimeout bounds an attempt to connect to one broker of several.
const connectTimeout = 2 * time.Second

// errCut is what a request gets whose connection was closed by us.
var errCut = errors.New("the connection was given up")

// link is one connection to one broker that can be given up at any moment. The
// library's Broker holds its lock for a whole round trip, Close included, so a
// request that is not answered (JoinGroup waits for a minute by design) could not be
// interrupted otherwise; and after a timeout a Broker is of no use any more. So a link
// is opened once, and after any trouble closed and replaced.
type link struct {
	addr   string
	broker *sarama.Broker
	wire   *wire
	config sarama.Config
	served atomic.Bool // a request was answered
}

func newLink(config *sarama.Config, addr string) *link {
	l := &link{addr: addr, config: forConnection(config), broker: sarama.NewBroker(addr)}
	l.wire = &wire{timeout: config.Net.DialTimeout}
	l.wire.life, l.wire.end = context.WithCancel(context.Background())
	if config.Net.Proxy.Enable {
		l.wire.dialer = config.Net.Proxy.Dialer
	}
	l.config.Net.Proxy.Enable, l.config.Net.Proxy.Dialer = true, l.wire
	return l
}

// open connects and introduces us, within a time. On an error the link is closed.
func (l *link) open(within time.Duration) error {
	expired := time.AfterFunc(within, l.wire.cut)
	err := l.broker.Open(&l.config)
	if err == nil {
		_, err = l.broker.Connected()
	}
	switch {
	case !expired.Stop():
		err = fmt.Errorf("no answer within %v: %w", within, errCut)
	case err == nil && !l.ok():
		err = errCut
	}
	if err != nil {
		l.close()
		return fmt.Errorf("connect to broker %s: %w", l.addr, plain(explainOpening(l.wire.dialer, err)))
	}
	return nil
}

// do runs one request. request returns errors of the connection only; any of them
// makes the link useless, and the caller closes it.
func (l *link) do(ctx context.Context, within time.Duration, request func(*sarama.Broker) error) error {
	limit, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	stop := context.AfterFunc(limit, l.wire.cut)
	defer stop()
	err := request(l.broker)
	switch {
	case err == nil:
		l.served.Store(true)
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", errCut, context.Cause(ctx))
	case limit.Err() != nil:
		return fmt.Errorf("no answer within %v: %w", within, errCut)
	case !l.served.Load():
		return explainFirst(l.wire.dialer, err)
	}
	return err
}

// ok is false once anything went wrong with the connection. It takes no lock of the
// library, so it can be asked while a request is pending.
func (l *link) ok() bool { return !l.wire.broken.Load() }

// close gives up the connection. It does not wait for an answer.
func (l *link) close() {
	l.wire.cut()
	_ = l.broker.Close() // only says that it is not connected
}

// wire is a link's way to the network: it dials for the library and keeps hold of
// what it gave.
type wire struct {
	dialer  Dialer // nil: plain TCP
	timeout time.Duration
	life    context.Context //nolint:containedctx // the connection's own life: cut ends it, also in the middle of dialling
	end     context.CancelFunc

	// patience is the longest silence (in ns) while an answer is awaited; 0 leaves it
	// to the library's configuration.
	patience atomic.Int64
	heard    atomic.Int64 // when the broker last said something, in ns
	broken   atomic.Bool
	tap      tap

	mu   sync.Mutex // guards conn
	conn net.Conn
}

// Dial implements Dialer.
func (w *wire) Dial(network, address string) (net.Conn, error) {
	conn, err := w.dial(network, address)
	if err != nil {
		w.broken.Store(true)
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.life.Err() != nil {
		_ = conn.Close()
		return nil, errCut
	}
	w.conn = conn
	return &wireConn{Conn: conn, wire: w}, nil
}

func (w *wire) dial(network, address string) (net.Conn, error) {
	if w.dialer != nil {
		return dialWith(w.life, w.dialer, network, address)
	}
	d := net.Dialer{Timeout: w.timeout}
	return d.DialContext(w.life, network, address)
}

// cut closes the connection, or keeps it from being made.
func (w *wire) cut() {
	w.broken.Store(true)
	w.end()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn != nil {
		_ = w.conn.Close()
	}
}

// wireConn notes trouble and applies the patience.
type wireConn struct {
	net.Conn
	wire *wire
}

// Read implements net.Conn.
func (c *wireConn) Read(b []byte) (int, error) {
	n, err := c.wire.tap.read(c.Conn, b)
	if n > 0 {
		c.wire.heard.Store(time.Now().UnixNano())
	}
	if err != nil {
		c.wire.broken.Store(true)
	}
	return n, err
}

// Write implements net.Conn.
func (c *wireConn) Write(b []byte) (int, error) {
	c.wire.tap.wrote(b)
	n, err := c.Conn.Write(b)
	if err != nil {
		c.wire.broken.Store(true)
	}
	return n, err
}

// Close implements net.Conn.
func (c *wireConn) Close() error {
	c.wire.broken.Store(true)
	return c.Conn.Close()
}

// SetReadDeadline is called by the library before it waits for an answer.
func (c *wireConn) SetReadDeadline(t time.Time) error {
	if p := time.Duration(c.wire.patience.Load()); p > 0 {
		if limit := time.Now().Add(p); t.IsZero() || limit.Before(t) {
			t = limit
		}
	}
	return c.Conn.SetReadDeadline(t)
}
