package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"

	"delay-scheduler/config"
	"delay-scheduler/credential"
)

// HealthQuery is where and how to ask a running process for its health.
type HealthQuery struct {
	URL string
	// Token is what the process asks for; without it, it does not say what is degraded.
	Token string
	// CAFile has the authorities of its certificate. Empty: the system's.
	CAFile string
	// ServerName is what its certificate must be good for. Empty: the URL's host.
	ServerName string
	// CertFile is the very certificate that it has. Not empty: neither an authority nor a
	// name matters.
	CertFile string
}

// OwnHealth is how to ask the process that runs with a configuration on this machine.
func OwnHealth(c *config.Config) (HealthQuery, error) {
	host, port, err := net.SplitHostPort(c.HTTP.Listen)
	if err != nil {
		return HealthQuery{}, fmt.Errorf("%w: http.listen is %q", ErrAddress, c.HTTP.Listen)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	q := HealthQuery{URL: "http://" + net.JoinHostPort(host, port), Token: c.HTTP.Token.Reveal(), CertFile: c.HTTP.TLS.CertFile}
	if c.HTTP.TLS.Enabled() {
		q.URL = "https://" + net.JoinHostPort(host, port)
	}
	if c.HTTP.TokenFile != "" {
		file, err := credential.OpenSecret(c.HTTP.TokenFile, nil)
		if err != nil {
			return HealthQuery{}, fmt.Errorf("http.token_file: %w", err)
		}
		q.Token = file.Now()
	}
	return q, nil
}

// client verifies the process as the query wants it.
func (q HealthQuery) client() (*http.Client, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: q.ServerName}
	if q.CAFile != "" {
		file, err := credential.OpenAuthorities(q.CAFile, nil)
		if err != nil {
			return nil, err
		}
		c.RootCAs = file.Now()
	}
	if q.CertFile != "" && q.CAFile == "" && q.ServerName == "" {
		own, err := os.ReadFile(q.CertFile)
		if err != nil {
			return nil, fmt.Errorf("read http.tls.cert_file: %w", err)
		}
		c.InsecureSkipVerify = true // Replaced by a stricter check: it is this one or none.
		c.VerifyConnection = func(s tls.ConnectionState) error {
			leaf := firstCertificate(own)
			if leaf == nil || len(s.PeerCertificates) == 0 || !bytes.Equal(leaf, s.PeerCertificates[0].Raw) {
				return errors.New("its certificate is not the one in http.tls.cert_file")
			}
			return nil
		}
	}
	return &http.Client{
		Transport: &http.Transport{TLSClientConfig: c, DisableKeepAlives: true},
		// A redirect would carry the token somewhere else; a scheduler has none.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// firstCertificate is a file's own certificate, nil if there is none.
func firstCertificate(text []byte) []byte {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return block.Bytes
		}
	}
	return nil
}

// CheckHealth asks a running process for its health. The error says that there was no
// answer that could be understood.
func CheckHealth(ctx context.Context, q HealthQuery) (Health, error) {
	u, err := url.Parse(q.URL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return Health{}, fmt.Errorf("%w: %q, such as http://127.0.0.1:8080", ErrAddress, q.URL)
	}
	u = u.JoinPath("readyz")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return Health{}, fmt.Errorf("ask %s: %w", u, err)
	}
	if q.Token != "" {
		req.Header.Set("Authorization", "Bearer "+q.Token)
	}
	client, err := q.client()
	if err != nil {
		return Health{}, fmt.Errorf("ask %s: %w", u, err)
	}
	resp, err := client.Do(req)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return Health{}, fmt.Errorf("ask %s: nothing listens there (is the scheduler running, and http.listen this address?)", u)
	case err != nil:
		return Health{}, fmt.Errorf("ask %s: %w", u, err)
	}
	defer func() { _ = resp.Body.Close() }()
	const most = 4 << 20
	body, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return Health{}, fmt.Errorf("ask %s: %w", u, err)
	}
	var h Health
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusServiceUnavailable {
		return Health{}, fmt.Errorf("ask %s: the answer is %s: is this a scheduler?", u, resp.Status)
	}
	if err := json.Unmarshal(body, &h); err != nil {
		return Health{}, fmt.Errorf("ask %s: the answer is not a scheduler's: %w", u, err)
	}
	return h, nil
}

// ErrAddress says that an address is no URL of a scheduler.
var ErrAddress = errors.New("want the address of a scheduler's HTTP server")
