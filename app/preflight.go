package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"delay-scheduler/config"
	"delay-scheduler/kafka"
	"delay-scheduler/preflight"
)

// Check judges whether a configuration fits its cluster and this machine. What cannot be
// read is a finding; the error is for what makes asking impossible.
func Check(ctx context.Context, c *config.Config) ([]preflight.Finding, error) {
	return check(ctx, c, false)
}

func check(ctx context.Context, c *config.Config, joined bool) ([]preflight.Finding, error) {
	admin, err := kafka.NewAdmin(clusterOptions(c))
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	g := &gatherer{config: c, admin: admin}
	g.facts.Settings = settingsOf(c)
	g.facts.Settings.Joined = joined
	g.facts.Machine = thisMachine()
	if err := g.gather(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, fmt.Errorf("check the cluster: %w", cause)
		}
		g.facts.Unreachable = err.Error()
	}
	g.facts.Now = time.Now()
	return preflight.Judge(g.facts), nil
}

func settingsOf(c *config.Config) preflight.Settings {
	s := preflight.Settings{
		ClientID: c.Kafka.ClientID, Group: c.Group.ID, InstanceID: c.Group.InstanceID, SessionTimeout: c.Group.SessionTimeout,
		MaxSkew: c.Clock.MaxSkew, Budget: int64(c.Memory.Budget), MaxInFlight: int64(c.Memory.MaxInFlight), MemoryNeed: memoryNeed(c),
	}
	if len(c.Sources) == 0 {
		s.Allow = c.Targets.Allow
	}
	for i := range c.Sources {
		rules := c.TargetsOf(&c.Sources[i])
		allow := rules.Allow
		if len(allow) == 0 {
			allow = []string{"*"} // nothing is refused but what deny names
		}
		for _, pattern := range allow {
			if !slices.Contains(s.Allow, pattern) {
				s.Allow = append(s.Allow, pattern)
			}
		}
	}
	return s
}

// gatherer asks a cluster for the facts. What it cannot read it notes beside the fact;
// an error means that the cluster cannot be asked at all.
type gatherer struct {
	config *config.Config
	admin  *kafka.Admin
	facts  preflight.Facts
	states map[string]kafka.TopicState
}

// brokerSettings are those of brokers that matter.
var brokerSettings = []string{"offsets.retention.minutes", "authorizer.class.name"}

func (g *gatherer) gather(ctx context.Context) error {
	cluster, err := g.admin.Cluster(ctx)
	if err != nil {
		return err
	}
	topics, err := g.admin.Topics(ctx)
	if err != nil {
		return err
	}
	for _, b := range cluster.Brokers {
		g.facts.Brokers = append(g.facts.Brokers, g.broker(ctx, b))
	}
	ops, err := g.admin.ClusterOperations(ctx)
	g.facts.Cluster = rights(ops, err)
	g.facts.Security = g.security()
	g.patterns(topics)
	if err := g.topics(ctx, topics); err != nil {
		return err
	}
	g.group(ctx)
	return context.Cause(ctx)
}

func (g *gatherer) broker(ctx context.Context, info kafka.BrokerInfo) preflight.Broker {
	b := preflight.Broker{ID: info.ID, Addr: info.Addr, Err: reason(info.Err)}
	if info.Err != nil {
		return b
	}
	offers, err := g.admin.Offers(ctx, info.Addr)
	b.RequestsErr = reason(err)
	for _, o := range offers {
		b.Requests = append(b.Requests, preflight.Request{
			Name: o.Name, Need: o.Need, Speak: o.Speak, Offered: o.Offered, Lowest: o.Least, Most: o.Most,
		})
	}
	b.Configs, err = g.admin.BrokerConfigs(ctx, info, brokerSettings...)
	b.ConfigsErr = reason(err)
	if errors.Is(err, kafka.ErrForbidden) {
		g.facts.Security = preflight.Security{Known: true, Secured: true, How: "we may not read the brokers' settings"}
	}
	return b
}

// security finds out whether the cluster keeps strangers out: it has an authorizer, or
// something has been refused to us.
func (g *gatherer) security() preflight.Security {
	if g.facts.Security.Known {
		return g.facts.Security
	}
	switch k := g.config.Kafka; {
	case k.SASL.Mechanism != "" && k.SASL.Mechanism != "none":
		return preflight.Security{Known: true, Secured: true, How: "kafka.sasl is set"}
	case k.TLS.Enabled:
		return preflight.Security{Known: true, Secured: true, How: "kafka.tls is set"}
	}
	s := preflight.Security{How: "no broker tells its settings"}
	for _, b := range g.facts.Brokers {
		if b.Configs == nil {
			if b.ConfigsErr != "" {
				s.How = b.ConfigsErr
			}
			continue
		}
		s.Known = true
		if name := b.Configs["authorizer.class.name"]; name != "" {
			return preflight.Security{Known: true, Secured: true, How: "authorizer " + name}
		}
	}
	return s
}

// patterns says which topics each pattern of the sources decides on.
func (g *gatherer) patterns(topics []kafka.TopicInfo) {
	for i := range g.config.Sources {
		for k, pattern := range g.config.Sources[i].Topics {
			g.facts.Patterns = append(g.facts.Patterns, preflight.Pattern{
				Path: fmt.Sprintf("sources[%d].topics[%d]", i, k), Pattern: pattern,
			})
		}
	}
	for _, t := range topics {
		if path, ok := patternFor(g.config, t.Name); ok {
			for i := range g.facts.Patterns {
				if p := &g.facts.Patterns[i]; p.Path == path {
					p.Topics = append(p.Topics, t.Name)
				}
			}
		}
	}
}

func (g *gatherer) group(ctx context.Context) {
	state, err := g.admin.DescribeGroup(ctx, g.config.Group.ID)
	group := preflight.Group{Err: reason(err), State: state.State, Type: state.Type, Protocol: state.Protocol, Next: state.Next}
	group.Forbidden = errors.Is(err, kafka.ErrForbidden)
	group.Rights = rights(state.Operations, err)
	for _, m := range state.Members {
		group.Members = append(group.Members, preflight.Member{ClientID: m.ClientID, InstanceID: m.InstanceID, Host: m.Host})
	}
	g.facts.Group = group
}

func rights(ops kafka.Operations, err error) preflight.Rights {
	return preflight.Rights{Known: ops != nil && err == nil, Operations: ops, Err: reason(err)}
}

// reason is an error in one line, empty for none.
func reason(err error) string {
	if err == nil {
		return ""
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}
