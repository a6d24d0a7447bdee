package security

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"delay-scheduler/app"
	"delay-scheduler/config"
	"delay-scheduler/internal/testkafka"
	"delay-scheduler/preflight"
)

// least is a business topic with all its topics, and the access that is printed for it.
type least struct {
	*world
	granted []testkafka.Access
	rounds  int
}

const redelivered = "billing" // the consumer group that retries come back to

func newLeast(t *testing.T, b *testkafka.Cluster) (l *least, c *config.Config) {
	t.Helper()
	l = &least{world: &world{t: t, broker: b, name: testkafka.UniqueName(t), dir: t.TempDir()}}
	c = l.settings(logins)
	c.Sources = config.Default().Sources
	c.Sources[0].Topics, c.Sources[1].Topics = []string{l.source()}, []string{l.name + "-retry"}
	c.Targets.Allow = []string{l.target(), l.redelivery()}
	for _, topic := range append(l.ends(), l.source(), l.name+"-retry") {
		b.CreateTopic(topic, 1, testkafka.LogAppendTime())
	}
	rules, notes, err := app.Access(t.Context(), c, app.AccessOptions{Topics: []string{l.name}, Group: redelivered})
	require.NoError(t, err)
	require.Empty(t, notes)
	for _, r := range rules {
		l.granted = append(l.granted, access(t, r))
	}
	return l, c
}

// access is a rule as the broker is told it.
func access(t *testing.T, r preflight.AccessRule) testkafka.Access {
	t.Helper()
	a := testkafka.Access{User: user, Prefixed: r.Pattern == "prefixed"}
	switch r.Type {
	case "topic":
		a.Topic = r.Name
	case "group":
		a.Group = r.Name
	case "cluster":
		a.Cluster = true
	default:
		require.Fail(t, "no such resource", "%+v", r)
	}
	switch r.Operation {
	case "Read":
		a.Operation = kadm.OpRead
	case "Write":
		a.Operation = kadm.OpWrite
	case "DescribeConfigs":
		a.Operation = kadm.OpDescribeConfigs
	default:
		require.Fail(t, "no such operation", "%+v", r)
	}
	return a
}

func (l *least) redelivery() string { return l.name + "-" + redelivered + "-redelivery" }

// ends are the topics in which a round ends.
func (l *least) ends() []string { return []string{l.target(), l.redelivery(), l.name + "-dlq"} }

// round writes what has to end in each of them.
func (l *least) round() {
	l.t.Helper()
	header := func(key, value string) kgo.RecordHeader { return kgo.RecordHeader{Key: key, Value: []byte(value)} }
	l.rounds++
	testkafka.Produce(l.t, l.broker,
		&kgo.Record{Topic: l.source(), Headers: []kgo.RecordHeader{header("target-topic", l.target()), header("delay-ms", "1")}},
		&kgo.Record{Topic: l.source(), Headers: []kgo.RecordHeader{header("target-topic", l.target()), header("delay-ms", "soon")}},
		&kgo.Record{Topic: l.name + "-retry", Headers: []kgo.RecordHeader{
			header("original-topic", l.name), header("target-group", redelivered), header("delay-ms", "1"), header("retry-count", "1"),
		}},
	)
}

func (l *least) arrivedEverywhere() {
	l.t.Helper()
	for _, topic := range l.ends() {
		require.Len(l.t, testkafka.ReadAll(l.t, l.broker, topic, l.rounds, patience), l.rounds, topic)
	}
}

// printedAccess shows that the printed access is enough, and that without any line of
// it something stands still, which check says as well.
func printedAccess(t *testing.T, b *testkafka.Cluster) {
	l, c := newLeast(t, b)
	require.Len(t, l.granted, 6)
	b.Grant(l.granted...)
	l.round()
	p := l.run(c)
	l.arrivedEverywhere()
	p.end()
	for _, a := range l.granted {
		t.Run("without "+strings.TrimPrefix(a.String(), user+" "), func(t *testing.T) {
			own, of := *l, *l.world
			own.world, of.t = &of, t
			defer func() { l.rounds = own.rounds }()
			b.Revoke(a)
			own.round()
			p := own.run(c)
			require.Eventually(t, func() bool { return p.stands(a) }, patience, 50*time.Millisecond)
			require.True(t, said(t, c, a), "check does not name it")
			b.Grant(a)
			own.arrivedEverywhere()
			p.end()
		})
	}
	knowsAll(t, b, l, c)
}

// knowsAll shows that with the access for checks nothing is unknown.
func knowsAll(t *testing.T, b *testkafka.Cluster, l *least, c *config.Config) {
	rules, _, err := app.Access(t.Context(), c, app.AccessOptions{Topics: []string{l.name}, Group: redelivered, Checks: true})
	require.NoError(t, err)
	for _, r := range rules {
		if a := access(t, r); a.Operation == kadm.OpDescribeConfigs {
			b.Grant(a)
			t.Cleanup(func() { b.Revoke(a) })
		}
	}
	l.round() // so that there is a fresh stamp of the broker's clock
	findings, err := app.Check(t.Context(), c)
	require.NoError(t, err)
	for _, f := range findings {
		require.Contains(t, []preflight.Severity{preflight.Pass, preflight.Warn}, f.Severity, "%+v", f)
	}
}

// stands says that the process shows what it cannot do without an access.
func (p *process) stands(a testkafka.Access) bool {
	h := p.health()
	if a.Group != "" {
		return !h.Ready && strings.Contains(h.Why, "group.id")
	}
	if a.Operation == kadm.OpRead {
		// A topic that may not be described is as good as none: it is in no claim, while the
		// other one is worked on.
		claimed := map[string]bool{}
		for _, st := range p.Status().Partitions {
			claimed[st.Topic] = true
		}
		return h.Ready && len(claimed) == 1 && !claimed[a.Topic]
	}
	for _, d := range h.Degraded {
		if d.Reason != "preflight" && strings.Contains(d.Subject+" "+d.Detail, a.Topic) && strings.Contains(d.Detail, "authoriz") {
			return h.Ready
		}
	}
	return false
}

// said looks for a finding that is worse than unknown and names the resource.
func said(t *testing.T, c *config.Config, a testkafka.Access) bool {
	t.Helper()
	findings, err := app.Check(t.Context(), c)
	require.NoError(t, err)
	for _, f := range findings {
		if (f.Severity == preflight.Fail || f.Severity == preflight.Warn) && f.ID != preflight.IDReplication &&
			strings.Contains(f.Subject+" "+f.Found, a.Topic+a.Group) {
			return true
		}
	}
	return false
}
