package app

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"delay-scheduler/config"
	"delay-scheduler/internal/testkafka"
)

func TestMain(m *testing.M) {
	// The client library starts this one and has no way to stop it.
	goleak.VerifyTestMain(testkafka.Suite(m), goleak.IgnoreAnyFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

// settings are those of a process on the given broker.
func settings(t *testing.T, brokers ...string) *config.Config {
	t.Helper()
	c := config.Default()
	c.Kafka.Brokers, c.Kafka.MetadataRefresh = brokers, time.Second
	c.Group.ID, c.Group.InstanceID = testkafka.UniqueName(t), "one"
	c.HTTP.Listen = "127.0.0.1:0"
	require.NoError(t, c.Validate())
	return c
}

// running is an app with its stop.
type running struct {
	*App
	t    *testing.T
	stop context.CancelFunc
	hush context.CancelFunc
	done chan error
}

func run(t *testing.T, c *config.Config) *running {
	t.Helper()
	return runWith(t, c, zap.NewNop())
}

func runWith(t *testing.T, c *config.Config, log *zap.Logger) *running {
	t.Helper()
	a, err := New(c, "test", log)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	hurry, hush := context.WithCancel(context.Background())
	r := &running{App: a, t: t, stop: stop, hush: hush, done: make(chan error, 1)}
	go func() { r.done <- a.Run(ctx, hurry) }()
	t.Cleanup(hush)
	t.Cleanup(stop)
	return r
}

func (r *running) ended(within time.Duration) error {
	r.t.Helper()
	select {
	case err := <-r.done:
		return err
	case <-time.After(within):
		require.Fail(r.t, "the app did not end in time")
		return nil
	}
}

func (r *running) get(path string) (int, Health) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+r.Address()+path, nil)
	require.NoError(r.t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(r.t, err)
	defer resp.Body.Close()
	var h Health
	_ = json.NewDecoder(resp.Body).Decode(&h)
	return resp.StatusCode, h
}

func (r *running) awaitReady() {
	r.t.Helper()
	require.Eventually(r.t, func() bool { code, _ := r.get("/readyz"); return code == http.StatusOK }, 20*time.Second, 10*time.Millisecond)
}

func TestRecordsAreDeliveredAndTheProcessStopsInOrder(t *testing.T) {
	b := testkafka.Fake(t)
	for _, topic := range []string{"a-delay", "a", "a-dlq"} {
		b.CreateTopic(topic, 1, nil)
	}
	r := run(t, settings(t, b.Addrs()...))
	r.awaitReady()
	ask := func(headers ...kgo.RecordHeader) {
		testkafka.Produce(t, b, &kgo.Record{Topic: "a-delay", Value: []byte("v"), Headers: headers})
	}
	ask(kgo.RecordHeader{Key: "target-topic", Value: []byte("a")}, kgo.RecordHeader{Key: "delay-ms", Value: []byte("300")})
	ask(kgo.RecordHeader{Key: "target-topic", Value: []byte("a")}, kgo.RecordHeader{Key: "delay-ms", Value: []byte("soon")})
	require.Len(t, testkafka.ReadAll(t, b, "a", 1, 10*time.Second), 1)
	require.Len(t, testkafka.ReadAll(t, b, "a-dlq", 1, 10*time.Second), 1)
	st := r.Status()
	require.True(t, st.Health.Ready)
	require.Len(t, st.Partitions, 1)
	require.NotEmpty(t, st.Lanes)
	r.stop()
	require.NoError(t, r.ended(20*time.Second))
	require.EqualValues(t, 2, testkafka.Committed(t, b, r.config.Group.ID, "a-delay")[0].Offset)
}

func TestProcessWithoutABrokerIsNotReadyAndSaysWhy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	r := run(t, settings(t, address))
	require.Eventually(t, func() bool {
		code, h := r.get("/readyz")
		return code == http.StatusServiceUnavailable && h.Why != "joining the group" && h.Why != "starting"
	}, 20*time.Second, 10*time.Millisecond)
	_, h := r.get("/readyz")
	require.Contains(t, h.Why, address)
	code, _ := r.get("/livez")
	require.Equal(t, http.StatusOK, code)
	r.stop()
	require.NoError(t, r.ended(20*time.Second))
}

