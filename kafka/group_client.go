package kafka

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

const (
	// coordinatorPatience is how long one look for the coordinator may take. The
	// library asks again, as often as the configuration lets it.
	coordinatorPatience = 5 * time.Second
	// metadataPatience is how long the answer to a join waits for topics that were
	// there a moment ago and now seem gone.
	metadataPatience = time.Second
	// attendEvery is how often the coordinator is checked while it keeps us waiting.
	attendEvery = 2 * time.Second
)

// groupClient is the client that the library's consumer group sees. The group wants
// to know of every topic, partition and leader before it joins, and gives up at the
// first that is missing; we only want it to share out partitions. So this client
// answers from what is known:
//
//   - a topic that does not exist has no partitions, and that is no error;
//   - no partition is ever readable, so claims are held and never consumed: no look-up
//     of offsets or leaders, no fetch, no goroutines but one that waits;
//   - the coordinator is looked for with backoff, again and again, so that losing its
//     connection, or its broker, does not end the session as long as the broker
//     side keeps it.
//
// What it does not answer itself goes to a client of the library that holds no
// metadata and no connection.
type groupClient struct {
	sarama.Client

	config      *sarama.Config
	lookup      *lookup
	coordinator *groupCoordinator
	// tell is told what goes wrong with brokers, and nil when it is over.
	tell func(error)
	// moved is called as soon as it is known that the group has another generation.
	moved func()

	mu      sync.Mutex      // guards what follows
	attempt context.Context //nolint:containedctx // the library's interface has no context; this one ends waits in it
	end     context.CancelFunc
	known   map[string]topicState
	dealt   map[string]int // partitions that we, as the group's leader, have shared out; nil: we are not
}

// newGroupClient makes a client that has no connection yet.
func newGroupClient(o Options, config *sarama.Config, group string, tell func(error), moved func()) (*groupClient, error) {
	c := &groupClient{config: config, tell: tell, moved: moved, known: map[string]topicState{}}
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{
		&strategy{BalanceStrategy: sarama.NewBalanceStrategySticky(), client: c},
	}
	var err error
	if c.Client, err = sarama.NewClient(o.Brokers, config); err != nil {
		return nil, err
	}
	c.lookup = newLookup(o.config("group"), o.Brokers)
	c.coordinator = &groupCoordinator{config: config, group: group, lookup: c.lookup}
	c.attempt, c.end = context.WithCancel(context.Background())
	return c, nil
}

// begin opens a new attempt to join: waits are possible (again) until interrupt ends
// them, and the coordinator may take as long as a rebalance takes.
func (c *groupClient) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end()
	c.attempt, c.end = context.WithCancel(context.Background())
	c.dealt = nil
	c.coordinator.setPatience(0)
}

// interrupt ends everything that waits for a broker, also a JoinGroup.
func (c *groupClient) interrupt() {
	c.mu.Lock()
	c.end()
	c.mu.Unlock()
	c.coordinator.cut()
}

func (c *groupClient) waiting() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attempt
}

// trouble passes on what goes wrong, unless it is our own doing.
func (c *groupClient) trouble(err error) {
	if err == nil || c.waiting().Err() == nil {
		c.tell(err)
	}
}

// Coordinator gives a connection to the group's coordinator that was good a moment ago.
func (c *groupClient) Coordinator(string) (*sarama.Broker, error) {
	ctx, cancel := context.WithTimeout(c.waiting(), coordinatorPatience)
	defer cancel()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		link, err := c.coordinator.get(ctx)
		if err == nil {
			c.trouble(nil)
			return link.broker, nil
		}
		c.trouble(err)
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(wait):
		}
	}
}

// RefreshCoordinator looks the coordinator up again.
func (c *groupClient) RefreshCoordinator(string) error {
	ctx, cancel := context.WithTimeout(c.waiting(), coordinatorPatience)
	defer cancel()
	err := c.coordinator.refresh(ctx)
	if err != nil {
		c.trouble(err)
	}
	return err
}

