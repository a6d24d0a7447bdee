//go:build clients

package clients

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"delay-scheduler/internal/testkafka"
)

// address is the broker of the examples.
const address = "127.0.0.1:9092"

// product is what go build made of this tree.
var product string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "delay-scheduler-clients-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	product = filepath.Join(dir, "scheduler")
	if out, err := exec.Command("go", "build", "-o", product, "delay-scheduler/cmd/scheduler").CombinedOutput(); err != nil {
		panic(string(out))
	}
	return m.Run()
}

// world is a broker at the address of the examples, and the product that works on it.
type world struct {
	real       bool
	partitions int // of the topics that the tests make
}

func (world) Addrs() []string { return []string{address} }

// topics that are there before anything starts. The first three are the examples'.
var topics = []string{"orders-delay", "orders", "orders-dlq", "keys-delay", "keys", "keys-dlq", "straight"}

// listen takes the address of the examples, or says that it cannot be had.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	require.NoError(t, err, "%s is in use by another process (a Kafka, or scheduler dev?). "+
		"The examples name that address, so they cannot be run: stop that process", address)
	return l
}

// onApacheKafka is a real broker, and the product as README.md says to run it.
func onApacheKafka(t *testing.T) world {
	t.Helper()
	ok, why := testkafka.Available()
	require.True(t, ok, why)
	l := listen(t)
	c := testkafka.Start(t)
	go forward(l, c.Addrs()[0])
	t.Cleanup(func() { l.Close() })
	w := world{real: true, partitions: 12}
	for _, topic := range topics {
		c.CreateTopic(topic, w.partitions, testkafka.LogAppendTime())
	}
	config := write(t, t.TempDir(), "scheduler.yaml", smallestConfig(t))
	start(t, "run", "-c", config)
	return w
}

// forward lets clients find the broker at the listener's address. What they do afterwards
// goes to the address that the broker tells them.
func forward(l net.Listener, to string) {
	for {
		client, err := l.Accept()
		if err != nil {
			return // closed at the end of the test
		}
		go func() {
			defer client.Close()
			broker, err := net.Dial("tcp", to)
			if err != nil {
				return
			}
			defer broker.Close()
			go func() {
				_, _ = io.Copy(broker, client) // a client that goes ends both directions
				broker.Close()
			}()
			_, _ = io.Copy(client, broker)
		}()
	}
}

// onDev is `scheduler dev`.
func onDev(t *testing.T) world {
	t.Helper()
	listen(t).Close()
	args := []string{"dev", "--data", t.TempDir()}
	for _, topic := range topics[3:] {
		args = append(args, "--topic", topic)
	}
	start(t, args...)
	return world{partitions: 4} // dev's default
}

// start runs the product and waits until it is ready.
func start(t *testing.T, args ...string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	http := l.Addr().String()
	require.NoError(t, l.Close())
	cmd := exec.Command(product, args...)
	if args[0] == "dev" {
		cmd.Args = append(cmd.Args, "--http", http)
	}
	cmd.SysProcAttr = dieWithParent()
	cmd.Env = append(os.Environ(), "SCHEDULER_HTTP_LISTEN="+http, "SCHEDULER_LOG_FORMAT=console")
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended, and then Wait says how
		require.NoError(t, cmd.Wait())
		if t.Failed() {
			t.Logf("the scheduler said:\n%s", said.String())
		}
	})
	require.Eventually(t, func() bool { return answers(t, "http://"+http+"/readyz") }, patience, 50*time.Millisecond, "not ready")
}

func answers(t *testing.T, url string) bool {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// arrival is a record, and when a reader that was waiting for it got it.
type arrival struct {
	*kgo.Record
	seen int64 // epoch ms
}

// reader reads a topic from now on to the end of the test.
type reader struct {
	t     *testing.T
	topic string

	mu   sync.Mutex // protects got
	got  []arrival
	more chan struct{} // has something when there is more in got
}

func (w world) read(t *testing.T, topic string) *reader {
	t.Helper()
	r := &reader{t: t, topic: topic, more: make(chan struct{}, 1)}
	client := testkafka.Client(t, w, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			r.add(client.PollFetches(ctx).Records())
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return r
}

func (r *reader) add(records []*kgo.Record) {
	now := time.Now().UnixMilli()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rec := range records {
		r.got = append(r.got, arrival{rec, now})
	}
	select {
	case r.more <- struct{}{}:
	default: // it was told already
	}
}

func (r *reader) all() []arrival {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]arrival(nil), r.got...)
}

// quiet is how long nothing more may come.
const quiet = 2 * time.Second

// exactly waits until n records are there, and then whether more come.
func (r *reader) exactly(n int, within time.Duration) []arrival {
	r.t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	for len(r.all()) < n {
		select {
		case <-r.more:
		case <-deadline.C:
			require.Len(r.t, r.all(), n, "records in %s after %v", r.topic, within)
		}
	}
	still := time.NewTimer(quiet)
	defer still.Stop()
	<-still.C
	require.Len(r.t, r.all(), n, "records in %s", r.topic)
	return r.all()
}
