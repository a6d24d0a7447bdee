package app

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"delay-scheduler/config"
	"delay-scheduler/delay"
	"delay-scheduler/kafka"
	"delay-scheduler/preflight"
	"delay-scheduler/scheduler"
)

const (
	// marginEvery is how often the oldest pending records are looked at: the alarm is an
	// hour ahead.
	marginEvery = time.Minute
	// marginFirst lets a partition that was just claimed read what it has.
	marginFirst = 2 * time.Second
	// marginWithin bounds one look.
	marginWithin = 20 * time.Second
)

// retentionWatch knows of each claimed partition how long Kafka keeps the oldest record
// that is still pending.
type retentionWatch struct {
	config     *config.Config
	partitions func() []scheduler.PartitionStatus
	log        *zap.Logger
	every      time.Duration

	mu     sync.Mutex // guards oldest
	oldest map[margined]heldBack
}

// margined is a partition with something pending.
type margined struct {
	topic     string
	partition int32
}

// heldBack is the oldest pending record of a partition.
type heldBack struct {
	from      int64 // the offset from which it was looked for
	record    preflight.Pending
	retention time.Duration
	limited   bool // by time
}

func newRetentionWatch(c *config.Config, partitions func() []scheduler.PartitionStatus, log *zap.Logger) *retentionWatch {
	return &retentionWatch{config: c, partitions: partitions, log: log.Named("retention"), every: marginEvery}
}

func (w *retentionWatch) run(ctx context.Context) {
	made, err := newSources(w.config)
	if err != nil {
		return // newParts has said so
	}
	admin, err := kafka.NewAdmin(clusterOptions(w.config))
	if err != nil {
		return
	}
	defer admin.Close()
	sleep(ctx, min(marginFirst, w.every))
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, marginWithin)
		w.look(limited, admin, made)
		cancel()
		sleep(ctx, w.every)
	}
}

// look replaces what is known. What cannot be read now is not known any more.
func (w *retentionWatch) look(ctx context.Context, admin *kafka.Admin, made *sources) {
	from := map[string]map[int32]int64{}
	for _, st := range w.partitions() {
		if st.Pending == 0 && st.Position >= st.LogEnd {
			continue
		}
		if from[st.Topic] == nil {
			from[st.Topic] = map[int32]int64{}
		}
		from[st.Topic][st.Partition] = max(st.Watermark, st.LogStart)
	}
	next := map[margined]heldBack{}
	for topic, partitions := range from {
		if err := w.lookAt(ctx, admin, made, topic, partitions, next); err != nil {
			w.log.Debug("the retention margin is not known", zap.String("topic", topic), zap.Error(err))
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.oldest = next
}

// lookAt fills in the partitions of one topic. A record is read only when another one
// has become the oldest.
func (w *retentionWatch) lookAt(ctx context.Context, admin *kafka.Admin, made *sources, topic string, from map[int32]int64, next map[margined]heldBack) error {
	unread := map[int32]int64{}
	for p, at := range from {
		key := margined{topic, p}
		if known, ok := w.known(key); ok && known.from == at {
			next[key] = known
		} else {
			unread[p] = at
		}
	}
	var err error
	if len(unread) > 0 {
		var records map[int32]delay.Record
		records, err = admin.FirstRecords(ctx, topic, unread)
		for p, rec := range records {
			next[margined{topic, p}] = heldBack{from: unread[p], record: pendingOf(rec, made)}
		}
	}
	configs, cerr := admin.TopicConfigs(ctx, topic)
	if cerr != nil {
		return cerr
	}
	values := map[string]string{"retention.ms": configs[topic]["retention.ms"].Value}
	kept, limited, ok := preflight.Retention(values)
	for p := range from {
		if h, there := next[margined{topic, p}]; there {
			h.retention, h.limited = kept, limited && ok
			next[margined{topic, p}] = h
		}
	}
	return err
}

func (w *retentionWatch) known(key margined) (heldBack, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h, ok := w.oldest[key]
	return h, ok
}

// current are the partitions whose oldest record Kafka will delete one day.
func (w *retentionWatch) current() map[margined]heldBack {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[margined]heldBack{}
	for key, h := range w.oldest {
		if h.limited {
			out[key] = h
		}
	}
	return out
}

// troubles are the partitions whose records may be deleted before they are sent.
func (w *retentionWatch) troubles(now time.Time) (out []Trouble) {
	for key, h := range w.current() {
		if why := preflight.Endangered(h.record, h.retention, now); why != "" {
			out = append(out, Trouble{
				Reason: troubleRetention, Subject: fmt.Sprintf("%s/%d", key.topic, key.partition),
				Detail: why + ": raise retention.ms of the topic; a restart after that loses it",
			})
		}
	}
	return out
}

var marginDesc = prometheus.NewDesc("delay_scheduler_retention_margin_seconds",
	"How long Kafka keeps the oldest pending record yet: its timestamp + retention.ms - now. Absent where nothing is pending or nothing is deleted.", []string{"topic", "partition"}, nil)

// Describe implements prometheus.Collector.
func (w *retentionWatch) Describe(ch chan<- *prometheus.Desc) { ch <- marginDesc }

// Collect implements prometheus.Collector.
func (w *retentionWatch) Collect(ch chan<- prometheus.Metric) {
	now := time.Now()
	for key, h := range w.current() {
		margin := preflight.Margin(h.record.Timestamp, h.retention, now)
		ch <- prometheus.MustNewConstMetric(marginDesc, prometheus.GaugeValue, margin.Seconds(), key.topic, strconv.Itoa(int(key.partition)))
	}
}
