package cases

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"delay-scheduler/internal/testkafka"
)

// built is the product, built once for all tests.
var built struct {
	once sync.Once
	path string
	err  error
}

// atATime is how many cases run together unless -parallel says otherwise. Most of a case
// is waiting for what is due, so there may be more than processors.
const atATime = 4

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(atATime)) // it is a number
	}
	code := m.Run()
	if built.path != "" {
		_ = os.RemoveAll(filepath.Dir(built.path))
	}
	os.Exit(code)
}

func binary(t *testing.T) string {
	t.Helper()
	if other := os.Getenv("TEST_SCHEDULER"); other != "" {
		return other // a build of one's own, such as one of another commit
	}
	built.once.Do(func() {
		dir, err := os.MkdirTemp("", "delay-scheduler-cases-") //nolint:usetesting // it serves all tests and is removed by TestMain
		if err != nil {
			built.err = err
			return
		}
		built.path = filepath.Join(dir, "scheduler")
		out, err := exec.Command("go", "build", "-o", built.path, "delay-scheduler/cmd/scheduler").CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	require.NoError(t, built.err)
	return built.path
}

// world is a broker with topics of one test's own, and the processes that it runs.
type world struct {
	t      *testing.T
	broker testkafka.Broker
	name   string
	addrs  string // what processes are told; a proxy may be put there
}

func newWorld(t *testing.T, b testkafka.Broker) *world {
	t.Helper()
	return &world{t: t, broker: b, name: testkafka.UniqueName(t), addrs: strings.Join(b.Addrs(), ", ")}
}

// topic gives the world's name for a topic: delay becomes <world>-delay.
func (w *world) topic(suffix string) string { return w.name + "-" + suffix }

// create makes topics with one partition and the broker's append times.
func (w *world) create(suffixes ...string) {
	w.t.Helper()
	for _, s := range suffixes {
		w.broker.CreateTopic(w.topic(s), 1, testkafka.LogAppendTime())
	}
}

func (w *world) createWith(suffix string, partitions int, configs map[string]string) {
	w.t.Helper()
	w.broker.CreateTopic(w.topic(suffix), partitions, configs)
}

// record asks for a delivery to one of the world's topics.
func (w *world) record(to, target string, headers ...kgo.RecordHeader) *kgo.Record {
	h := headers
	if target != "" {
		h = append([]kgo.RecordHeader{{Key: "target-topic", Value: []byte(w.topic(target))}}, headers...)
	}
	return &kgo.Record{Topic: w.topic(to), Headers: h}
}

// later asks for a delay in ms.
func (w *world) later(target string, ms int64) *kgo.Record {
	return w.record("delay", target, kgo.RecordHeader{Key: "delay-ms", Value: strconv.AppendInt(nil, ms, 10)})
}

func (w *world) produce(records ...*kgo.Record) []*kgo.Record {
	w.t.Helper()
	return testkafka.Produce(w.t, w.broker, records...)
}

// arrived reads a topic until n records are there.
func (w *world) arrived(suffix string, n int, within time.Duration) []*kgo.Record {
	w.t.Helper()
	recs := testkafka.ReadAll(w.t, w.broker, w.topic(suffix), n, within)
	require.Equal(w.t, n, len(recs), "records in %s after %v", suffix, within)
	return recs
}

// exactly says that there are n records and that no more come.
func (w *world) exactly(suffix string, n int, within, quiet time.Duration) []*kgo.Record {
	w.t.Helper()
	w.arrived(suffix, n, within)
	recs := testkafka.ReadAll(w.t, w.broker, w.topic(suffix), n+1, quiet)
	require.Equal(w.t, n, len(recs), "records in %s", suffix)
	return recs
}

// process is one scheduler.
type process struct {
	w      *world
	cmd    *exec.Cmd
	done   chan error
	listen string
	log    string
}

// start runs a process on the world's *-delay and *-retry topics. extra is YAML added
// to its configuration.
func (w *world) start(extra ...string) *process {
	w.t.Helper()
	p := w.startUnready(extra...)
	p.ready()
	return p
}

func (w *world) startUnready(extra ...string) *process {
	w.t.Helper()
	dir := w.t.TempDir()
	p := &process{w: w, listen: freeAddress(w.t), log: filepath.Join(dir, "scheduler.log")}
	file := filepath.Join(dir, "scheduler.yaml")
	require.NoError(w.t, os.WriteFile(file, []byte(w.config(p.listen, extra)), 0o600))
	out, err := os.Create(p.log)
	require.NoError(w.t, err)
	defer out.Close()
	p.cmd = exec.Command(binary(w.t), "run", "-c", file)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	require.NoError(w.t, p.cmd.Start())
	p.done = make(chan error, 1)
	go func() { p.done <- p.cmd.Wait() }()
	w.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		if w.t.Failed() {
			text, _ := os.ReadFile(p.log)
			w.t.Logf("the scheduler said:\n%s", bytes.TrimSpace(text))
		}
	})
	return p
}

