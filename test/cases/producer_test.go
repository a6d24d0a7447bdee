package cases

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"delay-scheduler/internal/testkafka"
)

func TestF03DelayCountsFromTheBrokersClockOrElseFromTheProducersOwn(t *testing.T) {
	t.Parallel()
	delay, skew, until := scaled(10*time.Second, 5*time.Minute), scaled(20*time.Second, 10*time.Minute), scaled(4*time.Second, 2*time.Minute)
	for kind, configs := range map[string]map[string]string{
		"LogAppendTime": testkafka.LogAppendTime(),
		"CreateTime":    {"message.timestamp.type": "CreateTime"},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, testkafka.Need(t))
			w.createWith("delay", 1, configs)
			w.create("a", "dlq")
			clock := fmt.Sprintf("clock:\n  max_skew: %s", skew/2)
			p := w.start(clock)
			began := time.Now()
			for name, ahead := range map[string]time.Duration{"fast": skew, "slow": -skew} {
				r := w.later("a", delay.Milliseconds())
				r.Key, r.Timestamp = []byte(name), began.Add(ahead)
				w.produce(r)
			}
			w.arrived("delay", 2, 10*time.Second)
			require.Eventually(t, func() bool { return p.read(2) }, until/2, 20*time.Millisecond, "the two are not read")
			strange := p.metric("delay_scheduler_future_timestamp_records_total")
			warned := strings.Count(p.said(t), "ahead of this machine's clock")
			restart := time.NewTimer(time.Until(began.Add(until)))
			<-restart.C
			p.stop()
			w.start(clock)

			due := w.dues(t, delay)
			for _, r := range w.exactly("a", 2, delay+skew+15*time.Second, time.Second) {
				at, name := due[string(r.Key)], string(r.Key)
				require.Equal(t, strconv.FormatInt(at, 10), header(r, "delay-due"), name)
				require.GreaterOrEqual(t, ms(r), at, "early: %s", name)
				require.LessOrEqual(t, ms(r), max(at, began.UnixMilli())+slack, "late: %s", name)
			}
			if kind == "LogAppendTime" {
				require.Zero(t, strange+float64(warned))
				return
			}
			require.Equal(t, began.Add(skew+delay).UnixMilli(), due["fast"])
			require.Equal(t, began.Add(delay-skew).UnixMilli(), due["slow"])
			require.EqualValues(t, 1, strange, "records with a timestamp too far ahead")
			require.Equal(t, 1, warned, "warnings")
		})
	}
}

// Retention never deletes the segment of such a record, and nothing else says that it is there.
func TestF29TimestampInMicrosecondsIsCountedAndWarnedAbout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	w.createWith("delay", 1, map[string]string{"message.timestamp.after.max.ms": strconv.FormatInt(math.MaxInt64, 10)})
	w.create("a", "dlq")
	p := w.start()
	r := w.later("a", 1000)
	r.Timestamp = time.UnixMilli(time.Now().UnixMicro())
	w.produce(r, w.later("a", 0))
	w.exactly("a", 1, 10*time.Second, time.Second)
	p.awaitPending(1, 10*time.Second)
	require.EqualValues(t, 1, p.metric("delay_scheduler_future_timestamp_records_total"))
	require.Equal(t, 1, strings.Count(p.said(t), "ahead of this machine's clock"))
}

// dues are when the records of the source are due, by their keys.
func (w *world) dues(t *testing.T, delay time.Duration) map[string]int64 {
	t.Helper()
	due := make(map[string]int64)
	for _, r := range w.arrived("delay", 2, 10*time.Second) {
		due[string(r.Key)] = ms(r) + delay.Milliseconds()
	}
	return due
}

// read says whether the process has read the first n records of its only partition.
func (p *process) read(n int64) bool {
	parts := p.status().Partitions
	return len(parts) == 1 && parts[0].Position >= n
}

// said is what the process has logged.
func (p *process) said(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(p.log)
	require.NoError(t, err)
	return string(text)
}

func TestF13NullValueStaysNullOnTheTargetAndInTheDeadLetterTopic(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	w.create("delay", "retry", "a", "dlq")
	p := w.start()
	sent := w.later("a", 2000)
	exhausted := w.record("retry", "a", text("retry-count", "6"))
	refused := w.record("delay", "a", text("delay-ms", "soon"))
	for _, r := range []*kgo.Record{sent, exhausted, refused} {
		r.Key = []byte("order-1")
		w.produce(r)
	}
	dead := w.exactly("dlq", 2, 10*time.Second, time.Second)
	for from, reason := range map[string]string{w.topic("retry"): "MAX_RETRY_EXCEEDED", w.topic("delay"): "MALFORMED_HEADER"} {
		require.Equal(t, 1, count(dead, func(r *kgo.Record) bool {
			return header(r, "original-topic") == from && header(r, "dlq-reason") == reason
		}), "%s from %s", reason, from)
	}
	for _, r := range append(dead, w.exactly("a", 1, 10*time.Second, time.Second)...) {
		require.Nil(t, r.Value, "null became something in %s", r.Topic)
		require.Equal(t, "order-1", string(r.Key))
	}
	p.awaitPending(0, 10*time.Second)
	p.stop()
	require.EqualValues(t, 2, w.committed().At)
	w.start()
	w.exactly("dlq", 2, time.Second, time.Second)
	w.exactly("a", 1, time.Second, time.Second)
}

func count(records []*kgo.Record, fits func(*kgo.Record) bool) (n int) {
	for _, r := range records {
		if fits(r) {
			n++
		}
	}
	return n
}
