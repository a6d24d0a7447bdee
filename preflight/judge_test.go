package preflight

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// sound are the facts of a cluster in which nothing is wrong.
func sound() Facts {
	return Facts{
		Now: now,
		Settings: Settings{
			ClientID: "delay-scheduler", Group: "g", InstanceID: "one", SessionTimeout: 10 * time.Second, MaxSkew: time.Minute,
			Allow: []string{"orders", "orders-*"}, Budget: 256 << 20, MaxInFlight: 32 << 20, MemoryNeed: 448 << 20,
		},
		Brokers: []Broker{{
			ID: 1, Addr: "kafka-1:9092", Configs: map[string]string{"offsets.retention.minutes": "10080"},
			Requests: []Request{
				{Name: "Metadata", Need: 10, Speak: 11, Offered: true, Most: 13},
				{Name: "FindCoordinator", Need: 2, Speak: 3, Offered: true, Most: 6},
			},
		}},
		Cluster:  Rights{Known: true, Operations: []string{"DESCRIBE"}},
		Security: Security{Known: true},
		Patterns: []Pattern{{Path: "sources[0].topics[0]", Pattern: "*-delay", Topics: []string{"orders-delay"}}},
		Sources: []Source{{
			Topic: topic("orders-delay", "READ", map[string]string{
				keyTimestamp: "LogAppendTime", keyRetention: millis(14 * day), keyRetentionBytes: "-1", keyCleanup: "delete",
				keySize: "1000000", keyMinInSync: "2",
			}),
			Path: "sources[0]", MaxDelay: 7 * day, DeadLetter: "orders-dlq", Newest: now.Add(-time.Second),
			Pending: []Pending{{Partition: 1, Offset: 42, Timestamp: now.Add(-day), Due: now.Add(day)}},
		}},
		DeadLetters: []DeadLetter{{
			Topic: topic("orders-dlq", "WRITE", map[string]string{
				keyCleanup: "delete", keySize: "1065536", keyMinInSync: "2",
			}),
			Sources: []string{"orders-delay"},
		}},
		Targets: []Topic{topic("orders", "WRITE", map[string]string{keyMinInSync: "2"})},
		Group:   Group{State: "Stable", Type: "consumer", Members: []Member{{ClientID: "delay-scheduler-group", InstanceID: "two"}}, Rights: Rights{Known: true, Operations: []string{"READ"}}},
		Machine: Machine{MemoryLimit: 1 << 30, LimitFrom: "/sys/fs/cgroup/memory.max"},
	}
}

func topic(name, operation string, configs map[string]string) Topic {
	return Topic{
		Name: name, Configs: configs, Rights: Rights{Known: true, Operations: []string{operation, "DESCRIBE"}},
		Partitions: []Partition{{ID: 0, Leader: true, Replicas: 3, InSync: 3}, {ID: 1, Leader: true, Replicas: 3, InSync: 3}},
	}
}

// only gives the finding of a check on a subject.
func only(t *testing.T, all []Finding, id, subject string) Finding {
	t.Helper()
	var found []Finding
	for _, f := range all {
		if f.ID == id && f.Subject == subject {
			found = append(found, f)
		}
	}
	require.Len(t, found, 1, "%s of %s in %+v", id, subject, all)
	return found[0]
}

func TestNothingIsWrongWithASoundCluster(t *testing.T) {
	for _, f := range Judge(sound()) {
		require.Equal(t, Pass, f.Severity, "%+v", f)
		require.Empty(t, f.Do, "%+v", f)
	}
}

