package cases

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"delay-scheduler/internal/testkafka"
)

// check gives the severity of each finding of `scheduler check`, the worst of each kind.
func (w *world) check() map[string]string {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "scheduler.yaml")
	require.NoError(w.t, os.WriteFile(file, []byte(w.config("127.0.0.1:0", nil)), 0o600))
	out, err := exec.CommandContext(w.t.Context(), binary(w.t), "check", "-o", "json", "-c", file).Output()
	var findings []struct{ ID, Severity string }
	require.NoError(w.t, json.Unmarshal(out, &findings), "%s, %v", out, err)
	worst := make(map[string]string)
	for _, f := range findings { // worst first
		if worst[f.ID] == "" {
			worst[f.ID] = f.Severity
		}
	}
	failed := false
	for _, s := range worst {
		failed = failed || s == "fail"
	}
	require.Equal(w.t, failed, err != nil, "the exit code with %v", worst)
	return worst
}

// margin is how many seconds Kafka keeps the oldest pending record yet.
func (p *process) margin() float64 {
	return p.metric(fmt.Sprintf("delay_scheduler_retention_margin_seconds{partition=\"0\",topic=%q}", p.w.topic("delay")))
}

func TestF29RetentionBelowTheDelayIsReportedAtTheStartAndWhileTheRecordIsPending(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	configs := testkafka.LogAppendTime()
	configs["retention.ms"], configs["segment.ms"] = "7200000", "600000"
	w.createWith("delay", 1, configs)
	w.create("a", "dlq")
	require.Equal(t, "warn", w.check()["retention"])
	p := w.start()
	require.Eventually(t, func() bool { return strings.Contains(p.said(t), "records are kept for 2h and may be delayed by") }, 30*time.Second, 50*time.Millisecond, "the start says nothing")
	w.produce(w.later("a", (6 * time.Hour).Milliseconds()))
	w.arrived("delay", 1, 10*time.Second)
	p.stop()
	p = w.start()
	require.Eventually(t, func() bool { return p.degraded("retention") }, 90*time.Second, 100*time.Millisecond, "nobody says that the record will be deleted")
	require.InDelta(t, 7200, p.margin(), 120)
	require.Equal(t, "fail", w.check()["retention_pending"])

	admin := testkafka.Admin(t, w.broker)
	always := "-1"
	_, err := admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &always}}, w.topic("delay"))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		now := w.check()
		return now["retention"] == "pass" && now["retention_pending"] != "fail"
	}, 20*time.Second, 500*time.Millisecond, "retention.ms=-1 does not pass")
}

func TestF29RecordThatRetentionDeletedIsCountedAsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	configs := testkafka.LogAppendTime()
	configs["retention.ms"], configs["segment.ms"] = "5000", "1000"
	w.createWith("delay", 1, configs)
	w.create("a", "dlq")
	p := w.start()
	w.produce(w.later("a", 60_000))
	p.awaitPending(1, 10*time.Second)
	p.stop()
	admin := testkafka.Admin(t, w.broker)
	require.Eventually(t, func() bool {
		starts, err := admin.ListStartOffsets(t.Context(), w.topic("delay"))
		require.NoError(t, err)
		o, ok := starts.Lookup(w.topic("delay"), 0)
		return ok && o.Offset == 1
	}, time.Minute, 100*time.Millisecond, "the broker deletes nothing")
	p = w.start()
	require.Eventually(t, func() bool { return p.metric("delay_scheduler_lost_offsets_total") == 1 }, 20*time.Second, 50*time.Millisecond, "the loss is silent")
	w.produce(w.later("a", 0))
	w.arrived("a", 1, 20*time.Second)
}

// forgetful is a broker that forgets the offsets of a group without members after a minute.
func forgetful(t *testing.T) *world {
	t.Helper()
	testkafka.Need(t)
	w := newWorld(t, testkafka.Start(t, testkafka.WithProperty("offsets.retention.minutes", "1"),
		testkafka.WithProperty("offsets.retention.check.interval.ms", "10000")))
	w.create("delay", "a", "dlq")
	return w
}

func TestF27OffsetsThatAreKeptForAMinuteAreReported(t *testing.T) {
	t.Parallel()
	require.Equal(t, "warn", forgetful(t).check()["offsets_retention"])
}

func TestF27RecordFiresAtItsTimeThoughTheOffsetsExpire(t *testing.T) {
	if !long {
		t.Skip("brokers keep offsets for a minute at least: make test-long")
	}
	t.Parallel()
	const delay, down = 15 * time.Minute, 4 * time.Minute
	for name, stop := range map[string]time.Duration{"in a service that is up": 0, "in one that was down": down} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := forgetful(t)
			p := w.start()
			w.flood(500, 0, 1)
			w.arrived("a", 500, 30*time.Second)
			w.produce(w.later("a", delay.Milliseconds()))
			p.awaitPending(1, 10*time.Second)
			if stop > 0 {
				p.stop()
				again := time.NewTimer(stop)
				<-again.C
				require.Empty(t, testkafka.Committed(t, w.broker, w.name, w.topic("delay")), "the offsets have not expired")
				p = w.start()
				p.awaitHeld() // what was sent before, and cannot be told from what was not
			}
			recs := w.exactly("a", 501, delay+time.Minute, 2*time.Second)
			due := number(t, header(recs[500], "delay-due"))
			require.GreaterOrEqual(t, ms(recs[500]), due, "early")
			require.LessOrEqual(t, ms(recs[500]), due+slack, "late")
			if stop == 0 {
				require.NotEmpty(t, testkafka.Committed(t, w.broker, w.name, w.topic("delay")), "the offsets have expired under a service that is up")
				return
			}
			require.Contains(t, w.cli("offsets", "accept", "--yes", "--overdue", "send"), "carried out")
			recs = w.exactly("a", 1001, 30*time.Second, 2*time.Second)
			require.Len(t, copies(recs), 501, "a copy has another delay-id")
		})
	}
}
