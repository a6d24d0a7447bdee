package testkafka

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Authority issues certificates: those of a secured broker (Cluster.Authority), or those
// that a secured broker does not trust (NewAuthority).
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// Certificate is one with its private key, as PEM.
type Certificate struct{ Cert, Key []byte }

// Validity changes when or for whom a certificate is good.
type Validity func(*x509.Certificate)

// Expired makes a certificate that was good until an hour ago.
func Expired() Validity {
	return func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }
}

// ValidFor replaces the names that a server's certificate is good for.
func ValidFor(names ...string) Validity {
	return func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = names, nil }
}

// NewAuthority makes an authority that nobody trusts yet.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a, err := newAuthority()
	require.NoError(t, err)
	return a
}

func newAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	template := certificate("test authority")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read our own certificate: %w", err)
	}
	return &Authority{cert: cert, key: key, pem: encode("CERTIFICATE", der)}, nil
}

// certificate is good for an hour, with air for clocks, and for a broker of this machine.
func certificate(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62)) // It never fails.
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-24 * time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
}

// PEM is the authority's own certificate.
func (a *Authority) PEM() []byte { return a.pem }

// Issue makes a certificate. Its common name is the user whom a broker takes its owner
// for; as a server's it is good for localhost and 127.0.0.1.
func (a *Authority) Issue(t testing.TB, name string, as ...Validity) Certificate {
	t.Helper()
	c, err := a.issue(name, as...)
	require.NoError(t, err)
	return c
}

func (a *Authority) issue(name string, as ...Validity) (Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Certificate{}, fmt.Errorf("make a key: %w", err)
	}
	template := certificate(name)
	for _, change := range as {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Certificate{}, fmt.Errorf("issue a certificate for %s: %w", name, err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Certificate{}, fmt.Errorf("encode a key: %w", err)
	}
	return Certificate{Cert: encode("CERTIFICATE", der), Key: encode("PRIVATE KEY", private)}, nil
}

// Files writes the certificate and its key into a directory of the test's.
func (c Certificate) Files(t testing.TB) (cert, key string) {
	t.Helper()
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	c.Write(t, cert, key)
	return cert, key
}

// Write writes the certificate and its key, over what is there.
func (c Certificate) Write(t testing.TB, cert, key string) {
	t.Helper()
	require.NoError(t, os.WriteFile(cert, c.Cert, 0o600))
	require.NoError(t, os.WriteFile(key, c.Key, 0o600))
}

// File writes the authority's certificate into a directory of the test's.
func (a *Authority) File(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(path, a.pem, 0o600))
	return path
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
