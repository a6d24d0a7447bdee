package cases

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"delay-scheduler/internal/testkafka"
)

const day = 24 * time.Hour

// cli runs a command of the product with the world's configuration.
func (w *world) cli(args ...string) string {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "scheduler.yaml")
	require.NoError(w.t, os.WriteFile(file, []byte(w.config("127.0.0.1:0", nil)), 0o600))
	out, err := exec.CommandContext(w.t.Context(), binary(w.t), append(args, "-c", file)...).CombinedOutput()
	require.NoError(w.t, err, "%s", out)
	return string(out)
}

// old asks for a delay some time ago.
func (w *world) old(target string, ago, wait time.Duration) *kgo.Record {
	r := w.later(target, wait.Milliseconds())
	r.Timestamp = time.Now().Add(-ago)
	return r
}

// createForOld makes a source that keeps records whatever their timestamps say.
func (w *world) createForOld() {
	w.t.Helper()
	w.createWith("delay", 1, map[string]string{"retention.ms": "-1"})
	w.create("a", "dlq")
}

// commit sets the group's offset as Kafka's own tool does.
func (w *world) commit(offset int64, metadata string) {
	w.t.Helper()
	o := kadm.Offsets{}
	o.Add(kadm.Offset{Topic: w.topic("delay"), At: offset, LeaderEpoch: -1, Metadata: metadata})
	require.NoError(w.t, testkafka.Admin(w.t, w.broker).CommitAllOffsets(w.t.Context(), w.name, o))
}

// committed is what the group has.
func (w *world) committed() kadm.Offset {
	w.t.Helper()
	all, err := testkafka.Admin(w.t, w.broker).FetchOffsets(w.t.Context(), w.name)
	require.NoError(w.t, err)
	o, ok := all.Lookup(w.topic("delay"), 0)
	require.True(w.t, ok)
	return o.Offset
}

func (p *process) awaitHeld() {
	p.w.t.Helper()
	require.Eventually(p.w.t, func() bool { return p.degraded("held") }, 20*time.Second, 50*time.Millisecond, "nothing is held")
}

func TestMonthOfPaymentsIsNotReplayedWhenTheGroupHasLostItsOffsets(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		args    []string
		arrived int
	}{
		{"send", []string{"--overdue", "send"}, 5},
		{"drop", []string{"--overdue", "drop"}, 2},
		{"since", []string{"--since", time.Now().Add(-4 * day).UTC().Format(time.RFC3339)}, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, testkafka.Need(t))
			w.createForOld()
			w.produce(w.old("a", 30*day, time.Hour), w.old("a", 3*day, time.Hour), w.old("a", 2*day, time.Hour),
				w.old("a", 2*day, 2*day+15*time.Second))
			p := w.start()
			p.awaitHeld()
			w.produce(w.later("a", 500))
			w.exactly("a", 2, 40*time.Second, time.Second)

			p.kill()
			p = w.start()
			p.awaitHeld()
			require.Contains(t, w.cli("offsets", "show"), "are held")
			require.Contains(t, w.cli(append([]string{"offsets", "accept", "--yes"}, tc.args...)...), "carried out")
			recs := w.exactly("a", tc.arrived, 20*time.Second, time.Second)
			require.Len(t, copies(recs), tc.arrived)
			p.awaitDegraded("held", false)
			p.stop()
			w.start()
			w.exactly("a", tc.arrived, time.Second, time.Second)
		})
	}
}

func TestLogThatEndsBeforeTheCommitIsNotReplayedByItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	w.create("delay", "a", "dlq")
	w.produce(w.later("a", 0), w.later("a", 0))
	w.commit(100, "")
	p := w.start()
	p.awaitHeld()
	w.produce(w.later("a", 0))
	w.exactly("a", 1, 20*time.Second, time.Second)

	require.Contains(t, w.cli("offsets", "accept", "--yes", "--overdue", "send"), "carried out")
	recs := w.exactly("a", 3, 20*time.Second, time.Second)
	require.Len(t, copies(recs), 3)
	require.Contains(t, w.cli("offsets", "accept", "--yes", "--overdue", "send"), "holds nothing")
}

