//go:build unix

package kafka

import (
	"net"
	"syscall"
)

// hungUp says whether the other side has closed a connection on which nothing is
// awaited. Without looking we would learn it only from the answer that does not come,
// and then not know whether the request was taken.
func hungUp(conn net.Conn) bool {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch {
		case err == syscall.EAGAIN || err == syscall.EWOULDBLOCK || err == syscall.EINTR:
		default:
			gone = err != nil || n == 0
		}
		return true // never wait
	})
	return gone || err != nil
}