func TestTroubleOfAPartIsDegradedAndNotUnready(t *testing.T) {
	b := testkafka.Fake(t)
	b.CreateTopic("a-delay", 1, nil) // and no dead-letter topic
	r := run(t, settings(t, b.Addrs()...))
	r.awaitReady()
	testkafka.Produce(t, b, &kgo.Record{Topic: "a-delay", Headers: []kgo.RecordHeader{{Key: "delay-ms", Value: []byte("soon")}}})
	require.Eventually(t, func() bool {
		code, h := r.get("/readyz")
		return code == http.StatusOK && len(h.Degraded) > 0 && h.Degraded[0].Reason == "dead_letter_topic"
	}, 20*time.Second, 10*time.Millisecond)
	code, _ := r.get("/readyz?strict=1")
	require.Equal(t, http.StatusServiceUnavailable, code)
	b.CreateTopic("a-dlq", 1, nil)
	require.Len(t, testkafka.ReadAll(t, b, "a-dlq", 1, 20*time.Second), 1)
	require.Eventually(t, func() bool { code, _ := r.get("/readyz?strict=1"); return code == http.StatusOK }, 20*time.Second, 10*time.Millisecond)
	r.stop()
	require.NoError(t, r.ended(20*time.Second))
}

func TestPortInUseIsToldWithWhatToDo(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	c := settings(t, "127.0.0.1:1")
	c.HTTP.Listen = l.Addr().String()
	_, err = New(c, "test", zap.NewNop())
	require.ErrorContains(t, err, l.Addr().String())
	require.ErrorContains(t, err, "http.listen")
}

func TestSecondSignalSkipsTheWaits(t *testing.T) {
	b := testkafka.Fake(t)
	b.CreateTopic("a-delay", 1, nil)
	b.CreateTopic("a", 1, nil)
	c := settings(t, b.Addrs()...)
	c.Shutdown.DrainTimeout = time.Hour
	r := run(t, c)
	r.awaitReady()
	r.stop()
	r.hush()
	_ = r.ended(20 * time.Second) // whether all could be closed in no time is not the point
}

// TestAStopWaitsOnceForWhatIsNotAnswered has a target's broker that takes records and
// says nothing. What is unanswered at the end is sent again after the next start, which
// is no failure of the stop.
func TestAStopWaitsOnceForWhatIsNotAnswered(t *testing.T) {
	b := testkafka.Fake(t)
	for _, topic := range []string{"a-delay", "a", "a-dlq"} {
		b.CreateTopic(topic, 1, nil)
	}
	c := settings(t, b.Addrs()...)
	c.Shutdown.DrainTimeout = 6 * time.Second
	core, logs := observer.New(zap.WarnLevel)
	r := runWith(t, c, zap.New(core))
	r.awaitReady()
	taken := make(chan struct{}, 100)
	b.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		ours := req.(*kmsg.ProduceRequest).Topics[0].Topic == "a"
		if ours {
			taken <- struct{}{}
		}
		return nil, nil, ours
	})
	testkafka.Produce(t, b, &kgo.Record{Topic: "a-delay", Headers: []kgo.RecordHeader{
		{Key: "target-topic", Value: []byte("a")}, {Key: "delay-ms", Value: []byte("1")},
	}})
	<-taken
	r.stop()
	began := time.Now()
	require.NoError(t, r.ended(20*time.Second))
	require.GreaterOrEqual(t, time.Since(began), c.Shutdown.DrainTimeout)
	require.Less(t, time.Since(began), 2*c.Shutdown.DrainTimeout-time.Second, "it is awaited once")
	require.NotEmpty(t, logs.FilterMessageSnippet("in doubt").All())
}

func TestStartStopStress(t *testing.T) {
	b := testkafka.Fake(t)
	b.CreateTopic("a-delay", 3, nil)
	b.CreateTopic("a", 1, nil)
	for i := range 10 {
		r := run(t, settings(t, b.Addrs()...))
		if i%2 == 0 {
			r.awaitReady()
		}
		testkafka.Produce(t, b, &kgo.Record{Topic: "a-delay", Key: []byte(strconv.Itoa(i)), Headers: []kgo.RecordHeader{
			{Key: "target-topic", Value: []byte("a")}, {Key: "delay-ms", Value: []byte("1")},
		}})
		r.stop()
		require.NoError(t, r.ended(20*time.Second))
	}
}
