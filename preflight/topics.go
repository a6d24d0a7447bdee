package preflight

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Kafka's names of the settings that matter.
const (
	keyTimestamp      = "message.timestamp.type"
	keyRetention      = "retention.ms"
	keyRetentionBytes = "retention.bytes"
	keyCleanup        = "cleanup.policy"
	keySize           = "max.message.bytes"
	keyMinInSync      = "min.insync.replicas"
	keyTiered         = "remote.storage.enable"
	keyLocal          = "local.retention.ms"
)

// deadLetterRoom is what the headers of a dead letter may add to a record.
const deadLetterRoom = 64 << 10

// tooClose is the retention margin under which records are in danger: time to see an
// alert and raise retention.ms.
const tooClose = time.Hour

// source judges a topic that is read.
func (j *judge) source(s *Source) {
	if s.Err != "" {
		j.add(IDSources, Fail, s.Name, "it cannot be described: "+s.Err, "grant DESCRIBE and READ on it")
		return
	}
	j.leaders(&s.Topic)
	j.replication(&s.Topic)
	if s.Configs == nil {
		j.add(IDRetention, Unknown, s.Name, "its settings (retention, cleanup policy, timestamp type) cannot be read: "+s.ConfigsErr, "grant DESCRIBE_CONFIGS on the topic")
		return
	}
	j.timestamp(s)
	j.cleanup(&s.Topic)
	j.retention(s)
	j.tiering(s)
	j.pending(s)
}

func (j *judge) leaders(t *Topic) {
	var without []string
	for _, p := range t.Partitions {
		if !p.Leader {
			without = append(without, strconv.Itoa(int(p.ID)))
		}
	}
	if len(without) > 0 {
		j.add(IDLeader, Fail, t.Name, fmt.Sprintf("%d of %d partitions have no leader (%s): what is in them waits", len(without), len(t.Partitions), some(without)),
			"bring the brokers back that have its replicas")
		return
	}
	j.add(IDLeader, Pass, t.Name, fmt.Sprintf("all %d partitions have a leader", len(t.Partitions)), "")
}

func (j *judge) replication(t *Topic) {
	if len(t.Partitions) == 0 {
		return
	}
	replicas, inSync := t.Partitions[0].Replicas, t.Partitions[0].InSync
	for _, p := range t.Partitions {
		replicas, inSync = min(replicas, p.Replicas), min(inSync, p.InSync)
	}
	least, err := strconv.Atoi(t.Configs[keyMinInSync])
	switch {
	case err == nil && least > replicas:
		j.add(IDReplication, Fail, t.Name, fmt.Sprintf("%s is %d and there are %d replicas: every write is refused", keyMinInSync, least, replicas), fmt.Sprintf("lower %s, or add replicas", keyMinInSync))
	case err == nil && least > inSync:
		j.add(IDReplication, Fail, t.Name, fmt.Sprintf("%s is %d and a partition has %d replicas in sync: writes to it are refused", keyMinInSync, least, inSync), "bring the brokers back that have its replicas")
	case replicas == 1:
		j.add(IDReplication, Warn, t.Name, "there is one replica: what is written is gone when its broker is", "use 3 replicas and "+keyMinInSync+" 2")
	case err != nil:
		j.add(IDReplication, Unknown, t.Name, fmt.Sprintf("there are %d replicas; %s cannot be read: %s", replicas, keyMinInSync, cmp.Or(t.ConfigsErr, "the broker does not tell it")), "grant DESCRIBE_CONFIGS on the topic")
	case least < 2 && replicas > 2:
		j.add(IDReplication, Warn, t.Name, fmt.Sprintf("%s is %d with %d replicas: a write that only one broker has counts as written", keyMinInSync, least, replicas), "set "+keyMinInSync+" to 2")
	default:
		j.add(IDReplication, Pass, t.Name, fmt.Sprintf("%d replicas, %s %d, at least %d in sync", replicas, keyMinInSync, least, inSync), "")
	}
}

func (j *judge) timestamp(s *Source) {
	if s.Configs[keyTimestamp] == "LogAppendTime" {
		j.add(IDTimestamp, Pass, s.Name, "delays count from the broker's clock", "")
		return
	}
	j.add(IDTimestamp, Warn, s.Name, fmt.Sprintf("%s is %s: delays count from each producer's clock", keyTimestamp, orUnset(s.Configs[keyTimestamp])), alter(s.Name, keyTimestamp, "LogAppendTime"))
}

func (j *judge) cleanup(t *Topic) {
	policy := t.Configs[keyCleanup]
	if strings.Contains(policy, "compact") {
		j.add(IDCleanup, Fail, t.Name, fmt.Sprintf("%s is %s: of two records with one key the first vanishes, pending or not, and records without a key are refused", keyCleanup, policy), alter(t.Name, keyCleanup, "delete"))
		return
	}
	j.add(IDCleanup, Pass, t.Name, fmt.Sprintf("%s is %s", keyCleanup, orUnset(policy)), "")
}