func TestEachFaultIsFoundAndWhatToDoIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		id, subject string
		severity    Severity
		found       string
		change      func(f *Facts)
	}{
		"broker": {IDBrokers, "broker 1 (kafka-1:9092)", Fail, "connection refused", func(f *Facts) { f.Brokers[0].Err = "connection refused" }},
		"request not offered": {IDVersions, "broker 1 (kafka-1:9092)", Fail, "Metadata is not offered", func(f *Facts) {
			f.Brokers[0].Requests[0].Offered = false
		}},
		"broker too old": {IDVersions, "broker 1 (kafka-1:9092)", Fail, "up to version 9 and needed from 10 on", func(f *Facts) {
			f.Brokers[0].Requests[0].Most = 9
		}},
		"broker too new": {IDVersions, "broker 1 (kafka-1:9092)", Fail, "offered from version 12 on and spoken up to 11", func(f *Facts) {
			f.Brokers[0].Requests[0].Lowest = 12
		}},
		"named source missing": {IDSources, "sources[0].topics[1]", Warn, "there is no topic pay.retry.30s", func(f *Facts) {
			f.Patterns = append(f.Patterns, Pattern{Path: "sources[0].topics[1]", Pattern: "pay.retry.30s"})
		}},
		"no source": {IDSources, "sources", Warn, "no topic matches", func(f *Facts) {
			f.Patterns[0].Topics, f.Sources, f.DeadLetters = nil, nil, nil
		}},
		"source hidden": {IDSources, "orders-delay", Fail, "not authorized", func(f *Facts) { f.Sources[0].Err = "not authorized" }},
		"no leader": {IDLeader, "orders-delay", Fail, "1 of 2 partitions have no leader (1)", func(f *Facts) {
			f.Sources[0].Partitions[1].Leader = false
		}},
		"one replica": {IDReplication, "orders-delay", Warn, "one replica", func(f *Facts) {
			f.Sources[0].Partitions[1].Replicas, f.Sources[0].Configs[keyMinInSync] = 1, "1"
		}},
		"more in sync than replicas": {IDReplication, "orders-dlq", Fail, "every write is refused", func(f *Facts) {
			f.DeadLetters[0].Configs[keyMinInSync] = "4"
		}},
		"too few in sync": {IDReplication, "orders", Fail, "1 replicas in sync", func(f *Facts) {
			f.Targets[0].Partitions[0].InSync = 1
		}},
		"one in sync is enough": {IDReplication, "orders-delay", Warn, "only one broker has", func(f *Facts) {
			f.Sources[0].Configs[keyMinInSync] = "1"
		}},
		"producer's time": {IDTimestamp, "orders-delay", Warn, "CreateTime", func(f *Facts) { f.Sources[0].Configs[keyTimestamp] = "CreateTime" }},
		"compacted source": {IDCleanup, "orders-delay", Fail, "compact,delete", func(f *Facts) {
			f.Sources[0].Configs[keyCleanup] = "compact,delete"
		}},
		"compacted dead letters": {IDCleanup, "orders-dlq", Fail, "compact", func(f *Facts) { f.DeadLetters[0].Configs[keyCleanup] = "compact" }},
		"retention below max_delay": {IDRetention, "orders-delay", Warn, "kept for 6d and may be delayed by 7d (sources[0].max_delay)", func(f *Facts) {
			f.Sources[0].Configs[keyRetention] = millis(6 * day)
		}},
		"settings hidden": {IDRetention, "orders-delay", Unknown, "not allowed", func(f *Facts) {
			f.Sources[0].Configs, f.Sources[0].ConfigsErr = nil, "not allowed"
		}},
		"retention by size": {IDRetentionBytes, "orders-delay", Warn, "1GiB a partition", func(f *Facts) {
			f.Sources[0].Configs[keyRetentionBytes] = "1073741824"
		}},
		"tiered": {IDTiering, "orders-delay", Warn, "on the brokers' disks for 1d", func(f *Facts) {
			f.Sources[0].Configs[keyTiered], f.Sources[0].Configs[keyLocal] = "true", millis(day)
		}},
		"pending will be deleted": {IDPending, "orders-delay/1", Fail, "offset 42) is due at 2026-03-20T12:00:00Z and may be deleted from 2026-03-14T12:00:00Z", func(f *Facts) {
			f.Sources[0].Pending[0].Due = now.Add(19 * day)
		}},
		"pending is too old": {IDPending, "orders-delay/1", Fail, "at any moment", func(f *Facts) {
			f.Sources[0].Pending[0].Timestamp = now.Add(-15 * day)
		}},
		"pending is nearly too old": {IDPending, "orders-delay/1", Fail, "may be deleted in 30m", func(f *Facts) {
			f.Sources[0].Pending[0].Timestamp, f.Sources[0].Pending[0].Due = now.Add(30*time.Minute-14*day), time.Time{}
		}},
		"pending not known": {IDPending, "orders-delay", Unknown, "no answer", func(f *Facts) { f.Sources[0].PendingErr = "no answer" }},
		"no dead-letter topic": {IDDeadLetter, "orders-dlq", Fail, "what is refused of orders-delay waits", func(f *Facts) {
			f.DeadLetters[0].Missing = true
		}},
		"dead-letter topic hidden": {IDDeadLetter, "orders-dlq", Fail, "not authorized", func(f *Facts) { f.DeadLetters[0].Err = "not authorized" }},
		"dead letters' settings hidden": {IDDeadLetter, "orders-dlq", Unknown, "not allowed", func(f *Facts) {
			f.DeadLetters[0].Configs, f.DeadLetters[0].ConfigsErr = nil, "not allowed"
		}},
		"dead letters too large": {IDDeadLetterSize, "orders-dlq", Warn, "it takes records of 1065535 bytes and orders-delay of 1000000", func(f *Facts) {
			f.DeadLetters[0].Configs[keySize] = "1065535"
		}},
		"dead letters are a source": {IDDeadLetterSource, "orders-dlq", Warn, "sources[0].topics[0] (*)", func(f *Facts) {
			f.DeadLetters[0].Matched = "sources[0].topics[0] (*)"
		}},
		"target missing":      {IDTarget, "orders", Warn, "does not exist", func(f *Facts) { f.Targets[0].Missing = true }},
		"target hidden":       {IDTarget, "orders", Fail, "not authorized", func(f *Facts) { f.Targets[0].Err = "not authorized" }},
		"commits expire":      {IDOffsets, "broker 1 (kafka-1:9092)", Fail, "may be gone", func(f *Facts) { f.Settings.SessionTimeout = 7 * day }},
		"commits expire soon": {IDOffsets, "broker 1 (kafka-1:9092)", Warn, "kept for 1h", func(f *Facts) { f.Brokers[0].Configs["offsets.retention.minutes"] = "60" }},
		"brokers' settings hidden": {IDOffsets, "broker 1 (kafka-1:9092)", Unknown, "not allowed", func(f *Facts) {
			f.Brokers[0].Configs, f.Brokers[0].ConfigsErr = nil, "not allowed"
		}},
		"source not readable":  {IDAccess, "topic orders-delay", Fail, "READ is not allowed", func(f *Facts) { f.Sources[0].Rights.Operations = []string{"DESCRIBE"} }},
		"dead letters refused": {IDAccess, "topic orders-dlq", Fail, "WRITE is not allowed", func(f *Facts) { f.DeadLetters[0].Rights.Operations = nil }},
		"target refused":       {IDAccess, "topic orders", Fail, "WRITE is not allowed", func(f *Facts) { f.Targets[0].Rights.Operations = []string{"READ"} }},
		"group refused":        {IDAccess, "group g", Fail, "READ is not allowed", func(f *Facts) { f.Group.Rights.Operations = []string{"DESCRIBE"} }},
		"group forbidden": {IDAccess, "group g", Fail, "READ is not allowed", func(f *Facts) {
			f.Group.Err, f.Group.Forbidden = "not authorized", true
		}},
		"rights not told": {IDAccess, "group g", Unknown, "cannot be proven", func(f *Facts) { f.Group.Rights = Rights{} }},
		"idempotence on old brokers": {IDAccess, "cluster ", Fail, "IDEMPOTENT_WRITE is not allowed", func(f *Facts) {
			f.Security.Secured, f.Brokers[0].Requests[1].Most = true, 3
		}},
		"targets by pattern": {IDAccess, "targets", Unknown, "orders-*", func(f *Facts) { f.Security.Secured = true }},
		"every target on a secured cluster": {IDTargets, "targets.allow", Fail, "secured (authorizer x)", func(f *Facts) {
			f.Settings.Allow, f.Security = []string{"*"}, Security{Known: true, Secured: true, How: "authorizer x"}
		}},
		"every target on a cluster that is not known": {IDTargets, "targets.allow", Unknown, "cannot be told", func(f *Facts) {
			f.Settings.Allow, f.Security = []string{"*"}, Security{How: "no answer"}
		}},
		"clock behind":     {IDClock, "clock", Fail, "behind the brokers' by 2m or more", func(f *Facts) { f.Sources[0].Newest = now.Add(2 * time.Minute) }},
		"clock not known":  {IDClock, "clock", Unknown, "no broker has stamped", func(f *Facts) { f.Sources[0].Newest = now.Add(-2 * time.Minute) }},
		"new group":        {IDGroup, "g", Fail, "KIP-848", func(f *Facts) { f.Group = Group{Next: true} }},
		"group of Connect": {IDGroup, "g", Fail, `"connect"`, func(f *Facts) { f.Group.Type = "connect" }},
		"group hidden":     {IDGroup, "g", Unknown, "not authorized", func(f *Facts) { f.Group.Err = "not authorized" }},
		"strange member": {IDMembers, "g", Warn, `"billing\x1b[2J" at /10.0.0.7`, func(f *Facts) {
			f.Group.Members = append(f.Group.Members, Member{ClientID: "billing\x1b[2J", Host: "/10.0.0.7"})
		}},
		"instance in use": {IDInstance, "one", Warn, "in use by a member at /10.0.0.7", func(f *Facts) {
			f.Group.Members = append(f.Group.Members, Member{ClientID: "delay-scheduler-group", InstanceID: "one", Host: "/10.0.0.7"})
		}},
		"commits of others": {IDCommits, "orders-delay/3", Warn, "the commits of 2 partitions are not the scheduler's: another program's", func(f *Facts) {
			f.Sources[0].Foreign = map[int32]string{5: "x", 3: "another program's"}
		}},
		"container too small": {IDMemory, "this machine", Fail, "are 448MiB, and the container may take 256MiB", func(f *Facts) { f.Machine.MemoryLimit = 256 << 20 }},
		"go limit too small":  {IDMemory, "GOMEMLIMIT", Warn, "it is 100MiB", func(f *Facts) { f.Machine.GoLimit = 100 << 20 }},
		"go limit too large":  {IDMemory, "GOMEMLIMIT", Warn, "more than the container", func(f *Facts) { f.Machine.GoLimit = 2 << 30 }},
	} {
		t.Run(name, func(t *testing.T) {
			f := sound()
			c.change(&f)
			got := only(t, Judge(f), c.id, c.subject)
			require.Equal(t, c.severity, got.Severity, "%+v", got)
			require.Contains(t, got.Found, c.found)
			if c.severity != Unknown {
				require.NotEmpty(t, got.Do)
			}
		})
	}
}