func TestOffsetSetByHandIsBelieved(t *testing.T) {
	t.Parallel()
	for name, metadata := range map[string]string{"by Kafka's tool": "", "by another consumer": "2026-01-01T00:00:00Z"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, testkafka.Need(t))
			w.createForOld()
			w.produce(w.old("a", 30*day, time.Hour), w.old("a", 3*day, time.Hour), w.old("a", 2*day, time.Hour))
			w.commit(1, metadata)
			p := w.start()
			recs := w.exactly("a", 2, 20*time.Second, time.Second)
			require.Contains(t, header(recs[0], "delay-id"), "/0/1/")
			p.awaitDegraded("held", false)
			p.stop()

			w.commit(0, metadata)
			w.start()
			w.exactly("a", 5, 20*time.Second, time.Second)
		})
	}
}

func TestDamagedMetadataIsRefusedAndTheRestBelieved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	w.create("delay", "a", "dlq")
	p := w.start()
	w.produce(w.later("a", 0), w.later("a", time.Hour.Milliseconds()), w.later("a", 0))
	w.arrived("a", 2, 20*time.Second)
	p.stop()
	was := w.committed()
	require.EqualValues(t, 1, was.At)
	w.commit(was.At, was.Metadata[:10]+strings.Repeat("A", len(was.Metadata)-10))
	p = w.start()
	w.exactly("a", 3, 20*time.Second, time.Second)
	require.EqualValues(t, 1, p.metric("delay_scheduler_commit_metadata_refused_total"))
}

func TestLeaveFreesThePartitionsOfAMemberThatIsGoneForGood(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	w.create("delay", "a", "dlq")
	member := func(id string) string {
		return "group:\n  id: " + w.name + "\n  session_timeout: 2m\n  rebalance_timeout: 2m\n  instance_id: " + id
	}
	w.start(member("one")).kill()
	began := time.Now()
	second := w.startUnready(member("two"))
	require.Eventually(t, func() bool { return second.get("/livez", nil) == 200 }, 20*time.Second, 20*time.Millisecond)
	require.Contains(t, w.cli("leave", "--instance-id", "one", "--yes"), "is removed")
	second.ready()
	w.produce(w.later("a", 0))
	w.arrived("a", 1, 30*time.Second)
	require.Less(t, time.Since(began), 100*time.Second, "it waited for the session timeout")
}

func TestTopicOfAnotherFrameworkIsNotReadUnlessItIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	w.create("delay", "retry", "a", "dlq")
	theirs := &kgo.Record{Topic: w.topic("retry"), Headers: []kgo.RecordHeader{text("retry_topic-attempts", "1")}}
	w.produce(theirs, w.later("a", 0))
	p := w.start()
	w.arrived("a", 1, 20*time.Second)
	require.Eventually(t, func() bool { return p.degraded("foreign_topic") }, 10*time.Second, 50*time.Millisecond)
	w.exactly("dlq", 0, 0, time.Second)
	p.stop()

	w.start("sources:\n  - topics: [" + w.topic("retry") + "]\n    retry: {}")
	recs := w.arrived("dlq", 1, 20*time.Second)
	require.Equal(t, "MALFORMED_HEADER", header(recs[0], "dlq-reason"))
}

func TestCheckTakesAFreshTopicForNobodyElses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	w.create("delay", "a", "dlq")
	w.start()
	require.Eventually(t, func() bool {
		return len(testkafka.Committed(t, w.broker, w.name, w.topic("delay"))) > 0
	}, 20*time.Second, 50*time.Millisecond, "the candidate commits nothing")
	require.NotEqual(t, "warn", w.check()["group_commits"])
}
