package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/IBM/sarama"
)

// handshakeError is a TLS handshake that failed before the broker was known.
type handshakeError struct{ err error }

// Error implements error.
func (e *handshakeError) Error() string { return "TLS handshake: " + e.err.Error() }

// Unwrap gives the original.
func (e *handshakeError) Unwrap() error { return e.err }

// explainOpening says why a connection could not be opened, with the key of the
// configuration to look at, or gives the error back if it has nothing to do with
// encryption and login. The text is the same for every occurrence of the same trouble.
func explainOpening(d Dialer, err error) error {
	s := securityOf(d)
	if text := explainLogin(s, err); text != "" {
		return &transportError{text: text, named: true, err: err}
	}
	switch {
	case s != nil && s.opts.TLS:
		if text := s.explainTLS(err); text != "" {
			return &transportError{text: text, named: true, err: err}
		}
	case hungUpOn(err):
		return &transportError{text: "the broker closed the connection at once: if it speaks TLS at that port, set kafka.tls.enabled", named: true, err: err}
	}
	return err
}

// explainFirst is explainOpening for the first request of a connection: where a login is
// wanted and there was none, that is what the broker hangs up on.
func explainFirst(d Dialer, err error) error {
	if s := securityOf(d); hungUpOn(err) && (s == nil || s.mechanism == "") {
		return &transportError{text: "the broker closed the connection at the first request: if it wants a login at that port, set kafka.sasl.mechanism", named: true, err: err}
	}
	return err
}

// hungUpOn says that the broker has ended the connection, or said something that is no
// answer, such as an alert of TLS.
func hungUpOn(err error) bool {
	var garbled sarama.PacketDecodingError
	return errors.As(err, &garbled) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func explainLogin(s *Security, err error) string {
	var ours *loginError
	switch {
	case s == nil || s.mechanism == "":
		return ""
	case errors.Is(err, sarama.ErrSASLAuthenticationFailed):
		return fmt.Sprintf("the broker refuses the login of %q: check kafka.sasl.username and %s", s.opts.Username, s.passwordKey())
	case errors.Is(err, sarama.ErrUnsupportedSASLMechanism):
		return fmt.Sprintf("the broker does not take logins by %s at that port: check kafka.sasl.mechanism", s.opts.Mechanism)
	case errors.Is(err, sarama.ErrIllegalSASLState):
		return "the broker takes no login at that port: set kafka.sasl.mechanism to none, or another port in kafka.brokers"
	case errors.As(err, &ours):
		return fmt.Sprintf("the broker does not prove that it knows the password of %q: check kafka.sasl.username and %s", s.opts.Username, s.passwordKey())
	}
	return ""
}

// passwordKey is the key that the password comes from.
func (s *Security) passwordKey() string {
	if s.opts.Password == nil {
		return "kafka.sasl.password_file"
	}
	return "kafka.sasl.password"
}

func (s *Security) explainTLS(err error) string {
	if text := s.explainCertificate(err); text != "" {
		return text
	}
	var handshake *handshakeError
	var header tls.RecordHeaderError
	var remote *net.OpError
	refused := errors.As(err, &remote) && remote.Op == "remote error"
	switch closed := hungUpOn(err); {
	case (refused || closed) && s.expired() != "":
		return s.expired()
	case refused && s.pair == nil:
		return fmt.Sprintf("the broker ended the TLS handshake (%v): if it wants a certificate of ours, set kafka.tls.cert_file and kafka.tls.key_file", remote.Err)
	case refused:
		return fmt.Sprintf("the broker refuses our certificate (%v): check kafka.tls.cert_file and kafka.tls.key_file", remote.Err)
	case errors.As(err, &header), closed && errors.As(err, &handshake):
		return "the broker does not speak TLS at that port: check kafka.tls.enabled and the port in kafka.brokers"
	case closed && s.pair == nil:
		return "the broker closed the connection after the TLS handshake: if it wants a certificate of ours, set kafka.tls.cert_file and kafka.tls.key_file"
	case closed:
		return "the broker closed the connection after the TLS handshake: check whether it takes the certificate in kafka.tls.cert_file"
	}
	return ""
}

// explainCertificate is about the broker's certificate.
func (s *Security) explainCertificate(err error) string {
	var name x509.HostnameError
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var other *tls.CertificateVerificationError
	switch {
	case errors.As(err, &name):
		return fmt.Sprintf("the broker's certificate is good for %s and not for %q: set kafka.tls.server_name, or reach the broker by such a name in kafka.brokers", namesOf(name.Certificate), name.Host)
	case errors.As(err, &unknown) && s.authorities == nil:
		return "no authority that this system trusts has signed the broker's certificate: set kafka.tls.ca_file"
	case errors.As(err, &unknown):
		return "no authority in kafka.tls.ca_file has signed the broker's certificate: check " + s.opts.CAFile
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert.IsCA:
		return fmt.Sprintf("the authority of the broker's certificate is good from %s to %s only: check kafka.tls.ca_file and the clock of this machine", day(invalid.Cert.NotBefore), day(invalid.Cert.NotAfter))
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Sprintf("the broker's certificate is good from %s to %s only: renew it on the broker (kafka.tls.ca_file is not to blame), or check the clock of this machine", day(invalid.Cert.NotBefore), day(invalid.Cert.NotAfter))
	case errors.As(err, &other):
		return fmt.Sprintf("the broker's certificate cannot be accepted (%v): check kafka.tls.ca_file", other.Err)
	}
	return ""
}

// expired says that our own certificate has expired; "" if it has not.
func (s *Security) expired() string {
	if s.pair == nil {
		return ""
	}
	leaf := s.pair.Now().Leaf
	if leaf == nil || time.Now().Before(leaf.NotAfter) {
		return ""
	}
	return fmt.Sprintf("our own certificate expired at %s: renew kafka.tls.cert_file (%s)", day(leaf.NotAfter), s.opts.CertFile)
}

func day(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// namesOf lists what a certificate is good for: a few of the names, as they may be
// anything.
func namesOf(c *x509.Certificate) string {
	const most = 5
	names := append([]string(nil), c.DNSNames...)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) > most {
		return fmt.Sprintf("%q and %d more", names[:most], len(names)-most)
	}
	return fmt.Sprintf("%q", names)
}
