package testkafka

import (
	"net"
	"sync"
	"time"
)

// link is one client's connection through a Proxy.
type link struct {
	proxy  *Proxy
	client net.Conn
	ended  chan struct{} // closed by close
	lost   bool          // a response was lost; protected by the proxy's mutex

	mu     sync.Mutex // protects broker and closed; taken inside the proxy's, never around it
	broker net.Conn   // nil until the proxy let it through
	closed bool
}

// queued is how many pieces of responses may wait for their delay.
const queued = 256

type piece struct {
	data []byte
	due  time.Time
}

func (l *link) run() {
	defer l.proxy.remove(l)
	if !l.pass() || !l.dial() {
		return
	}
	var directions sync.WaitGroup
	responses := make(chan piece, queued)
	directions.Go(func() { l.requests(); l.close() })
	directions.Go(func() { l.read(responses); close(responses) })
	directions.Go(func() { l.deliver(responses); l.close() })
	directions.Wait()
}

func (l *link) dial() bool {
	broker, err := net.Dial("tcp", l.proxy.target)
	if err != nil {
		return false // The broker is down; the client sees its connection closed.
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = broker.Close()
		return false
	}
	l.broker = broker
	return true
}

func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	close(l.ended)
	_ = l.client.Close() // Either side may have closed before.
	if l.broker != nil {
		_ = l.broker.Close()
	}
}

// pass waits until nothing holds the link back. False: it has ended.
func (l *link) pass() bool {
	for gate := l.proxy.gate(); gate != nil; gate = l.proxy.gate() {
		select {
		case <-gate:
		case <-l.ended:
			return false
		}
	}
	return true
}

// requests copies what the client sends.
func (l *link) requests() {
	buf := make([]byte, 32<<10)
	for {
		n, err := l.client.Read(buf)
		if n > 0 && l.pass() {
			if _, err := l.broker.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// read takes what the broker answers, also while deliveries are held up: the delay is
// that of the network, not of the broker.
func (l *link) read(responses chan<- piece) {
	for {
		buf := make([]byte, 32<<10)
		n, err := l.broker.Read(buf)
		if n > 0 && !l.queue(responses, buf[:n]) {
			return
		}
		if err != nil {
			return
		}
	}
}

func (l *link) queue(responses chan<- piece, data []byte) bool {
	late, lost := l.proxy.response(l)
	if lost {
		return true
	}
	select {
	case responses <- piece{data, time.Now().Add(late)}:
		return true
	case <-l.ended:
		return false
	}
}

func (l *link) deliver(responses <-chan piece) {
	for p := range responses {
		if !l.wait(time.Until(p.due)) || !l.pass() {
			return
		}
		if _, err := l.client.Write(p.data); err != nil {
			return
		}
	}
}

func (l *link) wait(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.ended:
		return false
	}
}
