package testkafka

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports of nodes and proxies come from below the range that the kernel gives to outgoing
// connections (from 32768 on Linux, 49152 elsewhere). A port from that range could be
// taken by any client on the machine while a killed node is down, and its restart fail.
const (
	firstPort = 20000
	lastPort  = 32000
)

// handedOut keeps two nodes that are being started from getting the same port: a port
// is free until its JVM, seconds later, listens.
var handedOut struct {
	sync.Mutex // protects ports
	ports      map[int]bool
}

// freeAddr is an address of this machine that nobody listens on.
func freeAddr() (string, error) {
	handedOut.Lock()
	defer handedOut.Unlock()
	if handedOut.ports == nil {
		handedOut.ports = make(map[int]bool)
	}
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if handedOut.ports[port] {
			continue
		}
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		listener, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		if err := listener.Close(); err != nil {
			return "", fmt.Errorf("look for a free port: %w", err)
		}
		handedOut.ports[port] = true
		return addr, nil
	}
	return "", errors.New("look for a free port: none in a thousand tries")
}
