package app

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"delay-scheduler/config"
	"delay-scheduler/internal/testkafka"
	"delay-scheduler/preflight"
)

// planned are the topics of a business topic with a name of its own, as the plan has
// them, and a configuration that reads them alone.
func planned(t *testing.T, b testkafka.Broker, maxDelay time.Duration) (base string, c *config.Config) {
	t.Helper()
	base = testkafka.UniqueName(t)
	c = settings(t, b.Addrs()...)
	c.Sources[0].Topics, c.Sources[1].Topics = []string{base + "-delay"}, []string{base + "-retry"}
	c.Sources[0].MaxDelay, c.Sources[1].MaxDelay = maxDelay, maxDelay
	c.Targets.Allow = []string{base}
	require.NoError(t, c.Validate())
	plan, err := PlanTopics(t.Context(), c, TopicsOptions{Topic: base, Partitions: 2, Replication: 1})
	require.NoError(t, err)
	require.NoError(t, CreateTopics(t.Context(), c, plan, false, func(string) {}))
	return base, c
}

func findingsOf(t *testing.T, c *config.Config) []preflight.Finding {
	t.Helper()
	findings, err := Check(t.Context(), c)
	require.NoError(t, err)
	return findings
}

func about(findings []preflight.Finding, id, subject string) (f preflight.Finding) {
	for _, f := range findings {
		if f.ID == id && f.Subject == subject {
			return f
		}
	}
	return f
}

func produceDelayed(t *testing.T, b testkafka.Broker, topic, target, delay string) {
	t.Helper()
	testkafka.Produce(t, b, &kgo.Record{Topic: topic, Value: []byte("v"), Headers: []kgo.RecordHeader{
		{Key: "target-topic", Value: []byte(target)}, {Key: "delay-ms", Value: []byte(delay)},
	}})
}

func TestPlannedTopicsPassTheCheck(t *testing.T) {
	b := testkafka.Need(t)
	base, c := planned(t, b, 24*time.Hour)
	produceDelayed(t, b, base+"-delay", base, "3600000")
	for _, f := range findingsOf(t, c) {
		switch f.ID {
		case preflight.IDReplication: // one broker has one replica
			require.Equal(t, preflight.Warn, f.Severity, "%+v", f)
		default:
			require.Equal(t, preflight.Pass, f.Severity, "%+v", f)
		}
	}
	require.Contains(t, about(findingsOf(t, c), preflight.IDPending, base+"-delay").Found, "kept for another 8.0d")
}

func TestCheckFindsWhatIsWrongOnARealCluster(t *testing.T) {
	b := testkafka.Need(t)
	base, c := planned(t, b, 24*time.Hour)
	delayed, dead := base+"-delay", base+"-dlq"
	admin := testkafka.Admin(t, b)
	alter := func(topic, key, value string) {
		t.Helper()
		require.NoError(t, alterTopic(t.Context(), c, topic, map[string]string{key: value}))
		require.Eventually(t, func() bool {
			rs, err := admin.DescribeTopicConfigs(t.Context(), topic)
			if err != nil || len(rs) != 1 {
				return false
			}
			for _, entry := range rs[0].Configs {
				if entry.Key == key {
					return entry.MaybeValue() == value
				}
			}
			return false
		}, 20*time.Second, 20*time.Millisecond)
	}
	alter(delayed, "retention.ms", "3600000")
	alter(delayed, "cleanup.policy", "compact,delete")
	alter(delayed, "retention.bytes", "1000000")
	alter(base+"-retry", "message.timestamp.type", "CreateTime")
	alter(dead, "max.message.bytes", "1000")
	alter(dead, "min.insync.replicas", "2")
	testkafka.Produce(t, b, &kgo.Record{Topic: delayed, Key: []byte("k"), Headers: []kgo.RecordHeader{
		{Key: "target-topic", Value: []byte(base)}, {Key: "delay-ms", Value: []byte("7200000")},
	}})
	c.Sources[0].Topics = append(c.Sources[0].Topics, base+"-none")
	c.Group.InstanceID = ""
	findings := findingsOf(t, c)
	for _, want := range []preflight.Finding{
		{ID: preflight.IDRetention, Severity: preflight.Warn, Subject: delayed, Found: "kept for 1h"},
		{ID: preflight.IDCleanup, Severity: preflight.Fail, Subject: delayed, Found: "compact"},
		{ID: preflight.IDRetentionBytes, Severity: preflight.Warn, Subject: delayed, Found: "976.5KiB"},
		{ID: preflight.IDTimestamp, Severity: preflight.Warn, Subject: base + "-retry", Found: "CreateTime"},
		{ID: preflight.IDDeadLetterSize, Severity: preflight.Warn, Subject: dead, Found: "1000 bytes"},
		{ID: preflight.IDReplication, Severity: preflight.Fail, Subject: dead, Found: "every write is refused"},
		{ID: preflight.IDSources, Severity: preflight.Warn, Subject: "sources[0].topics[1]", Found: "there is no topic"},
	} {
		got := about(findings, want.ID, want.Subject)
		require.Equal(t, want.Severity, got.Severity, "%s of %s: %+v", want.ID, want.Subject, got)
		require.Contains(t, got.Found, want.Found)
	}
	var pending []string
	for _, f := range findings {
		if f.ID == preflight.IDPending && f.Severity == preflight.Fail {
			pending = append(pending, f.Subject)
			require.Contains(t, f.Found, "is due at")
		}
	}
	require.Len(t, pending, 1)
	require.True(t, strings.HasPrefix(pending[0], delayed+"/"), pending)
}

