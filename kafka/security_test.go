package kafka

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"delay-scheduler/internal/testkafka"
)

func TestSecurityNamesAllThatIsWrongByItsKey(t *testing.T) {
	err := Options{Brokers: []string{"a:1"}, Security: NewSecurity(SecurityOptions{
		TLS: true, CAFile: "/none/ca", CertFile: "/none/cert", KeyFile: "/none/key", Mechanism: "gssapi",
	}, zap.NewNop())}.validate()
	for _, want := range []string{`SASL mechanism "gssapi"`, "kafka.tls.ca_file: read /none/ca: ", "kafka.tls.cert_file: read /none/cert: "} {
		require.ErrorContains(t, err, want)
	}
	err = Options{Brokers: []string{"a:1"}, Security: NewSecurity(SecurityOptions{Mechanism: "plain", PasswordFile: "/none/pw"}, zap.NewNop())}.validate()
	require.ErrorContains(t, err, "kafka.sasl.password_file: read /none/pw: ")
	require.Nil(t, NewSecurity(SecurityOptions{Mechanism: "none"}, zap.NewNop()))
}

func TestEveryConnectionHasThePasswordOfThatMoment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(path, []byte("first"), 0o600))
	o := Options{Brokers: []string{"a:1"}, Security: NewSecurity(SecurityOptions{Mechanism: "plain", Username: "me", PasswordFile: path}, zap.NewNop())}
	role := o.config("fetch")
	require.NoError(t, role.Validate())
	require.Equal(t, "first", role.Net.SASL.Password)

	require.NoError(t, os.WriteFile(path, []byte("second"), 0o600))

	require.Equal(t, "second", newLink(role, "a:1").config.Net.SASL.Password)
	require.Equal(t, "second", newProduceLink("a:1", role).config.Net.SASL.Password)
	require.Equal(t, "first", role.Net.SASL.Password, "what other connections read is not changed")
}

// server is a listener that does something with each connection.
func server(t *testing.T, serve func(net.Conn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serve(conn)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

// greeted ends a TLS connection after the handshake.
func greeted(t *testing.T, c testkafka.Certificate) func(net.Conn) {
	pair, err := tls.X509KeyPair(c.Cert, c.Key)
	require.NoError(t, err)
	return func(conn net.Conn) {
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		_ = tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}).Handshake()
	}
}

func TestTroubleWithCertificatesNamesTheKeyToLookAt(t *testing.T) {
	authority, stranger := testkafka.NewAuthority(t), testkafka.NewAuthority(t)
	ca := authority.File(t)
	oldCert, oldKey := authority.Issue(t, "me", testkafka.Expired()).Files(t)
	good := authority.Issue(t, "broker")
	hangUp := func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) }
	for name, tt := range map[string]struct {
		serve func(net.Conn)
		o     SecurityOptions
		want  string
	}{
		"unknown authority": {greeted(t, stranger.Issue(t, "broker")), SecurityOptions{CAFile: ca}, "no authority in kafka.tls.ca_file has signed the broker's certificate: check " + ca},
		"system's":          {greeted(t, good), SecurityOptions{}, "set kafka.tls.ca_file"},
		"expired":           {greeted(t, authority.Issue(t, "broker", testkafka.Expired())), SecurityOptions{CAFile: ca}, "the broker's certificate is good from "},
		"name":              {greeted(t, authority.Issue(t, "broker", testkafka.ValidFor("kafka.example"))), SecurityOptions{CAFile: ca}, `is good for ["kafka.example"] and not for "127.0.0.1": set kafka.tls.server_name`},
		"server_name":       {greeted(t, good), SecurityOptions{CAFile: ca, ServerName: "other.example"}, `and not for "other.example": set kafka.tls.server_name`},
		"plaintext port":    {hangUp, SecurityOptions{CAFile: ca}, "does not speak TLS at that port: check kafka.tls.enabled and the port in kafka.brokers"},
		"ours expired":      {greeted(t, good), SecurityOptions{CAFile: ca, CertFile: oldCert, KeyFile: oldKey}, "our own certificate expired at "},
		"wants ours":        {greeted(t, good), SecurityOptions{CAFile: ca}, "set kafka.tls.cert_file and kafka.tls.key_file"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.o.TLS = true
			addr := server(t, tt.serve)
			config := Options{Brokers: []string{addr}, Security: NewSecurity(tt.o, zap.NewNop())}.config("test")

			require.ErrorContains(t, newLink(config, addr).open(5*time.Second), tt.want)
			p := newProduceLink(addr, config)
			defer p.close()
			require.ErrorContains(t, p.open(5*time.Second), tt.want)
		})
	}
	t.Run("TLS port without TLS", func(t *testing.T) {
		addr := server(t, greeted(t, good))
		config := Options{Brokers: []string{addr}}.config("test")
		require.ErrorContains(t, newLink(config, addr).open(5*time.Second), "if it speaks TLS at that port, set kafka.tls.enabled")
	})
}

func TestHandshakeIsInterruptedWithItsConnection(t *testing.T) {
	silent := make(chan struct{})
	addr := server(t, func(net.Conn) { <-silent })
	defer close(silent)
	config := Options{Brokers: []string{addr}, Security: NewSecurity(SecurityOptions{TLS: true}, zap.NewNop())}.config("test")
	l := newLink(config, addr)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	context.AfterFunc(ctx, l.wire.cut)

	began := time.Now()
	require.Error(t, l.open(time.Minute))

	require.Less(t, time.Since(began), dialTimeout/2)
}

func TestGoodbyeOverTLSIsNoticedBeforeARequest(t *testing.T) {
	authority := testkafka.NewAuthority(t)
	issued := authority.Issue(t, "broker")
	pair, err := tls.X509KeyPair(issued.Cert, issued.Key)
	require.NoError(t, err)
	end := make(chan struct{})
	addr := server(t, func(conn net.Conn) {
		encrypted := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true})
		_ = encrypted.Handshake()
		<-end
		_ = encrypted.CloseWrite() // the connection itself stays open
		_, _ = conn.Read(make([]byte, 1))
	})
	s := NewSecurity(SecurityOptions{TLS: true, CAFile: authority.File(t)}, zap.NewNop())
	conn, err := (&securedDialer{security: s}).Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	require.False(t, hungUp(conn))

	close(end)

	require.Eventually(t, func() bool { return hungUp(conn) }, 5*time.Second, time.Millisecond)
}
