//go:build unix

package kafka

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"
)

// hungUp says whether the other side has closed a connection on which nothing is
// awaited. Without looking we would learn it only from the answer that does not come,
// and then not know whether the request was taken.
//
// Over TLS a broker says goodbye before it closes, so anything that has come is the end.
func hungUp(conn net.Conn) bool {
	encrypted, isTLS := conn.(*tls.Conn)
	if isTLS {
		conn = encrypted.NetConn()
	}
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	// Not raw.Read: that heeds the read deadline, which has passed on an idle connection.
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		busy := errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR)
		gone = !busy && (err != nil || n == 0 || isTLS)
	})
	return gone || err != nil
}