func TestWhatLooksLikeAFaultAndIsNone(t *testing.T) {
	for name, c := range map[string]struct {
		id, subject string
		change      func(f *Facts)
	}{
		"unlimited retention":        {IDRetention, "orders-delay", func(f *Facts) { f.Sources[0].Configs[keyRetention] = "-1" }},
		"longest retention":          {IDRetention, "orders-delay", func(f *Facts) { f.Sources[0].Configs[keyRetention] = "9223372036854775807" }},
		"tiered as long as all":      {IDTiering, "orders-delay", func(f *Facts) { f.Sources[0].Configs[keyTiered], f.Sources[0].Configs[keyLocal] = "true", "-2" }},
		"clock a little behind":      {IDClock, "clock", func(f *Facts) { f.Sources[0].Newest = now.Add(30 * time.Second) }},
		"no group yet":               {IDGroup, "g", func(f *Facts) { f.Group.State = "Dead" }},
		"every target, open cluster": {IDTargets, "targets.allow", func(f *Facts) { f.Settings.Allow = []string{"*"} }},
		"no container":               {IDMemory, "this machine", func(f *Facts) { f.Machine = Machine{} }},
	} {
		t.Run(name, func(t *testing.T) {
			f := sound()
			c.change(&f)
			got := only(t, Judge(f), c.id, c.subject)
			require.Equal(t, Pass, got.Severity, "%+v", got)
		})
	}
}

