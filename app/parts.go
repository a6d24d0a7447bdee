package app

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"delay-scheduler/bucket"
	"delay-scheduler/config"
	"delay-scheduler/delay"
	"delay-scheduler/forward"
	"delay-scheduler/kafka"
	"delay-scheduler/retry"
	"delay-scheduler/scheduler"
)

// parts are what one process consists of, wired together.
type parts struct {
	budget    *bucket.Budget
	producer  *kafka.Producer
	forwarder *forward.Forwarder
	fetcher   *kafka.Fetcher
	scheduler *scheduler.Scheduler
	group     *kafka.Group
	joined    atomic.Bool // it was a member once
}

// outlet hands the forwarder's ports to the scheduler, which declares their interface.
type outlet struct{ f *forward.Forwarder }

func (o outlet) Open(topic string, partition int32, rules *delay.Rules) scheduler.Port {
	return o.f.Open(topic, partition, rules)
}

// newParts makes and wires everything. None of it needs a broker to answer yet.
func newParts(c *config.Config, log *zap.Logger, reg prometheus.Registerer) (p *parts, err error) {
	p = &parts{budget: bucket.NewBudget(int64(c.Memory.Budget))}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.closing(log).run(context.Background(), log))
			p = nil
		}
	}()
	cluster := clusterOptions(c)
	cluster.Security = clusterSecurity(c, log) // one for all roles, which says what becomes of its files
	clock := systemClock()
	p.forwarder = forward.New(forward.Options{
		MaxInFlight: int64(c.Memory.MaxInFlight), MaxLanes: c.Forward.MaxLanes, GiveUpAfter: c.Forward.GiveUpAfter,
	}, nil, clock.Wall, clock.Boot, log, reg)
	p.producer, err = kafka.NewProducer(kafka.ProducerOptions{
		Options: cluster, Compression: c.Forward.Compression, Linger: c.Forward.Linger,
	}, p.forwarder.Acks, log, reg)
	if err != nil {
		return p, err
	}
	p.forwarder.Use(p.producer)
	response, partition := fetchBytes(c)
	if p.fetcher, err = kafka.NewFetcher(kafka.FetchOptions{Options: cluster, MaxBytes: response, PartitionBytes: partition}, log, reg); err != nil {
		return p, err
	}
	rules, err := newSources(c)
	if err != nil {
		return p, err
	}
	p.scheduler, err = scheduler.New(scheduler.Options{
		CommitInterval: c.Commit.Interval, MetadataLimit: c.Commit.MetadataLimit,
		SessionTimeout: c.Group.SessionTimeout, RebalanceTimeout: c.Group.RebalanceTimeout,
		MaxSkew: c.Clock.MaxSkew, OnJump: onJump(c.Clock.OnJump), Source: rules.of,
	}, scheduler.Parts{Log: p.fetcher, Recaller: p.fetcher, Outlet: outlet{p.forwarder}, Budget: p.budget, Clock: clock}, log, reg)
	if err != nil {
		return p, err
	}
	p.group, err = kafka.NewGroup(kafka.GroupOptions{
		Options: cluster, ID: c.Group.ID, InstanceID: c.Group.InstanceID,
		SessionTimeout: c.Group.SessionTimeout, RebalanceTimeout: c.Group.RebalanceTimeout,
		RebalanceDrain: c.Group.RebalanceDrain, Match: rules.isSource,
	}, p.scheduler, log, reg)
	return p, err
}

// closing is the end of the stop, after the group was left.
func (p *parts) closing(log *zap.Logger) steps {
	var s steps
	add := func(name string, stop func(ctx context.Context) error) { s = append(s, step{name, stop}) }
	if p.scheduler != nil {
		add("scheduler", func(context.Context) error { p.scheduler.Stop(); return nil })
	}
	if p.fetcher != nil {
		add("fetcher", func(context.Context) error { p.fetcher.Close(); return nil })
	}
	if p.producer != nil {
		add("producer", func(ctx context.Context) error {
			if err := p.producer.Close(ctx); err != nil {
				// No failure of the stop: it was awaited for as long as the configuration says.
				log.Warn("what was not answered before the end is in doubt, and may be sent again after the next start", zap.Error(err))
			}
			return nil
		})
	}
	if p.forwarder != nil {
		add("forwarder", func(context.Context) error { p.forwarder.Close(); return nil })
	}
	return s
}

