package kafka

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAConnectionThatWasClosedByTheOtherSideIsSeen(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	other, err := listener.Accept()
	require.NoError(t, err)
	require.False(t, hungUp(conn))

	// What the library left behind while the connection was idle.
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(-time.Second)))
	require.False(t, hungUp(conn))
	require.NoError(t, conn.SetReadDeadline(time.Time{}))

	_, err = other.Write([]byte("x"))
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1))
	require.NoError(t, err)
	require.False(t, hungUp(conn))

	require.NoError(t, other.Close())
	require.Eventually(t, func() bool { return hungUp(conn) }, 10*time.Second, time.Millisecond)
	require.NoError(t, conn.Close())
	require.True(t, hungUp(conn))
	require.False(t, hungUp(fakeConn{}), "of what is no socket nothing is known")
}

type fakeConn struct{ net.Conn }