func TestProcessThatHasJoinedDoesNotFindItself(t *testing.T) {
	f := sound()
	f.Settings.Joined = true
	f.Group.Members = []Member{{ClientID: "delay-scheduler-group", InstanceID: "one"}}
	for _, got := range Judge(f) {
		require.NotEqual(t, IDInstance, got.ID)
	}
}

func TestClusterThatCannotBeAskedIsOneFailure(t *testing.T) {
	f := Facts{Now: now, Unreachable: "connection refused", Settings: sound().Settings}
	all := Judge(f)
	require.Equal(t, Fail, all[0].Severity)
	require.Contains(t, all[0].Found, "connection refused")
	require.Len(t, all, 2) // and the machine
}

func TestFindingsComeWorstFirstAndAreCounted(t *testing.T) {
	f := sound()
	f.Sources[0].Configs[keyCleanup] = "compact"
	f.Sources[0].Configs[keyTimestamp] = "CreateTime"
	f.Group.Err = "no answer"
	all := Judge(f)
	order := []Severity{}
	for _, got := range all {
		order = append(order, got.Severity)
	}
	require.Equal(t, Fail, order[0])
	require.True(t, slices.IsSortedFunc(order, func(a, b Severity) int {
		return slices.Index(Severities(), a) - slices.Index(Severities(), b)
	}))
	n := Count(all)
	require.Equal(t, 1, n[Fail])
	require.Equal(t, 1, n[Warn])
	require.Len(t, slices.Collect(maps.Keys(n)), 4)
}

func TestMarginIsWhatIsLeftOfTheRetention(t *testing.T) {
	require.Equal(t, 2*time.Hour, Margin(now.Add(-22*time.Hour), day, now))
	require.Equal(t, -time.Hour, Margin(now.Add(-25*time.Hour), day, now))
	for timestamp, endangered := range map[time.Duration]bool{-22 * time.Hour: false, -23 * time.Hour: false, -23*time.Hour - 1: true, -25 * time.Hour: true} {
		require.Equal(t, endangered, Endangered(Pending{Timestamp: now.Add(timestamp)}, day, now) != "", timestamp)
	}
}
