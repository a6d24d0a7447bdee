package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"

	"github.com/IBM/sarama"
	"go.uber.org/zap"

	"delay-scheduler/credential"
)

// SecurityOptions are how connections are encrypted and how we log in. All files are
// read again for every connection.
type SecurityOptions struct {
	// TLS encrypts connections.
	TLS bool
	// CAFile has the authorities of the brokers' certificates. Empty: the system's.
	CAFile string
	// CertFile and KeyFile are our own certificate. Empty: none.
	CertFile, KeyFile string
	// ServerName is what the brokers' certificates must be good for. Empty: their hosts.
	ServerName string
	// Mechanism is plain, scram-sha-256 or scram-sha-512; none or empty: no login.
	Mechanism string
	// Username is who logs in.
	Username string
	// Password gives the password. It is a function so that printing the options does not
	// show it. Nil: it is in PasswordFile.
	Password     func() string
	PasswordFile string
}

// Security keeps what connections of all roles need of SecurityOptions.
type Security struct {
	opts        SecurityOptions
	mechanism   sarama.SASLMechanism // "": no login
	authorities *credential.File[*x509.CertPool]
	pair        *credential.File[*tls.Certificate]
	password    func() string
	err         error // what is wrong with the options; validate tells
}

var mechanisms = map[string]sarama.SASLMechanism{
	"": "", "none": "",
	"plain":         sarama.SASLTypePlaintext,
	"scram-sha-256": sarama.SASLTypeSCRAMSHA256,
	"scram-sha-512": sarama.SASLTypeSCRAMSHA512,
}

// NewSecurity reads all files once. If one of them cannot be used later, the last good
// one stays in use and the log says so, once. What is wrong with the options is told by
// whatever is made with them. Nil, if nothing is asked for, is neither encrypted nor
// logged in.
func NewSecurity(o SecurityOptions, log *zap.Logger) *Security {
	if !o.TLS && (o.Mechanism == "" || o.Mechanism == "none") {
		return nil
	}
	s := &Security{opts: o, password: o.Password}
	log = log.Named("security")
	var errs []error
	var err error
	var known bool
	if s.mechanism, known = mechanisms[o.Mechanism]; !known {
		errs = append(errs, fmt.Errorf("SASL mechanism %q is none that is known: check kafka.sasl.mechanism", o.Mechanism))
	}
	if o.TLS && o.CAFile != "" {
		s.authorities, err = credential.OpenAuthorities(o.CAFile, reload(log, "kafka.tls.ca_file"))
		errs = append(errs, named("kafka.tls.ca_file", err))
	}
	if o.TLS && o.CertFile != "" {
		s.pair, err = credential.OpenPair(o.CertFile, o.KeyFile, reload(log, "kafka.tls.cert_file"))
		errs = append(errs, named("kafka.tls.cert_file", err))
	}
	if s.mechanism != "" && s.password == nil {
		var file *credential.File[string]
		file, err = credential.OpenSecret(o.PasswordFile, reload(log, "kafka.sasl.password_file"))
		if errs = append(errs, named("kafka.sasl.password_file", err)); err == nil {
			s.password = file.Now
		}
	}
	s.err = errors.Join(errs...)
	return s
}

func named(key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", key, err)
}

// reload says what has become of a file that was good once.
func reload(log *zap.Logger, key string) func(error) {
	return func(err error) {
		if err != nil {
			log.Warn("a file cannot be used as it is now: what was read before stays in use", zap.String("key", key), zap.Error(err))
			return
		}
		log.Info("the file can be used again", zap.String("key", key))
	}
}

// apply makes a role's configuration use it. It and newLink and newProduceLink are where
// encryption and login are set, for every connection that there is.
//
// TLS is not left to the library: there a handshake that fails on the certificate counts
// as a connection that was opened.
func (s *Security) apply(c *sarama.Config, base Dialer) {
	c.Net.Proxy.Enable = true
	c.Net.Proxy.Dialer = &securedDialer{security: s, base: base}
	s.login(c)
}

// login puts the credentials as they are now into a configuration.
func (s *Security) login(c *sarama.Config) {
	if s.mechanism == "" {
		return
	}
	c.Net.SASL.Enable = true
	c.Net.SASL.Mechanism = s.mechanism
	c.Net.SASL.User = s.opts.Username
	c.Net.SASL.Password = s.password()
	c.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
		return &scramClient{hash: scramHashes[s.mechanism], password: s.password}
	}
}

// config is how to encrypt a connection to a host, with the files as they are now.
func (s *Security) config(host string) *tls.Config {
	c := &tls.Config{ServerName: s.opts.ServerName, MinVersion: tls.VersionTLS12}
	if c.ServerName == "" {
		c.ServerName = host
	}
	if s.authorities != nil {
		c.RootCAs = s.authorities.Now()
	}
	if s.pair != nil {
		// Given even if no authority that the broker names has signed it: its refusal says
		// more than its complaint that there is none.
		pair := s.pair.Now()
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair, nil }
	}
	return c
}

// contextDialer is a Dialer that can be interrupted.
type contextDialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// dialWith uses a dialer so that the end of ctx interrupts it, if it can be interrupted.
func dialWith(ctx context.Context, d Dialer, network, address string) (net.Conn, error) {
	if c, ok := d.(contextDialer); ok {
		return c.DialContext(ctx, network, address)
	}
	return d.Dial(network, address)
}

// securedDialer encrypts what another dialer opens.
type securedDialer struct {
	security *Security
	base     Dialer // nil: plain TCP
}

// Dial implements Dialer.
func (d *securedDialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialContext implements contextDialer.
func (d *securedDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	base := d.base
	if base == nil {
		base = &net.Dialer{}
	}
	conn, err := dialWith(ctx, base, network, address)
	if err != nil || !d.security.opts.TLS {
		return conn, err
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	encrypted := tls.Client(conn, d.security.config(host))
	if err := encrypted.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // What went wrong is known.
		return nil, &handshakeError{err}
	}
	return encrypted, nil
}

// securityOf is what a role's configuration was made with, nil if nothing.
func securityOf(d Dialer) *Security {
	if secured, ok := d.(*securedDialer); ok {
		return secured.security
	}
	return nil
}

// forConnection copies a role's configuration for one connection, with the credentials
// as they are now.
func forConnection(config *sarama.Config) sarama.Config {
	c := *config
	if !c.Net.Proxy.Enable {
		return c
	}
	if s := securityOf(c.Net.Proxy.Dialer); s != nil {
		s.login(&c)
	}
	return c
}