// RefreshMetadata reads which partitions the topics have. Only when no broker answers
// and a topic has never been heard of it is an error: sharing out what is not known
// would take everything from everybody.
func (c *groupClient) RefreshMetadata(topics ...string) error {
	ctx, cancel := context.WithTimeout(c.waiting(), metadataPatience+2*askTimeout)
	defer cancel()
	deadline := time.Now().Add(metadataPatience)
	for wait := 100 * time.Millisecond; ; wait *= 2 {
		states, err := c.lookup.topics(ctx, topics...)
		if err == nil {
			// A broker that has just started may not have heard of every topic.
			late := time.Now().Add(wait).After(deadline)
			if c.learn(topics, states, late) {
				return nil
			}
			c.lookup.another()
		} else {
			c.trouble(err)
			if time.Now().Add(wait).After(deadline) || ctx.Err() != nil {
				if name, ok := c.unheard(topics); ok {
					return fmt.Errorf("nothing is known of topic %q: %w", name, err)
				}
				return nil
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// learn takes an answer. Unless forced it refuses one in which a topic that had
// partitions has none.
func (c *groupClient) learn(topics []string, states map[string]topicState, force bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range topics {
		if !force && len(c.known[name].Partitions) > 0 && len(states[name].Partitions) == 0 {
			return false
		}
	}
	for _, name := range topics {
		c.known[name] = states[name]
	}
	return true
}

func (c *groupClient) unheard(topics []string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range topics {
		if _, ok := c.known[name]; !ok {
			return name, true
		}
	}
	return "", false
}

// Partitions gives what is known to exist, with or without a leader.
func (c *groupClient) Partitions(topic string) ([]int32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.known[topic].Partitions), nil
}

// WritablePartitions is Partitions: leaders are not our concern.
func (c *groupClient) WritablePartitions(topic string) ([]int32, error) { return c.Partitions(topic) }

// Topics are those that were asked for.
func (c *groupClient) Topics() ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := make([]string, 0, len(c.known))
	for name := range c.known {
		names = append(names, name)
	}
	return names, nil
}

// Config is the consumer group's.
func (c *groupClient) Config() *sarama.Config { return c.config }

// PartitionNotReadable keeps the library from consuming what it claims: a claim then
// waits until the session ends.
func (c *groupClient) PartitionNotReadable(string, int32) bool { return true }

// GetOffset lets any start position be valid. Nothing is read from it.
func (c *groupClient) GetOffset(_ string, _ int32, at int64) (int64, error) {
	if at == sarama.OffsetNewest {
		return math.MaxInt64, nil
	}
	return 0, nil
}

// LeaderAndEpoch gives a broker that is never connected.
func (c *groupClient) LeaderAndEpoch(string, int32) (*sarama.Broker, int32, error) {
	return nobody, -1, nil
}

// Leader gives a broker that is never connected.
func (c *groupClient) Leader(string, int32) (*sarama.Broker, error) { return nobody, nil }

var nobody = sarama.NewBroker("never.dialled:0")

// Close ends the connections. The consumer group never calls it.
func (c *groupClient) Close() error {
	c.interrupt()
	c.coordinator.close()
	c.lookup.close()
	return c.Client.Close()
}

// attend checks, while ctx lasts and we wait for a join, that the coordinator is
// alive: a JoinGroup may rightly be left unanswered for a minute, so a broker that has
// died without a word would not be noticed otherwise.
func (c *groupClient) attend(ctx context.Context, waiting func() bool) {
	tick := time.NewTicker(attendEvery)
	defer tick.Stop()
	for failed := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		addr := c.coordinator.current()
		if addr == "" || !waiting() {
			failed = 0
			continue
		}
		probe := newLink(c.config, addr)
		stop := context.AfterFunc(ctx, probe.wire.cut)
		err := probe.open(connectTimeout)
		stop()
		probe.close()
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			failed = 0
			continue
		}
		if failed++; failed == 2 {
			c.trouble(fmt.Errorf("the group coordinator does not answer: %w", err))
			c.coordinator.cut()
			failed = 0
		}
	}
}

// strategy is the library's assignor, and tells the client how far a join has come.
type strategy struct {
	sarama.BalanceStrategy
	client *groupClient
}

// Plan is asked of the group's leader only. No other member has its part before the
// leader has dealt.
func (s *strategy) Plan(members map[string]sarama.ConsumerGroupMemberMetadata, topics map[string][]int32) (sarama.BalanceStrategyPlan, error) {
	s.client.moved()
	s.client.deal(topics)
	return s.BalanceStrategy.Plan(members, topics)
}

// OnAssignment is called when a join is over: from here on every answer is due at once.
func (s *strategy) OnAssignment(*sarama.ConsumerGroupMemberAssignment, int32) {
	s.client.moved()
	s.client.joined()
}

func (c *groupClient) deal(topics map[string][]int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dealt = make(map[string]int, len(topics))
	for name, partitions := range topics {
		c.dealt[name] = len(partitions)
	}
}

// shared is what we have shared out as the leader of the present generation; nil if
// we are not.
func (c *groupClient) shared() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dealt
}

// joined shortens the patience with the coordinator to what keeps the session alive.
func (c *groupClient) joined() {
	c.coordinator.setPatience(c.config.Consumer.Group.Session.Timeout / 3)
}
