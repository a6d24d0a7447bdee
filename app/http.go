package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

// server is the HTTP side: /livez, /readyz, /metrics, /v1/status and, when asked
// for, pprof.
type server struct {
	listener net.Listener
	http     *http.Server
	done     chan error
}

// listen binds the address at once, so that a port in use is told before anything
// else starts.
func listen(address string, routes http.Handler, encrypt *tls.Config, log *zap.Logger) (*server, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("serve HTTP on %s: the port is in use: set http.listen to another one (for instance 127.0.0.1:0): %w", address, err)
		}
		return nil, fmt.Errorf("serve HTTP on %q: %w: check http.listen", address, err)
	}
	// What strangers do to the port is of interest to nobody but who looks for it.
	complaints, err := zap.NewStdLogAt(log.Named("http"), zap.DebugLevel)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("serve HTTP: %w", err), l.Close())
	}
	s := &server{
		listener: l,
		http: &http.Server{
			Handler: routes, TLSConfig: encrypt, ErrorLog: complaints,
			ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		},
		done: make(chan error, 1),
	}
	go func() {
		if encrypt != nil {
			s.done <- s.http.ServeTLS(l, "", "")
			return
		}
		s.done <- s.http.Serve(l)
	}()
	return s, nil
}

func (s *server) address() string { return s.listener.Addr().String() }

func (s *server) stop(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	if serr := <-s.done; !errors.Is(serr, http.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	return err
}

// routes are all paths that the process answers.
func (a *App) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.HandleFunc("GET /v1/status", a.status)
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.registry, promhttp.HandlerOpts{Registry: prometheus.NewRegistry()}))
	if a.config.HTTP.PProf {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	}
	return a.guard.around(mux, "/livez", "/readyz")
}

// readyz is 503 only when the process as a whole cannot work; with ?strict=1 also
// when it is degraded. Which parts are in trouble is for those who have the token.
func (a *App) readyz(w http.ResponseWriter, r *http.Request) {
	h := a.health.now()
	code := http.StatusOK
	if !h.Ready || (r.URL.Query().Get("strict") == "1" && len(h.Degraded) > 0) {
		code = http.StatusServiceUnavailable
	}
	if !a.guard.admits(r) {
		h.Degraded = nil
	}
	writeJSON(w, code, h)
}

func (a *App) status(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, a.Status()) }

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = EncodeJSON(w, v) // the client is gone: nothing to be done
}
