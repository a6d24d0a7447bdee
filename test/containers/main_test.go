package containers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	dockernet "github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/network"
	"github.com/testcontainers/testcontainers-go/wait"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// images are those that run.sh built.
func images(t *testing.T) (kafka, scheduler string) {
	t.Helper()
	kafka, scheduler = os.Getenv("KAFKA_IMAGE"), os.Getenv("SCHEDULER_IMAGE")
	if kafka == "" || scheduler == "" {
		t.Skip("no images: run make test-containers")
	}
	return kafka, scheduler
}

// world is a network with a broker, and topics of one test's own.
type world struct {
	t         *testing.T
	name      string
	network   string
	scheduler string // its image
	brokers   string // as the test reaches them
	client    *kgo.Client
	docker    *testcontainers.DockerClient
}

// inside is where containers reach the broker.
const inside = "kafka:19092"

func newWorld(t *testing.T) *world {
	t.Helper()
	kafka, scheduler := images(t)
	n, err := network.New(t.Context())
	testcontainers.CleanupNetwork(t, n)
	require.NoError(t, err)
	w := &world{t: t, network: n.Name, scheduler: scheduler}
	w.docker, err = testcontainers.NewDockerClientWithOpts(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.docker.Close() })
	w.startKafka(kafka)
	w.client, err = kgo.NewClient(kgo.SeedBrokers(w.brokers), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	t.Cleanup(w.client.Close)
	return w
}

// startKafka advertises a port of the host that is chosen beforehand, because a broker
// has to know it when it starts.
func (w *world) startKafka(image string) {
	w.t.Helper()
	port := freePort(w.t)
	w.brokers = net.JoinHostPort("127.0.0.1", port)
	c, err := testcontainers.GenericContainer(w.t.Context(), testcontainers.GenericContainerRequest{
		Started: true,
		ContainerRequest: testcontainers.ContainerRequest{
			Image:          image,
			Networks:       []string{w.network},
			NetworkAliases: map[string][]string{w.network: {"kafka"}},
			ExposedPorts:   []string{"9092/tcp"},
			HostConfigModifier: func(h *container.HostConfig) {
				h.PortBindings = dockernet.PortMap{dockernet.MustParsePort("9092/tcp"): []dockernet.PortBinding{{HostPort: port}}}
			},
			Env: map[string]string{
				"CLUSTER_ID":                                     "4L6g3nShT-eMCtK--X86sw",
				"KAFKA_NODE_ID":                                  "1",
				"KAFKA_PROCESS_ROLES":                            "broker,controller",
				"KAFKA_CONTROLLER_QUORUM_VOTERS":                 "1@localhost:9093",
				"KAFKA_CONTROLLER_LISTENER_NAMES":                "CONTROLLER",
				"KAFKA_LISTENERS":                                "INTERNAL://:19092,HOST://:9092,CONTROLLER://:9093",
				"KAFKA_ADVERTISED_LISTENERS":                     "INTERNAL://" + inside + ",HOST://" + w.brokers,
				"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP":           "INTERNAL:PLAINTEXT,HOST:PLAINTEXT,CONTROLLER:PLAINTEXT",
				"KAFKA_INTER_BROKER_LISTENER_NAME":               "INTERNAL",
				"KAFKA_LOG_DIRS":                                 "/var/lib/kafka/data",
				"KAFKA_AUTO_CREATE_TOPICS_ENABLE":                "false",
				"KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR":         "1",
				"KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
				"KAFKA_TRANSACTION_STATE_LOG_MIN_ISR":            "1",
				"KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS":         "0",
			},
			WaitingFor: wait.ForListeningPort("9092/tcp").SkipInternalCheck().WithStartupTimeout(2 * time.Minute),
		},
	})
	testcontainers.CleanupContainer(w.t, c, testcontainers.StopTimeout(0))
	require.NoError(w.t, err)
	w.logsOnFailure(c)
}

func (w *world) logsOnFailure(c testcontainers.Container) {
	w.t.Cleanup(func() {
		if !w.t.Failed() {
			return
		}
		logs, err := c.Logs(context.Background())
		if err != nil {
			return
		}
		defer logs.Close()
		text, _ := io.ReadAll(logs)
		w.t.Logf("the container said:\n%s", bytes.TrimSpace(text))
	})
}

// create makes topics with the broker's append times.
func (w *world) create(suffixes ...string) {
	w.t.Helper()
	var topics []string
	for _, s := range suffixes {
		topics = append(topics, w.topic(s))
	}
	logAppendTime := "LogAppendTime"
	config := map[string]*string{"message.timestamp.type": &logAppendTime}
	admin := kadm.NewClient(w.client)
	require.Eventually(w.t, func() bool {
		all, err := admin.CreateTopics(w.t.Context(), 2, 1, config, topics...)
		if err != nil {
			return false
		}
		for _, topic := range all {
			if topic.Err != nil && !errors.Is(topic.Err, kerr.TopicAlreadyExists) {
				return false
			}
		}
		return true
	}, time.Minute, 500*time.Millisecond, "topics %v", topics)
}

