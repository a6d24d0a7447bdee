package app

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"go.uber.org/zap"

	"delay-scheduler/config"
	"delay-scheduler/credential"
)

// guard lets through whoever sends the token.
type guard struct {
	token func() string // nil: everybody may ask for everything
}

func newGuard(c *config.HTTP, log *zap.Logger) (*guard, error) {
	switch {
	case c.TokenFile != "":
		file, err := credential.OpenSecret(c.TokenFile, reloaded(log, "http.token_file"))
		if err != nil {
			return nil, fmt.Errorf("http.token_file: %w", err)
		}
		return &guard{file.Now}, nil
	case c.Token != "":
		return &guard{c.Token.Reveal}, nil
	}
	return &guard{}, nil
}

// admits says whether a request has the token, or none is asked for. How long it takes
// says nothing of the token, not even its length.
func (g *guard) admits(r *http.Request) bool {
	if g.token == nil {
		return true
	}
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	want, got := sha256.Sum256([]byte(g.token())), sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

// around refuses requests without the token for all but the paths that are open: what
// is added later is guarded unless somebody decides otherwise.
func (g *guard) around(next http.Handler, open ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(open, r.URL.Path) && !g.admits(r) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "the token is missing or wrong: send it as Authorization: Bearer TOKEN (http.token_file has it)", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// serverTLS is how HTTP is encrypted, nil if it is not. Every connection gets the
// certificate that is in the files then.
func serverTLS(c *config.HTTPTLS, log *zap.Logger) (*tls.Config, error) {
	if !c.Enabled() {
		return nil, nil
	}
	pair, err := credential.OpenPair(c.CertFile, c.KeyFile, reloaded(log, "http.tls.cert_file"))
	if err != nil {
		return nil, fmt.Errorf("http.tls.cert_file: %w", err)
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.Now(), nil },
	}, nil
}

// reloaded says what has become of a file that was good once.
func reloaded(log *zap.Logger, key string) func(error) {
	return func(err error) {
		if err != nil {
			log.Warn("a file cannot be used as it is now: what was read before stays in use", zap.String("key", key), zap.Error(err))
			return
		}
		log.Info("the file can be used again", zap.String("key", key))
	}
}