func onJump(s string) scheduler.Jump {
	if s == "send" {
		return scheduler.JumpSend
	}
	return scheduler.JumpHold
}

// rejoinGrace is how long a member may be between two generations and still be called
// ready. A rebalance takes less and the partitions work on meanwhile; a sidecar that
// was not ready for it would take its pod out of service whenever another one restarts.
const rejoinGrace = 15 * time.Second

// member says whether the process as a whole can work.
func (p *parts) member() (bool, string) {
	st := p.group.Status()
	if st.Joined {
		p.joined.Store(true)
		return true, ""
	}
	if p.joined.Load() && st.LastError == "" && time.Since(st.Since) < rejoinGrace {
		return true, ""
	}
	if st.LastError != "" {
		return false, "not a member of the group: " + st.LastError
	}
	return false, "joining the group"
}

func (p *parts) schedulerTroubles() (out []Trouble) {
	for _, t := range p.scheduler.Troubles() {
		out = append(out, Trouble(t))
	}
	return out
}

func (p *parts) forwarderTroubles() (out []Trouble) {
	for _, t := range p.forwarder.Degraded() {
		out = append(out, Trouble(t))
	}
	return out
}

// sources are the configured ones with their rules and policies made once.
type sources struct {
	config *config.Config
	made   map[*config.Source]scheduler.Source
}

func newSources(c *config.Config) (*sources, error) {
	s := &sources{config: c, made: map[*config.Source]scheduler.Source{}}
	for i := range c.Sources {
		src := &c.Sources[i]
		made := scheduler.Source{Rules: s.rules(src)}
		var policy retry.Policy
		if src.Retry != nil {
			p, err := newPolicy(src.Retry)
			if err != nil {
				return nil, fmt.Errorf("sources[%d].retry: %w", i, err)
			}
			made.Policy, policy = p, *p
		}
		made.Fingerprint = fingerprint(c, src, policy)
		s.made[src] = made
	}
	return s, nil
}

func newPolicy(r *config.Retry) (*retry.Policy, error) {
	return retry.New(retry.Policy{
		Steps: r.Steps, Initial: r.Initial, Multiplier: r.Multiplier, MaxInterval: r.MaxInterval,
		Jitter: r.Jitter, MaxAttempts: r.Attempts(), MaxAge: r.MaxAge,
	})
}

func (s *sources) rules(src *config.Source) *delay.Rules {
	targets := s.config.TargetsOf(src)
	return &delay.Rules{
		Delay: src.Delay, HasDelay: src.Delay > 0, OriginTime: src.Base == "origin-time", MaxDelay: src.MaxDelay,
		Allow: targets.Allow, Deny: targets.Deny,
		AllowSources: s.config.Targets.AllowSources, MaxHops: s.config.Targets.MaxHops,
		IsSource: s.isSource, Retry: src.Retry != nil, AcceptBare: src.Retry != nil && src.Retry.AcceptBare,
		DeadLetterTopic: src.DeadLetterTopic, KeepSchedulingHeaders: s.config.Forward.KeepSchedulingHeaders,
		SourceTimestamp: s.config.Forward.Timestamp == "source",
	}
}

func (s *sources) isSource(topic string) bool {
	_, ok := s.config.SourceFor(topic)
	return ok
}

// of gives the rules of a claimed topic. One that no source matches cannot be
// claimed; should it happen, every record of it is refused by empty rules.
func (s *sources) of(topic string) scheduler.Source {
	if src, ok := s.config.SourceFor(topic); ok {
		made := s.made[src]
		made.Candidate = !s.config.Names(topic) && src.Delay == 0 && !made.Rules.AcceptBare
		return made
	}
	return scheduler.Source{Rules: &delay.Rules{}}
}

// fingerprint covers whatever in the configuration decides a record's due time,
// target or refusal. Two processes with the same settings have the same one.
func fingerprint(c *config.Config, src *config.Source, policy retry.Policy) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%v|%v|%v|%+v|%v|%v|%v|%v|%+v", src.Delay, src.Base, src.MaxDelay, c.TargetsOf(src), src.DeadLetterTopic,
		c.Targets.AllowSources, c.Targets.MaxHops, src.Retry != nil && src.Retry.AcceptBare, policy)
	return h.Sum64()
}