// start runs the image as docs/operations.md says: its own command, a file mounted where
// that looks for it, a root that cannot be written, no capability.
func (w *world) start() testcontainers.Container {
	w.t.Helper()
	dir := w.t.TempDir()
	require.NoError(w.t, os.Chmod(dir, 0o755)) // The container's user has to reach it.
	path := filepath.Join(dir, "scheduler.yaml")
	require.NoError(w.t, os.WriteFile(path, []byte(w.config()), 0o644))
	require.NoError(w.t, os.Chmod(filepath.Dir(dir), 0o755))
	c, err := testcontainers.GenericContainer(w.t.Context(), testcontainers.GenericContainerRequest{
		Started: true,
		ContainerRequest: testcontainers.ContainerRequest{
			Image:    w.scheduler,
			Networks: []string{w.network},
			HostConfigModifier: func(h *container.HostConfig) {
				h.ReadonlyRootfs = true
				h.CapDrop = []string{"ALL"}
				h.SecurityOpt = []string{"no-new-privileges:true"}
				h.Memory = 512 << 20
				h.Binds = []string{path + ":/etc/delay-scheduler/scheduler.yaml:ro"}
			},
			// The image's own health check: it runs scheduler health in the container.
			WaitingFor: wait.ForHealthCheck().WithStartupTimeout(time.Minute),
		},
	})
	testcontainers.CleanupContainer(w.t, c)
	require.NoError(w.t, err)
	w.logsOnFailure(c)
	return c
}

// in gives a test topics and a group of its own on the same broker.
func (w *world) in(t *testing.T, name string) *world {
	t.Helper()
	own := *w
	own.t, own.name = t, name
	own.create("delay", "retry", "dlq", "target")
	return &own
}

// topic gives the test's name for a topic.
func (w *world) topic(suffix string) string { return w.name + "-" + suffix }

// config is that of a static member, so that one that was killed takes its partitions back.
func (w *world) config() string {
	return fmt.Sprintf(`
kafka: {brokers: [%q], metadata_refresh: 1s}
group: {id: %[2]s, instance_id: one, session_timeout: 20s}
sources:
  - topics: [%[2]s-delay]
targets: {allow: [%[2]s-target]}
`, inside, w.name)
}

// run runs one command in the image and returns what it printed.
func (w *world) run(env map[string]string, args ...string) (code int, output string) {
	w.t.Helper()
	c, err := testcontainers.GenericContainer(w.t.Context(), testcontainers.GenericContainerRequest{
		Started: true,
		ContainerRequest: testcontainers.ContainerRequest{
			Image: w.scheduler, Networks: []string{w.network}, Cmd: args, Env: env,
			HostConfigModifier: func(h *container.HostConfig) {
				h.ReadonlyRootfs = true
				h.CapDrop = []string{"ALL"}
			},
			WaitingFor: wait.ForExit().WithExitTimeout(time.Minute),
		},
	})
	testcontainers.CleanupContainer(w.t, c)
	require.NoError(w.t, err)
	logs, err := c.Logs(w.t.Context())
	require.NoError(w.t, err)
	defer logs.Close()
	text, err := io.ReadAll(logs)
	require.NoError(w.t, err)
	return w.inspect(c).State.ExitCode, string(text)
}

func (w *world) inspect(c testcontainers.Container) container.InspectResponse {
	w.t.Helper()
	r, err := w.docker.ContainerInspect(w.t.Context(), c.GetContainerID(), client.ContainerInspectOptions{})
	require.NoError(w.t, err)
	return r.Container
}

// kill ends a container as a crash does.
func (w *world) kill(c testcontainers.Container) {
	w.t.Helper()
	_, err := w.docker.ContainerKill(w.t.Context(), c.GetContainerID(), client.ContainerKillOptions{Signal: "KILL"})
	require.NoError(w.t, err)
	require.Eventually(w.t, func() bool { return !w.inspect(c).State.Running }, 20*time.Second, 50*time.Millisecond)
}

// later asks for a delay.
func (w *world) later(partition int32, delay time.Duration, value string) *kgo.Record {
	return &kgo.Record{
		Topic: w.topic("delay"), Partition: partition, Value: []byte(value),
		Headers: []kgo.RecordHeader{
			{Key: "target-topic", Value: []byte(w.topic("target"))},
			{Key: "delay-ms", Value: strconv.AppendInt(nil, delay.Milliseconds(), 10)},
		},
	}
}

// read returns a topic's records once enough says so.
func (w *world) read(suffix string, within time.Duration, enough func([]*kgo.Record) bool) []*kgo.Record {
	w.t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(w.brokers), kgo.ConsumeTopics(w.topic(suffix)), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	require.NoError(w.t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(w.t.Context(), within)
	defer cancel()
	var all []*kgo.Record
	for !enough(all) {
		fetches := c.PollFetches(ctx)
		require.NoError(w.t, ctx.Err(), "%d records in %s after %v", len(all), w.topic(suffix), within)
		all = append(all, fetches.Records()...)
	}
	return all
}

func header(t *testing.T, r *kgo.Record, key string) string {
	t.Helper()
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	require.Fail(t, fmt.Sprintf("no header %s", key))
	return ""
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, _ := strings.Cut(l.Addr().String(), ":")
	return port
}
