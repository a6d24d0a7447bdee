package testkafka

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// echo answers each line with the same line, and says what it got.
type echo struct {
	addr string
	got  chan string
}

func startEcho(t *testing.T) echo {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	e := echo{addr: listener.Addr().String(), got: make(chan string, 100)}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			work.Go(func() { e.serve(conn) })
		}
	})
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		work.Wait()
	})
	return e
}

func (e echo) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	for lines := bufio.NewReader(conn); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		e.got <- line
		if _, err := io.WriteString(conn, line); err != nil {
			return
		}
	}
}

// caller is a client of the echo.
type caller struct {
	t     *testing.T
	conn  net.Conn
	lines *bufio.Reader
}

func call(t *testing.T, addr string) caller {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return caller{t, conn, bufio.NewReader(conn)}
}

func (c caller) say(line string) {
	c.t.Helper()
	_, err := io.WriteString(c.conn, line+"\n")
	require.NoError(c.t, err)
}

func (c caller) hear(line string) {
	c.t.Helper()
	require.NoError(c.t, c.conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	got, err := c.lines.ReadString('\n')
	require.NoError(c.t, err)
	require.Equal(c.t, line+"\n", got)
}

// hearNothing waits a little: that nothing comes cannot be seen faster.
func (c caller) hearNothing() {
	c.t.Helper()
	require.NoError(c.t, c.conn.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	_, err := c.lines.ReadByte()
	require.ErrorIs(c.t, err, os.ErrDeadlineExceeded)
}

func (c caller) hearTheEnd() {
	c.t.Helper()
	require.NoError(c.t, c.conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	_, err := c.lines.ReadByte()
	require.True(c.t, errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET), "%v", err)
}

func TestProxyPassesBothWays(t *testing.T) {
	c := call(t, NewProxy(t, startEcho(t).addr).Addr())

	c.say("a")
	c.hear("a")
	c.say("b")
	c.hear("b")
}

func TestPausedProxyAcceptsAndNeverAnswersUntilResume(t *testing.T) {
	e := startEcho(t)
	p := NewProxy(t, e.addr)
	old := call(t, p.Addr())
	old.say("before")
	old.hear("before")

	p.Pause()
	old.say("old")
	fresh := call(t, p.Addr())
	fresh.say("fresh")
	old.hearNothing()
	fresh.hearNothing()
	require.Equal(t, "before\n", <-e.got)
	require.Empty(t, e.got, "a black hole reaches nobody")

	p.Resume()
	old.hear("old")
	fresh.hear("fresh")
}

func TestDroppingProxyClosesWhatThereIsAndTakesNewConnections(t *testing.T) {
	p := NewProxy(t, startEcho(t).addr)
	old := call(t, p.Addr())
	old.say("a")
	old.hear("a")

	p.Drop()

	old.hearTheEnd()
	fresh := call(t, p.Addr())
	fresh.say("b")
	fresh.hear("b")
}

func TestDropEndsConnectionsThatArePaused(t *testing.T) {
	p := NewProxy(t, startEcho(t).addr)
	p.Pause()
	c := call(t, p.Addr())
	c.hearNothing()

	p.Drop()

	c.hearTheEnd()
}

func TestRefusingProxyRefusesUntilResumeOnTheSamePort(t *testing.T) {
	p := NewProxy(t, startEcho(t).addr)
	old := call(t, p.Addr())
	old.say("a")
	old.hear("a")

	p.Refuse()
	p.Refuse()
	old.hearTheEnd()
	_, err := net.Dial("tcp", p.Addr())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)

	p.Resume()
	fresh := call(t, p.Addr())
	fresh.say("b")
	fresh.hear("b")
}

func TestDelayMakesResponsesLateAndNotSlower(t *testing.T) {
	e := startEcho(t)
	p := NewProxy(t, e.addr)
	c := call(t, p.Addr())
	const late = 300 * time.Millisecond
	p.Delay(late)

	sent := time.Now()
	c.say("a")
	<-e.got
	require.Less(t, time.Since(sent), late, "the request is not delayed")
	c.say("b")
	<-e.got
	secondSent := time.Now()
	c.hear("a")
	require.GreaterOrEqual(t, time.Since(sent), late)
	c.hear("b")
	require.Less(t, time.Since(secondSent), 2*late, "delays do not add up")
}

func TestLostResponsesReachedTheTarget(t *testing.T) {
	e := startEcho(t)
	p := NewProxy(t, e.addr)
	hurt, idle := call(t, p.Addr()), call(t, p.Addr())
	idle.say("idle")
	idle.hear("idle")
	<-e.got

	p.DropResponses()
	hurt.say("a")
	require.Equal(t, "a\n", <-e.got)
	hurt.hearNothing()

	p.Resume()
	hurt.hearTheEnd()
	idle.say("b")
	idle.hear("b")
}

func TestProxyOfATargetThatIsDownClosesConnections(t *testing.T) {
	addr, err := freeAddr()
	require.NoError(t, err)

	c := call(t, NewProxy(t, addr).Addr())

	c.hearTheEnd()
}

func TestClosedProxyLeavesNothingBehind(t *testing.T) {
	for name, hurt := range map[string]func(*Proxy){
		"open":     func(*Proxy) {},
		"paused":   (*Proxy).Pause,
		"refusing": (*Proxy).Refuse,
		"lossy":    (*Proxy).DropResponses,
		"late":     func(p *Proxy) { p.Delay(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			e := startEcho(t)
			p := NewProxy(t, e.addr)
			c := call(t, p.Addr())
			c.say("a")
			c.hear("a")
			hurt(p)
			if name == "late" {
				c.say("b")
			}

			p.Close()
			p.Close()

			c.hearTheEnd()
			p.Resume()
			_, err := net.Dial("tcp", p.Addr())
			require.ErrorIs(t, err, syscall.ECONNREFUSED)
		})
	}
}
