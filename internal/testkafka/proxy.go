package testkafka

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Proxy stands in front of one broker and hurts what passes. Its methods may be called
// from any goroutine, at any time; each setting stays until Resume.
type Proxy struct {
	addr   string
	target string
	work   sync.WaitGroup // every goroutine of the proxy

	mu       sync.Mutex // protects everything below
	listener net.Listener
	links    map[*link]struct{}
	paused   chan struct{} // nil, or closed by Resume
	delay    time.Duration
	lossy    bool // responses are lost
	refusing bool
	closed   bool
}

// NewProxy opens a port that leads to the target, and closes it with the test. A client
// that learns the brokers' own addresses from metadata goes past it: start the cluster
// with WithProxy to prevent that.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	addr, err := freeAddr()
	require.NoError(t, err)
	p, err := openProxy(addr, target)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

func openProxy(addr, target string) (*Proxy, error) {
	p := &Proxy{addr: addr, target: target, links: make(map[*link]struct{})}
	if err := p.listen(); err != nil {
		return nil, err
	}
	return p, nil
}

// listen is called with mu held, or before anybody else knows the proxy.
func (p *Proxy) listen() error {
	listener, err := net.Listen("tcp", p.addr)
	if err != nil {
		return fmt.Errorf("listen for %s: %w", p.target, err)
	}
	p.listener = listener
	p.work.Go(func() { p.accept(listener) })
	return nil
}

// Addr is where clients connect.
func (p *Proxy) Addr() string { return p.addr }

// Pause makes the broker a black hole: connections and requests are accepted and
// nothing is answered. With Resume everything goes on where it stopped.
func (p *Proxy) Pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused == nil {
		p.paused = make(chan struct{})
	}
}

// Delay lets each response arrive that much later. It does not make them slower: two
// responses in a row are both late by d.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// DropResponses lets requests reach the broker and loses what it answers. With Resume the
// connections that lost something are closed, as half a response cannot be made whole.
func (p *Proxy) DropResponses() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lossy = true
}

// Drop closes all connections there are. New ones are accepted.
func (p *Proxy) Drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeLinks(func(*link) bool { return true })
}

// Refuse closes all connections and refuses new ones, as a machine whose broker is down.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refusing || p.closed {
		return
	}
	p.refusing = true
	_ = p.listener.Close() // There is nothing to be done about it.
	p.closeLinks(func(*link) bool { return true })
}

// Resume undoes every setting.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = 0
	if p.lossy {
		p.lossy = false
		p.closeLinks(func(l *link) bool { return l.lost })
	}
	if p.paused != nil {
		close(p.paused)
		p.paused = nil
	}
	if p.refusing && !p.closed {
		p.refusing = false
		if err := p.listen(); err != nil {
			panic(err) // The port is not one that the kernel gives away: it was still ours to take.
		}
	}
}

// Close ends the proxy and waits for its goroutines.
func (p *Proxy) Close() {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		_ = p.listener.Close() // Refuse may have done it.
		p.closeLinks(func(*link) bool { return true })
	}
	p.mu.Unlock()
	p.work.Wait()
}

// closeLinks is called with mu held.
func (p *Proxy) closeLinks(which func(*link) bool) {
	for l := range p.links {
		if which(l) {
			l.close()
			delete(p.links, l)
		}
	}
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(time.Millisecond) // A client that was gone already, or no file descriptors.
			continue
		}
		l := &link{proxy: p, client: client, ended: make(chan struct{})}
		if !p.add(l) {
			_ = client.Close() // It came too late.
			continue
		}
		p.work.Go(l.run)
	}
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.refusing {
		return false
	}
	p.links[l] = struct{}{}
	return true
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.close()
	delete(p.links, l)
}

// gate is what holds traffic back now; nil when nothing does.
func (p *Proxy) gate() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paused
}

// response says when a response may pass that came now, and whether it is lost.
func (p *Proxy) response(l *link) (late time.Duration, lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lossy {
		l.lost = true
	}
	return p.delay, p.lossy
}
