package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"delay-scheduler/config"
	"delay-scheduler/internal/testkafka"
)

// deaf is a process whose broker does not exist.
func deaf(t *testing.T, change func(*config.Config)) *running {
	t.Helper()
	c := settings(t, "127.0.0.1:1")
	c.HTTP.PProf = true
	change(c)
	require.NoError(t, c.Validate())
	r := run(t, c)
	t.Cleanup(func() { r.hush(); r.stop(); _ = r.ended(30 * time.Second) })
	require.Eventually(t, func() bool {
		r.health.mu.Lock()
		defer r.health.mu.Unlock()
		return r.health.phase == "running"
	}, 5*time.Second, time.Millisecond, "it attaches its own parts before")
	r.health.attach(func() (bool, string) { return true, "" }, func() []Trouble { return []Trouble{{Reason: "target", Subject: "secret-topic", Detail: "gone"}} })
	return r
}

// ask gives code and body.
func ask(t *testing.T, client *http.Client, url, authorization string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

func TestTokenGuardsAllButTheProbes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(path, []byte("geheim\n"), 0o600))
	r := deaf(t, func(c *config.Config) { c.HTTP.TokenFile = path })
	base := "http://" + r.Address()
	for _, guarded := range []string{"/metrics", "/v1/status", "/debug/pprof/", "/debug/pprof/profile?seconds=0", "/v1/later", "/", "//metrics", "/livez/../metrics", "/readyz/"} {
		for _, wrong := range []string{"", "Bearer", "Bearer ", "Bearer geheim2", "Bearer gehei", "Basic geheim", "geheim", "Bearer geheim\t2"} {
			code, body := ask(t, http.DefaultClient, base+guarded, wrong)
			require.Equal(t, http.StatusUnauthorized, code, "%s with %q: %s", guarded, wrong, body)
			require.NotContains(t, body, "secret-topic")
		}
	}
	for _, guarded := range []string{"/metrics", "/v1/status", "/debug/pprof/"} {
		code, _ := ask(t, http.DefaultClient, base+guarded, "bearer geheim")
		require.Equal(t, http.StatusOK, code, guarded)
	}
	code, _ := ask(t, http.DefaultClient, base+"/livez", "")
	require.Equal(t, http.StatusOK, code)

	require.NoError(t, os.WriteFile(path, []byte("neu"), 0o600))

	code, _ = ask(t, http.DefaultClient, base+"/metrics", "Bearer geheim")
	require.Equal(t, http.StatusUnauthorized, code)
	code, _ = ask(t, http.DefaultClient, base+"/metrics", "Bearer neu")
	require.Equal(t, http.StatusOK, code)
}

func TestReadinessNamesPartsInTroubleOnlyToWhoHasTheToken(t *testing.T) {
	r := deaf(t, func(c *config.Config) { c.HTTP.Token = "geheim" })
	url := "http://" + r.Address() + "/readyz"

	_, without := ask(t, http.DefaultClient, url, "")
	_, with := ask(t, http.DefaultClient, url, "Bearer geheim")

	require.NotContains(t, without, "secret-topic")
	require.Contains(t, without, `"degraded_parts": 1`)
	require.Contains(t, with, "secret-topic")
	code, _ := ask(t, http.DefaultClient, url+"?strict=1", "")
	require.Equal(t, http.StatusServiceUnavailable, code, "strict counts what it does not show")
}

func TestHTTPSShowsTheCertificateThatIsInTheFilesNow(t *testing.T) {
	authority := testkafka.NewAuthority(t)
	cert, key := authority.Issue(t, "first").Files(t)
	r := deaf(t, func(c *config.Config) { c.HTTP.TLS = config.HTTPTLS{CertFile: cert, KeyFile: key} })
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(authority.PEM()))
	shown := func() string {
		conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: pool}}).DialContext(t.Context(), "tcp", r.Address())
		require.NoError(t, err)
		defer conn.Close()
		return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	require.Equal(t, "first", shown())

	authority.Issue(t, "second").Write(t, cert, key)
	require.Equal(t, "second", shown())
	require.NoError(t, os.WriteFile(key, []byte("broken"), 0o600))

	require.Equal(t, "second", shown(), "a broken file keeps the last good one")
	code, _ := ask(t, http.DefaultClient, "http://"+r.Address()+"/livez", "")
	require.Equal(t, http.StatusBadRequest, code, "plain HTTP is refused")
}

func TestHealthIsAskedOverTLSAndWithTheToken(t *testing.T) {
	authority := testkafka.NewAuthority(t)
	cert, key := authority.Issue(t, "me", testkafka.ValidFor("orders.example")).Files(t)
	var c *config.Config
	r := deaf(t, func(own *config.Config) {
		c = own
		c.HTTP.TLS, c.HTTP.Token = config.HTTPTLS{CertFile: cert, KeyFile: key}, "geheim"
	})
	here := *c
	here.HTTP.Listen = r.Address()
	own, err := OwnHealth(&here)
	require.NoError(t, err)
	check := func(q HealthQuery) (Health, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		return CheckHealth(ctx, q)
	}

	h, err := check(own)
	require.NoError(t, err, "with its configuration neither authority nor name matters")
	require.Len(t, h.Degraded, 1)

	h, err = check(HealthQuery{URL: own.URL, CAFile: authority.File(t), ServerName: "orders.example"})
	require.NoError(t, err)
	require.Empty(t, h.Degraded)
	require.Equal(t, 1, h.DegradedParts)

	other, _ := authority.Issue(t, "other").Files(t)
	for _, wrong := range []HealthQuery{
		{URL: own.URL},
		{URL: own.URL, CAFile: authority.File(t)},
		{URL: own.URL, CAFile: testkafka.NewAuthority(t).File(t), ServerName: "orders.example"},
		{URL: own.URL, CertFile: other},
	} {
		_, err := check(wrong)
		require.Error(t, err, "%+v", wrong)
	}
}