// config has the sections that every case needs; extra sections are appended, so they
// must be others than kafka, group, sources, http and log.
func (w *world) config(listen string, extra []string) string {
	text := fmt.Sprintf("kafka:\n  brokers: [%s]\n  metadata_refresh: 1s\nhttp:\n  listen: %q\nlog:\n  format: console\n", w.addrs, listen)
	all := strings.Join(extra, "\n")
	if !strings.Contains(all, "group:") {
		text += fmt.Sprintf("group:\n  id: %s\n  session_timeout: 6s\n", w.name)
	}
	if !strings.Contains(all, "sources:") {
		text += fmt.Sprintf("sources:\n  - topics: [\"%s-*delay\"]\n  - topics: [\"%s-*retry\"]\n    retry: {}\n", w.name, w.name)
	}
	return text + all + "\n"
}

func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func (p *process) ready() {
	p.w.t.Helper()
	require.Eventually(p.w.t, func() bool { return p.get("/readyz", nil) == http.StatusOK }, 30*time.Second, 20*time.Millisecond, "not ready")
}

// get asks the process; 0 when it does not answer.
func (p *process) get(path string, into any) int {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+p.listen+path, nil)
	if err != nil {
		return 0
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	if into != nil {
		_ = json.NewDecoder(resp.Body).Decode(into)
	}
	return resp.StatusCode
}

// status is as much of /v1/status as the cases look at.
type status struct {
	Health struct {
		Ready    bool
		Why      string
		Degraded []struct{ Reason, Subject, Detail string }
	}
	Budget struct {
		Used  int64 `json:"used_bytes"`
		Limit int64 `json:"limit_bytes"`
	}
	Partitions []struct {
		Topic     string
		Partition int32
		Pending   int
		Overdue   int
		Watermark int64
		Position  int64
		LogEnd    int64 `json:"log_end"`
	}
	Lanes []struct{ Target, State, Error string }
}

func (p *process) status() (s status) {
	p.get("/v1/status", &s)
	return s
}

// pending counts what the process holds.
func (p *process) pending() (n int) {
	for _, part := range p.status().Partitions {
		n += part.Pending
	}
	return n
}

// awaitPending waits until the process shows that it holds n. What a reader of a topic
// has seen is shown a little later: the answer to what was sent comes first, and the
// status is written four times a second.
func (p *process) awaitPending(n int, within time.Duration) {
	p.w.t.Helper()
	require.Eventually(p.w.t, func() bool { return p.pending() == n }, within, 20*time.Millisecond,
		"pending is not %d but %v", n, lazy(func() any { return p.pending() }))
}

// awaitDegraded waits until the process names that reason, or no longer does.
func (p *process) awaitDegraded(reason string, want bool) {
	p.w.t.Helper()
	require.Eventually(p.w.t, func() bool { return p.degraded(reason) == want }, 5*time.Second, 20*time.Millisecond,
		"degraded by %s is not %v: %v", reason, want, lazy(func() any { return p.status().Health }))
}

// degraded says whether the process names that reason.
func (p *process) degraded(reason string) bool {
	for _, d := range p.status().Health.Degraded {
		if d.Reason == reason {
			return true
		}
	}
	return false
}

// metric reads one series of /metrics, 0 if it is absent. The name includes labels.
func (p *process) metric(name string) float64 {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+p.listen+"/metrics", nil)
	require.NoError(p.w.t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(p.w.t, err)
	defer resp.Body.Close()
	var body bytes.Buffer
	_, err = body.ReadFrom(resp.Body)
	require.NoError(p.w.t, err)
	for line := range strings.Lines(body.String()) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			require.NoError(p.w.t, err)
			return v
		}
	}
	return 0
}

// stop ends the process in order and says that it ended well.
func (p *process) stop() {
	p.w.t.Helper()
	require.NoError(p.w.t, p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-p.done:
		require.NoError(p.w.t, err)
	case <-time.After(30 * time.Second):
		require.Fail(p.w.t, "the process did not end within 30 s of SIGTERM")
	}
}

// kill is a crash.
func (p *process) kill() {
	p.w.t.Helper()
	require.NoError(p.w.t, p.cmd.Process.Kill())
	require.Error(p.w.t, <-p.done)
}

// ms is a record's append time.
func ms(r *kgo.Record) int64 { return r.Timestamp.UnixMilli() }

// header gives the last value of a header.
func header(r *kgo.Record, key string) string {
	v := ""
	for _, h := range r.Headers {
		if h.Key == key {
			v = string(h.Value)
		}
	}
	return v
}

func text(key, value string) kgo.RecordHeader {
	return kgo.RecordHeader{Key: key, Value: []byte(value)}
}

// internal reaches a cluster past its proxies.
type internal struct{ c *testkafka.Cluster }

func (i internal) Addrs() []string { return i.c.Addrs() }

// scaled gives the time of a report where all run unscaled, else a shorter one.
func scaled(short, full time.Duration) time.Duration {
	if long {
		return full
	}
	return short
}

// well is a cluster of which only one node is asked.
type well struct {
	testkafka.Broker
	addr string
}

func (w well) Addrs() []string { return []string{w.addr} }
