package security

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"delay-scheduler/app"
	"delay-scheduler/config"
	"delay-scheduler/internal/testkafka"
)

func TestMain(m *testing.M) {
	// The client library starts this one and has no way to stop it.
	goleak.VerifyTestMain(testkafka.Suite(m), goleak.IgnoreAnyFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

// patience is for what takes a moment on an idle machine, and is spent only on failure.
const patience = 90 * time.Second

// Listeners of the broker beside the one of Addrs, which takes a certificate and a login
// by SCRAM, and has a proxy in front of it.
const (
	logins    = "LOGINS"    // TLS and any mechanism
	mutual    = "MUTUAL"    // TLS and a certificate
	outdated  = "OUTDATED"  // as logins, under a certificate that has expired
	plaintext = "PLAINTEXT" // neither
	unsafe    = "UNSAFE"    // any mechanism without TLS
)

// Passwords of users. None of them may be printed anywhere.
const (
	user     = "delayer"
	password = "Geheim-0815"
	changed  = "Geheim-4711"
)

func start(t *testing.T) *testkafka.Cluster {
	all := []string{testkafka.Plain, testkafka.ScramSHA256, testkafka.ScramSHA512}
	return testkafka.Start(t,
		testkafka.WithProxy(), testkafka.WithClientCert(), testkafka.WithSASL(testkafka.ScramSHA512), testkafka.WithACLs(),
		// Each login there is good for as long: it has to be repeated within the tests.
		testkafka.WithProperty("listener.name.client.connections.max.reauth.ms", "3000"),
		testkafka.WithUser(user, password), testkafka.WithUser("rotating", password),
		testkafka.WithUser("scheduler", password), testkafka.WithUser("admin", changed),
		testkafka.WithListener(logins, testkafka.Listener{TLS: true, SASL: all}),
		testkafka.WithListener(mutual, testkafka.Listener{TLS: true, ClientCert: true}),
		testkafka.WithListener(outdated, testkafka.Listener{TLS: true, SASL: all, Server: []testkafka.Validity{testkafka.Expired()}}),
		testkafka.WithListener(unsafe, testkafka.Listener{SASL: all}),
		testkafka.WithListener(plaintext, testkafka.Listener{}),
	)
}

// world is topics and a group of one test's own, and what the user of its process may do.
type world struct {
	t      *testing.T
	broker *testkafka.Cluster
	name   string
	dir    string
}

func newWorld(t *testing.T, b *testkafka.Cluster, user string) *world {
	t.Helper()
	w := &world{t: t, broker: b, name: testkafka.UniqueName(t), dir: t.TempDir()}
	for _, topic := range []string{w.source(), w.target(), w.name + "-dlq"} {
		b.CreateTopic(topic, 1, testkafka.LogAppendTime())
	}
	b.Grant(w.accesses(user)...)
	return w
}

// accesses are what a process needs.
func (w *world) accesses(user string) []testkafka.Access {
	return []testkafka.Access{
		{User: user, Topic: w.source(), Operation: kadm.OpRead},
		{User: user, Topic: w.target(), Operation: kadm.OpWrite},
		{User: user, Topic: w.name + "-dlq", Operation: kadm.OpWrite},
		{User: user, Group: w.name, Operation: kadm.OpRead},
	}
}

func (w *world) source() string { return w.name + "-delay" }
func (w *world) target() string { return w.name }

// file writes one of the files that a configuration names.
func (w *world) file(name, text string) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	require.NoError(w.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// settings connect to a listener, "" for the one of Addrs, by TLS and SCRAM.
func (w *world) settings(listener string) *config.Config {
	w.t.Helper()
	c := config.Default()
	c.Kafka.Brokers = w.broker.Addrs()
	if listener != "" {
		c.Kafka.Brokers = w.broker.ListenerAddrs(listener)
	}
	c.Kafka.MetadataRefresh = time.Second
	c.Kafka.TLS = config.KafkaTLS{Enabled: true, CAFile: w.file("ca.pem", string(w.broker.Authority().PEM()))}
	c.Kafka.SASL = config.SASL{Mechanism: "scram-sha-512", Username: user, PasswordFile: w.file("password", password)}
	c.Group.ID, c.Group.SessionTimeout = w.name, 6*time.Second
	c.Sources = c.Sources[:1]
	c.Sources[0].Topics = []string{w.source()}
	c.HTTP.Listen = "127.0.0.1:0"
	return c
}

// process is an app that runs here.
type process struct {
	*app.App
	w    *world
	stop context.CancelFunc
	done chan error // closed at the end
	log  *record
}

// record keeps what was logged.
type record struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.Write(p)
}

func (r *record) Sync() error { return nil }

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.String()
}

func (w *world) run(c *config.Config) *process {
	w.t.Helper()
	require.NoError(w.t, c.Validate())
	log := &record{}
	a, err := app.New(c, "test", zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), log, zap.DebugLevel)))
	require.NoError(w.t, err)
	ctx, stop := context.WithCancel(context.Background())
	p := &process{App: a, w: w, stop: stop, done: make(chan error, 1), log: log}
	go func() {
		defer close(p.done)
		p.done <- a.Run(ctx, context.Background())
	}()
	w.t.Cleanup(p.end)
	return p
}