func TestCheckSeesTheGroupAsItIs(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		base, c := planned(t, b, 24*time.Hour)
		client, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.ConsumerGroup(c.Group.ID), kgo.ConsumeTopics(base+"-delay"),
			kgo.ClientID("billing"), kgo.InstanceID(c.Group.InstanceID), kgo.DisableAutoCommit())
		require.NoError(t, err)
		defer client.Close()
		require.Eventually(t, func() bool {
			return about(findingsOf(t, c), preflight.IDMembers, c.Group.ID).Severity == preflight.Warn
		}, 20*time.Second, 50*time.Millisecond)
		produceDelayed(t, b, base+"-delay", base, "3600000")
		fetched := client.PollFetches(t.Context())
		require.NoError(t, fetched.Err())
		require.NoError(t, client.CommitRecords(t.Context(), fetched.Records()...))
		findings := findingsOf(t, c)
		require.Contains(t, about(findings, preflight.IDMembers, c.Group.ID).Found, `"billing"`)
		require.Equal(t, preflight.Warn, about(findings, preflight.IDInstance, c.Group.InstanceID).Severity)
		var commits []preflight.Finding
		for _, f := range findings {
			if f.ID == preflight.IDCommits {
				commits = append(commits, f)
			}
		}
		require.Len(t, commits, 1)
	})
}

// refusing makes the embedded broker refuse some kinds of requests with an error.
func refusing(fake *testkafka.FakeCluster, code *kerr.Error, kinds ...kmsg.Key) {
	for _, kind := range kinds {
		fake.ControlKey(int16(kind), func(req kmsg.Request) (kmsg.Response, error, bool) {
			fake.KeepControl()
			switch r := req.(type) {
			case *kmsg.DescribeConfigsRequest:
				resp := r.ResponseKind().(*kmsg.DescribeConfigsResponse)
				for _, asked := range r.Resources {
					one := kmsg.NewDescribeConfigsResponseResource()
					one.ResourceType, one.ResourceName, one.ErrorCode = asked.ResourceType, asked.ResourceName, code.Code
					resp.Resources = append(resp.Resources, one)
				}
				return resp, nil, true
			case *kmsg.DescribeGroupsRequest:
				resp := r.ResponseKind().(*kmsg.DescribeGroupsResponse)
				one := kmsg.NewDescribeGroupsResponseGroup()
				one.Group, one.ErrorCode = r.Groups[0], code.Code
				resp.Groups = append(resp.Groups, one)
				return resp, nil, true
			case *kmsg.DescribeClusterRequest:
				resp := r.ResponseKind().(*kmsg.DescribeClusterResponse)
				resp.ErrorCode = code.Code
				return resp, nil, true
			case *kmsg.OffsetFetchRequest:
				resp := r.ResponseKind().(*kmsg.OffsetFetchResponse)
				resp.ErrorCode = code.Code
				return resp, nil, true
			}
			return nil, io.ErrUnexpectedEOF, true
		})
	}
}