func (j *judge) retention(s *Source) {
	kept, limited, ok := retentionOf(s.Configs)
	want := wantedRetention(s.MaxDelay)
	switch {
	case !ok:
		j.add(IDRetention, Unknown, s.Name, "the broker does not tell "+keyRetention, "see that it is above max_delay")
	case !limited:
		j.add(IDRetention, Pass, s.Name, "records are kept without a limit of time", "")
	case kept < s.MaxDelay:
		j.add(IDRetention, Warn, s.Name, fmt.Sprintf("records are kept for %s and may be delayed by %s (%s.max_delay): one that is deleted before it is due is lost with the next restart", long(kept), long(s.MaxDelay), s.Path),
			alter(s.Name, keyRetention, millis(want))+fmt.Sprintf(", or lower %s.max_delay", s.Path))
	default:
		j.add(IDRetention, Pass, s.Name, fmt.Sprintf("records are kept for %s and may be delayed by %s", long(kept), long(s.MaxDelay)), "")
	}
	if n, err := strconv.ParseInt(s.Configs[keyRetentionBytes], 10, 64); err == nil && n >= 0 {
		j.add(IDRetentionBytes, Warn, s.Name, fmt.Sprintf("%s is %s a partition: a burst deletes pending records however young they are", keyRetentionBytes, size(n)), alter(s.Name, keyRetentionBytes, "-1"))
	} else if err == nil {
		j.add(IDRetentionBytes, Pass, s.Name, "records are kept without a limit of size", "")
	}
}

func (j *judge) tiering(s *Source) {
	if s.Configs[keyTiered] != "true" {
		return
	}
	local, err := strconv.ParseInt(s.Configs[keyLocal], 10, 64)
	kept := time.Duration(local) * time.Millisecond
	if err == nil && local == -2 { // Kafka's word for: as retention.ms
		kept, _, _ = retentionOf(s.Configs)
	}
	if err == nil && (local == -1 || kept >= s.MaxDelay) {
		j.add(IDTiering, Pass, s.Name, "storage is tiered, and what may be pending is kept on the brokers' disks", "")
		return
	}
	j.add(IDTiering, Warn, s.Name, fmt.Sprintf("storage is tiered and records are on the brokers' disks for %s: after a restart older ones are read from the remote tier, which is slow", long(kept)),
		fmt.Sprintf("set %s to max_delay (%s) or more, or expect longer restarts", keyLocal, millis(s.MaxDelay)))
}

// pending compares the retention with what waits now.
func (j *judge) pending(s *Source) {
	kept, limited, ok := retentionOf(s.Configs)
	switch {
	case s.PendingErr != "":
		j.add(IDPending, Unknown, s.Name, "how old the oldest pending record is cannot be told: "+s.PendingErr, "")
		return
	case !ok || !limited:
		return
	}
	least := kept
	for _, p := range s.Pending {
		if why := Endangered(p, kept, j.Now); why != "" {
			j.add(IDPending, Fail, fmt.Sprintf("%s/%d", s.Name, p.Partition), why, alter(s.Name, keyRetention, millis(max(wantedRetention(s.MaxDelay), 2*kept)))+", at once")
			return
		}
		least = min(least, Margin(p.Timestamp, kept, j.Now))
	}
	if len(s.Pending) > 0 {
		j.add(IDPending, Pass, s.Name, fmt.Sprintf("the oldest pending record is kept for another %s", long(least)), "")
	}
}

// Margin is how long Kafka keeps a record yet, at least; below zero it may go at any
// time. (A segment goes as a whole, when the youngest record in it is too old.)
func Margin(timestamp time.Time, retention time.Duration, now time.Time) time.Duration {
	return timestamp.Add(retention).Sub(now)
}

// Endangered says why the oldest pending record may be deleted before it is sent. Empty:
// it is not.
func Endangered(p Pending, retention time.Duration, now time.Time) string {
	margin := Margin(p.Timestamp, retention, now)
	goes := p.Timestamp.Add(retention)
	switch {
	case margin <= 0:
		return fmt.Sprintf("the oldest pending record (offset %d) is older than %s (%s): it may be deleted at any moment", p.Offset, keyRetention, long(retention))
	case !p.Due.IsZero() && p.Due.After(goes):
		return fmt.Sprintf("the oldest pending record (offset %d) is due at %s and may be deleted from %s on (%s is %s)", p.Offset, stamp(p.Due), stamp(goes), keyRetention, long(retention))
	case margin < tooClose:
		return fmt.Sprintf("the oldest pending record (offset %d) may be deleted in %s (%s is %s)", p.Offset, long(margin), keyRetention, long(retention))
	}
	return ""
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// Retention gives a topic's retention time. It is not limited if Kafka keeps records
// for ever, or for longer than can be told; ok is false if the setting is not there.
func Retention(configs map[string]string) (kept time.Duration, limited, ok bool) {
	return retentionOf(configs)
}

func retentionOf(configs map[string]string) (kept time.Duration, limited, ok bool) {
	const century = 36500 * day
	ms, err := strconv.ParseInt(configs[keyRetention], 10, 64)
	if err != nil {
		return 0, false, false
	}
	if ms < 0 || ms > century.Milliseconds() {
		return century, false, true
	}
	return time.Duration(ms) * time.Millisecond, true, true
}

// wantedRetention is the retention of topics that may hold a record for maxDelay: a
// week more, for a stop over holidays.
func wantedRetention(maxDelay time.Duration) time.Duration { return maxDelay + 7*day }

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func orUnset(s string) string {
	if s == "" {
		return "not told"
	}
	return s
}

// alter says how a setting is mended.
func alter(topic, key, value string) string {
	return fmt.Sprintf("set %s=%s on topic %s", key, value, topic)
}
