package devbroker

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"
)

// A port may be taken for a moment after the broker before this one has closed it.
const (
	listenPatience = 500 * time.Millisecond
	listenPause    = 20 * time.Millisecond
)

// listen opens the address and says what to do when it cannot.
func listen(address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: want host:port, as in --listen 127.0.0.1:9092: %w", address, err)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return nil, fmt.Errorf("listen on %q: %q is no port, want 0 (any free one) to 65535", address, port)
	}
	listener, err := listenPatiently(address)
	if portInUse(err) {
		return nil, fmt.Errorf("listen on %s: the port is in use by another process (a Kafka, or another dev broker?): "+
			"stop that one, or choose a free port with --listen %s: %w", address, net.JoinHostPort(hintHost(host), "PORT"), err)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: choose an address of this machine with --listen 127.0.0.1:PORT: %w", address, err)
	}
	return advertise(listener), nil
}

func listenPatiently(address string) (net.Listener, error) {
	for deadline := time.Now().Add(listenPatience); ; {
		listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
		if !portInUse(err) || time.Now().After(deadline) {
			return listener, err
		}
		<-time.After(listenPause)
	}
}

func hintHost(host string) string {
	if host == "" {
		return "127.0.0.1"
	}
	return host
}

// advertised is a listener on every interface whose address a client can connect to:
// the broker tells clients the listener's address, and nobody can connect to 0.0.0.0.
type advertised struct {
	net.Listener
	addr *net.TCPAddr
}

func (a advertised) Addr() net.Addr { return a.addr }

func advertise(listener net.Listener) net.Listener {
	addr, ok := listener.Addr().(*net.TCPAddr)
	if !ok || !addr.IP.IsUnspecified() {
		return listener
	}
	return advertised{listener, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: addr.Port}}
}
