package testkafka

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// Mechanisms of SASL.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
)

// Listener is how clients have to connect.
type Listener struct {
	// TLS makes it encrypted, under a certificate of Cluster.Authority.
	TLS bool
	// ClientCert demands a certificate of Cluster.Authority from clients. Without SASL its
	// common name is the user.
	ClientCert bool
	// SASL are the mechanisms that clients have to log in by; none: they need not.
	SASL []string
	// Server changes the broker's own certificate.
	Server []Validity
}

// Anonymous is the user who has not logged in and shows no certificate.
const Anonymous = "ANONYMOUS"

// clientListener is the one of Addrs.
const clientListener = "CLIENT"

// WithTLS encrypts the clients' listener.
func WithTLS() Option { return func(s *settings) { s.clients(func(l *Listener) { l.TLS = true }) } }

// WithClientCert encrypts the clients' listener and demands a certificate from clients.
func WithClientCert() Option {
	return func(s *settings) { s.clients(func(l *Listener) { l.TLS, l.ClientCert = true, true }) }
}

// WithSASL makes clients log in by one of the mechanisms. The users are those of
// WithUser, and for SCRAM those of Cluster.SetPassword as well.
func WithSASL(mechanisms ...string) Option {
	return func(s *settings) { s.clients(func(l *Listener) { l.SASL = mechanisms }) }
}

// WithListener adds a listener beside the clients' own: see Cluster.ListenerAddrs. Its
// name is in capital letters.
func WithListener(name string, l Listener) Option {
	return func(s *settings) {
		s.listeners[name] = l
		s.secured = true
	}
}

// WithUser is somebody who can log in, by every mechanism.
func WithUser(name, password string) Option {
	return func(s *settings) { s.users[name] = password }
}

// WithACLs lets nobody do anything that Cluster.Grant did not grant, but for the cluster
// itself and the helpers of this package, which always connect as a super user. Who does
// not log in is the user Anonymous, and can be granted something as well.
func WithACLs() Option {
	return func(s *settings) { s.acls, s.secured = true, true }
}

func (s *settings) clients(change func(*Listener)) {
	l := s.listeners[clientListener]
	change(&l)
	s.listeners[clientListener] = l
	s.secured = true
}

// harness is who the cluster itself and this package are: a super user, on a listener of
// their own, so that no security of clients is in their way, and so that a client who is
// nobody is not taken for them.
const harness = "harness"

// secrets are what a secured server is made with.
type secrets struct {
	authority *Authority
	password  string // of harness
}

func newSecrets() (*secrets, error) {
	a, err := newAuthority()
	if err != nil {
		return nil, err
	}
	var random [16]byte
	_, _ = rand.Read(random[:]) // It never fails.
	return &secrets{authority: a, password: hex.EncodeToString(random[:])}, nil
}

// harnessOpts let a client in at the listener of the cluster itself.
func (s *Server) harnessOpts() []kgo.Opt {
	if s.secrets == nil {
		return nil
	}
	return []kgo.Opt{kgo.SASL(plain.Auth{User: harness, Pass: s.secrets.password}.AsMechanism())}
}

// protocol is the name of how the listener is secured.
func (l Listener) protocol() string {
	switch {
	case l.TLS && len(l.SASL) > 0:
		return "SASL_SSL"
	case l.TLS:
		return "SSL"
	case len(l.SASL) > 0:
		return "SASL_PLAINTEXT"
	}
	return "PLAINTEXT"
}

// secure writes the certificates of a node and gives its properties.
func (s settings) secure(n *node, secrets *secrets) (map[string]string, error) {
	jaas := fmt.Sprintf("org.apache.kafka.common.security.plain.PlainLoginModule required username=%q password=%q user_%s=%q;",
		harness, secrets.password, harness, secrets.password)
	p := map[string]string{
		"sasl.mechanism.inter.broker.protocol":           Plain,
		"sasl.mechanism.controller.protocol":             Plain,
		"listener.name.internal.sasl.enabled.mechanisms": Plain,
		"listener.name.internal.plain.sasl.jaas.config":  jaas,
		// The controller listens in the same way, and knows nobody but the brokers.
		"listener.name.controller.sasl.enabled.mechanisms": Plain,
		"listener.name.controller.plain.sasl.jaas.config":  jaas,
		"ssl.principal.mapping.rules":                      "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
	}
	if s.acls {
		p["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
		p["super.users"] = "User:" + harness
		p["allow.everyone.if.no.acl.found"] = "false"
	}
	protocols := []string{"INTERNAL:SASL_PLAINTEXT", "CONTROLLER:SASL_PLAINTEXT"}
	for _, name := range s.listenerNames() {
		l := s.listeners[name]
		protocols = append(protocols, name+":"+l.protocol())
		prefix := "listener.name." + strings.ToLower(name) + "."
		maps.Copy(p, s.sasl(l, prefix))
		if !l.TLS {
			continue
		}
		encrypted, err := l.encrypt(filepath.Join(n.dir, strings.ToLower(name)), prefix, secrets.authority)
		if err != nil {
			return nil, err
		}
		maps.Copy(p, encrypted)
	}
	p["listener.security.protocol.map"] = strings.Join(protocols, ",")
	return p, nil
}

func (s settings) sasl(l Listener, prefix string) map[string]string {
	if len(l.SASL) == 0 {
		return nil
	}
	p := map[string]string{prefix + "sasl.enabled.mechanisms": strings.Join(l.SASL, ",")}
	for _, mechanism := range l.SASL {
		key := prefix + strings.ToLower(mechanism) + ".sasl.jaas.config"
		p[key] = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
		if mechanism == Plain {
			var users strings.Builder
			for _, name := range slices.Sorted(maps.Keys(s.users)) {
				fmt.Fprintf(&users, " user_%s=%q", name, s.users[name])
			}
			p[key] = "org.apache.kafka.common.security.plain.PlainLoginModule required" + users.String() + ";"
		}
	}
	return p
}

func (l Listener) encrypt(dir, prefix string, a *Authority) (map[string]string, error) {
	server, err := a.issue("broker", l.Server...)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make a directory for keys: %w", err)
	}
	keystore, truststore := filepath.Join(dir, "keystore.pem"), filepath.Join(dir, "truststore.pem")
	for path, content := range map[string][]byte{
		keystore:   append(slices.Clone(server.Key), server.Cert...),
		truststore: a.pem,
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return nil, fmt.Errorf("write the keys of a listener: %w", err)
		}
	}
	auth := "none"
	if l.ClientCert {
		auth = "required"
	}
	return map[string]string{
		prefix + "ssl.keystore.type":       "PEM",
		prefix + "ssl.keystore.location":   keystore,
		prefix + "ssl.truststore.type":     "PEM",
		prefix + "ssl.truststore.location": truststore,
		prefix + "ssl.client.auth":         auth,
	}, nil
}

// listenerNames are those of clients, the first of them Addrs'.
func (s settings) listenerNames() []string {
	names := []string{clientListener}
	for _, name := range slices.Sorted(maps.Keys(s.listeners)) {
		if name != clientListener {
			names = append(names, name)
		}
	}
	return names
}