func TestWhatCannotBeReadIsUnknownAndSaysWhy(t *testing.T) {
	fake := testkafka.Fake(t)
	for _, topic := range []string{"a-delay", "a-dlq"} {
		fake.CreateTopic(topic, 1, nil)
	}
	c := settings(t, fake.Addrs()...)
	refusing(fake, kerr.GroupAuthorizationFailed, kmsg.DescribeGroups, kmsg.OffsetFetch)
	refusing(fake, kerr.TopicAuthorizationFailed, kmsg.DescribeConfigs, kmsg.DescribeCluster)
	findings := findingsOf(t, c)
	for id, subject := range map[string]string{
		preflight.IDGroup: c.Group.ID, preflight.IDRetention: "a-delay", preflight.IDDeadLetter: "a-dlq",
	} {
		f := about(findings, id, subject)
		require.Equal(t, preflight.Unknown, f.Severity, "%+v", f)
		require.Contains(t, strings.ToLower(f.Found), "authorized", "%+v", f)
	}
	require.Equal(t, preflight.Fail, about(findings, preflight.IDAccess, "group "+c.Group.ID).Severity)
	// What is refused shows that somebody decides who may do what.
	require.Equal(t, preflight.Fail, about(findings, preflight.IDTargets, "targets.allow").Severity)
}

func TestBrokerThatKnowsNoneOfTheQuestionsIsNoCrash(t *testing.T) {
	fake := testkafka.Fake(t)
	fake.CreateTopic("a-delay", 1, nil)
	for _, kind := range []kmsg.Key{kmsg.DescribeConfigs, kmsg.DescribeGroups, kmsg.DescribeCluster, kmsg.ListOffsets} {
		fake.ControlKey(int16(kind), func(kmsg.Request) (kmsg.Response, error, bool) {
			fake.KeepControl()
			return nil, io.ErrUnexpectedEOF, true // the connection is closed
		})
	}
	n := preflight.Count(findingsOf(t, settings(t, fake.Addrs()...)))
	require.Positive(t, n[preflight.Unknown])
}

func TestCheckOfAClusterThatIsNotThereFails(t *testing.T) {
	findings := findingsOf(t, settings(t, "127.0.0.1:1"))
	require.Equal(t, preflight.Fail, findings[0].Severity)
	require.Equal(t, preflight.IDBrokers, findings[0].ID)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Check(ctx, settings(t, "127.0.0.1:1"))
	require.ErrorIs(t, err, context.Canceled)
}

func TestContainerLimitsOfBothVersions(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"none":        {nil, 0},
		"version 2":   {map[string]string{limitFiles[0]: "536870912\n"}, 512 << 20},
		"no limit":    {map[string]string{limitFiles[0]: "max\n"}, 0},
		"version 1":   {map[string]string{limitFiles[1]: "268435456\n"}, 256 << 20},
		"1, no limit": {map[string]string{limitFiles[1]: "9223372036854771712\n"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for path, text := range c.files {
				path = filepath.Join(root, path)
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
				require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			}
			got, _ := containerLimit(root)
			require.Equal(t, c.want, got)
		})
	}
}

func metricsOf(t *testing.T, r *running) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.Address()+"/metrics", nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(text)
}