// end stops the process, unless it was stopped, and looks for passwords in all that it said.
func (p *process) end() {
	p.stop()
	select {
	case err := <-p.done:
		require.NoError(p.w.t, err)
	case <-time.After(patience):
		require.Fail(p.w.t, "the process did not end")
	}
	said := p.log.String()
	if p.w.t.Failed() {
		p.w.t.Logf("the scheduler said:\n%s", said)
	}
	require.NotContains(p.w.t, said, "Geheim-")
}

// health asks over HTTP, as others would.
func (p *process) health() (h app.Health) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+p.Address()+"/readyz", nil)
	require.NoError(p.w.t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(p.w.t, err)
	defer resp.Body.Close()
	require.NoError(p.w.t, json.NewDecoder(resp.Body).Decode(&h))
	return h
}

func (p *process) ready() {
	p.w.t.Helper()
	require.Eventually(p.w.t, func() bool { return p.health().Ready }, patience, 20*time.Millisecond, "not ready")
}

// unready waits until the process says that it is not ready and why.
func (p *process) unready(why string) {
	p.w.t.Helper()
	var last string
	require.Eventually(p.w.t, func() bool {
		h := p.health()
		last = h.Why
		return !h.Ready && strings.Contains(h.Why, why)
	}, patience, 20*time.Millisecond, "want %q", why)
	require.NotContains(p.w.t, last, "Geheim-")
}

// degraded waits until a trouble of that part is told, with that text.
func (p *process) degraded(part, detail string) {
	p.w.t.Helper()
	require.Eventually(p.w.t, func() bool {
		for _, d := range p.health().Degraded {
			if (d.Subject == part || strings.HasPrefix(d.Subject, part+"/")) && strings.Contains(d.Detail, detail) {
				return true
			}
		}
		return false
	}, patience, 20*time.Millisecond, "want %q of %s", detail, part)
}

// ask asks for a delivery after some ms.
func (w *world) ask(ms int64) {
	w.t.Helper()
	testkafka.Produce(w.t, w.broker, &kgo.Record{Topic: w.source(), Value: []byte("v"), Headers: []kgo.RecordHeader{
		{Key: "target-topic", Value: []byte(w.target())}, {Key: "delay-ms", Value: strconv.AppendInt(nil, ms, 10)},
	}})
}

// arrived waits until n records are in the target, and no more.
func (w *world) arrived(n int) {
	w.t.Helper()
	got := testkafka.ReadAll(w.t, w.broker, w.target(), n, patience)
	require.Len(w.t, got, n)
}

// delivers says that one more record goes all the way.
func (w *world) delivers(n int) {
	w.t.Helper()
	w.ask(200)
	w.arrived(n)
}
