package credential

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// OpenAuthorities reads the certificates of authorities, as PEM.
func OpenAuthorities(path string, report func(error)) (*File[*x509.CertPool], error) {
	return open(report, parseAuthorities, path)
}

func parseAuthorities(contents ...[]byte) (*x509.CertPool, error) {
	pool, found := x509.NewCertPool(), 0
	for rest := contents[0]; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", found+1, err)
		}
		pool.AddCert(certificate)
		found++
	}
	if found == 0 {
		return nil, errors.New("there is no PEM certificate in it")
	}
	return pool, nil
}

// OpenPair reads a certificate, with those that lead to its authority, and its private
// key, each as PEM.
func OpenPair(cert, key string, report func(error)) (*File[*tls.Certificate], error) {
	return open(report, parsePair, cert, key)
}

func parsePair(contents ...[]byte) (*tls.Certificate, error) {
	if bytes.Contains(contents[1], []byte("ENCRYPTED")) {
		return nil, errors.New("the key is encrypted: store it without a passphrase, readable by this process only")
	}
	pair, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return nil, fmt.Errorf("certificate and key: %w", err)
	}
	return &pair, nil
}

// OpenSecret reads a password or token: the whole file but for line breaks at its end.
func OpenSecret(path string, report func(error)) (*File[string], error) {
	return open(report, parseSecret, path)
}

func parseSecret(contents ...[]byte) (string, error) {
	text := bytes.TrimRight(contents[0], "\r\n")
	switch {
	case len(text) == 0:
		return "", errors.New("it is empty")
	case bytes.ContainsAny(text, "\r\n\x00"):
		return "", errors.New("it has more than one line: want nothing but the secret")
	}
	return string(text), nil
}