func TestRunningProcessJudgesItsClusterAndGoesOn(t *testing.T) {
	b := testkafka.Fake(t)
	b.CreateTopic("a-delay", 1, map[string]string{"cleanup.policy": "compact"})
	b.CreateTopic("a-dlq", 1, nil)
	b.CreateTopic("a", 1, nil)
	c := settings(t, b.Addrs()...)
	seen, logged := observer.New(zap.WarnLevel)
	r := runWith(t, c, zap.New(seen))
	r.awaitReady()
	produceDelayed(t, b, "a-delay", "a", "10")
	require.Len(t, testkafka.ReadAll(t, b, "a", 1, 10*time.Second), 1)
	failing := func() bool {
		_, h := r.get("/readyz")
		for _, d := range h.Degraded {
			if d.Reason == "preflight" && d.Subject == "a-delay" && strings.Contains(d.Detail, "cleanup.policy is compact") {
				return h.Ready
			}
		}
		return false
	}
	require.Eventually(t, failing, 20*time.Second, 20*time.Millisecond)
	require.Contains(t, metricsOf(t, r), `delay_scheduler_preflight_findings{severity="fail"} 1`)
	require.Contains(t, metricsOf(t, r), `delay_scheduler_degraded{reason="preflight"} 1`)
	require.NoError(t, alterTopic(t.Context(), c, "a-delay", map[string]string{"cleanup.policy": "delete"}))
	require.Eventually(t, func() bool { return !failing() }, 20*time.Second, 20*time.Millisecond)
	require.Len(t, logged.FilterField(zap.String("check", preflight.IDCleanup)).All(), 1)
	require.Contains(t, metricsOf(t, r), `delay_scheduler_preflight_findings{severity="fail"} 0`)
	r.stop()
	require.NoError(t, r.ended(20*time.Second))
}

func TestJudgementThatHangsHoldsUpNothing(t *testing.T) {
	asked := make(chan bool, 1)
	w := &preflightWatch{
		log: zap.NewNop(), again: time.Millisecond, joined: func() bool { return true },
		check: func(ctx context.Context, _ bool) ([]preflight.Finding, error) {
			_, limited := ctx.Deadline()
			asked <- limited
			<-ctx.Done()
			return nil, context.Cause(ctx)
		},
	}
	wait := (&watches{run: []func(context.Context){w.run}}).start(t.Context())
	require.True(t, <-asked, "it has to be cut off some day")
	wait()
	require.Empty(t, w.troubles())
}

func TestFindingIsLoggedOnceThoughItIsFoundAgain(t *testing.T) {
	seen, logged := observer.New(zap.WarnLevel)
	judged := make(chan struct{})
	n := 0
	w := &preflightWatch{
		log: zap.New(seen), again: time.Millisecond, joined: func() bool { return true },
		check: func(context.Context, bool) ([]preflight.Finding, error) {
			if n++; n == 3 {
				close(judged)
			}
			return []preflight.Finding{
				{ID: preflight.IDPending, Severity: preflight.Fail, Subject: "a", Found: "in " + strconv.Itoa(n)},
				{ID: preflight.IDGroup, Severity: preflight.Unknown, Subject: "g", Found: "no answer"},
			}, nil
		},
	}
	wait := (&watches{run: []func(context.Context){w.run}}).start(t.Context())
	<-judged
	wait()
	require.Len(t, logged.All(), 1)
	require.Equal(t, "check: in 1", logged.All()[0].Message)
	require.Empty(t, w.troubles(), "the margin tells by partition")
}

func TestRetentionMarginIsShownAndDegrades(t *testing.T) {
	b := testkafka.Fake(t)
	b.CreateTopic("a-delay", 2, map[string]string{"retention.ms": "7200000"})
	b.CreateTopic("a-dlq", 1, nil)
	b.CreateTopic("a", 1, nil)
	testkafka.Produce(t, b, &kgo.Record{Topic: "a-delay", Partition: 0, Headers: []kgo.RecordHeader{
		{Key: "target-topic", Value: []byte("a")}, {Key: "delay-ms", Value: []byte("86400000")},
	}})
	r := run(t, settings(t, b.Addrs()...))
	r.awaitReady()
	var detail string
	require.Eventually(t, func() bool {
		_, h := r.get("/readyz")
		for _, d := range h.Degraded {
			if d.Reason == "retention" {
				detail = d.Detail
			}
		}
		return detail != ""
	}, 20*time.Second, 20*time.Millisecond)
	require.Contains(t, detail, "is due at")
	require.Contains(t, detail, "retention.ms is 2h")
	require.Regexp(t, `delay_scheduler_retention_margin_seconds\{partition="[01]",topic="a-delay"\} 71\d\d`, metricsOf(t, r))
	require.Contains(t, metricsOf(t, r), `delay_scheduler_degraded{reason="retention"} 1`)
	r.stop()
	require.NoError(t, r.ended(20*time.Second))
}
