package kafka

import (
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"
)

const (
	// heartbeatEvery is how often the coordinator hears of us, and so within what time
	// we learn that the group re-forms.
	heartbeatEvery = time.Second
	// coordinatorRetries bounds how often in a row a heartbeat may fail, each time after
	// a look for the coordinator, before the session is given up. The broker ends it
	// sooner if it is to end; until then there is nothing to gain by giving it up.
	coordinatorRetries = 40
	// joinRetries bounds the tries of one attempt to join.
	joinRetries = 20
	// joinBackoff is the pause between them.
	joinBackoff = 250 * time.Millisecond
	// joinAllowance is what an answer to a join may take beyond the rebalance timeout.
	joinAllowance = 10 * time.Second
)

// GroupOptions are how we take part in a group.
type GroupOptions struct {
	Options

	// ID is the group's.
	ID string
	// InstanceID makes the membership static: a process that comes back within the
	// session timeout gets its partitions back, and the others do not notice. Empty:
	// dynamic. No two processes may have the same.
	InstanceID string
	// SessionTimeout is how long the group waits for a member that is silent.
	SessionTimeout time.Duration
	// RebalanceTimeout is how long the group waits for its members to join anew.
	RebalanceTimeout time.Duration
	// RebalanceDrain is how long we let it wait for sends that are not answered yet.
	RebalanceDrain time.Duration
	// Match says of a topic whether it is a source. It must be false for dead-letter
	// topics.
	Match func(topic string) bool
}

func (o GroupOptions) validateGroup() error {
	var errs []error
	if err := o.validate(); err != nil {
		errs = append(errs, err)
	}
	if o.ID == "" {
		errs = append(errs, errors.New("no group id is given: set group.id"))
	}
	if o.SessionTimeout < time.Second {
		errs = append(errs, fmt.Errorf("session timeout %v is below 1s: check group.session_timeout", o.SessionTimeout))
	}
	if o.RebalanceTimeout <= o.RebalanceDrain {
		errs = append(errs, fmt.Errorf("rebalance timeout %v is not above the drain of %v: check group.rebalance_timeout and group.rebalance_drain", o.RebalanceTimeout, o.RebalanceDrain))
	}
	if o.RebalanceDrain < 0 {
		errs = append(errs, fmt.Errorf("rebalance drain %v is negative: check group.rebalance_drain", o.RebalanceDrain))
	}
	if o.Match == nil {
		errs = append(errs, errors.New("no rule for source topics is given"))
	}
	if len(errs) == 0 {
		// The library knows which instance ids brokers take.
		if err := o.groupConfig().Validate(); err != nil {
			errs = append(errs, fmt.Errorf("instance id %q: %w: check group.instance_id", o.InstanceID, err))
		}
	}
	return errors.Join(errs...)
}

// drainTime is how long Release may await what is in flight. The last commits come on
// top, and all of it never takes so long that the group takes us for dead.
func (o GroupOptions) drainTime() time.Duration { return min(o.RebalanceDrain, o.RebalanceTimeout/2) }

// commitTime is how long the committer may take for one commit, a look at what became
// of it included.
func (o GroupOptions) commitTime() time.Duration { return o.SessionTimeout / 2 }

func (o GroupOptions) instance() *string {
	if o.InstanceID == "" {
		return nil
	}
	return &o.InstanceID
}

// groupConfig is the configuration that the library's consumer group sees.
func (o GroupOptions) groupConfig() *sarama.Config {
	c := o.config("group")
	// A join is answered when the last member has joined.
	c.Net.ReadTimeout = o.RebalanceTimeout + joinAllowance

	g := &c.Consumer.Group
	g.Session.Timeout = o.SessionTimeout
	g.Heartbeat.Interval = min(heartbeatEvery, o.SessionTimeout/3)
	g.Rebalance.Timeout = o.RebalanceTimeout
	g.Rebalance.Retry.Max = joinRetries
	g.Rebalance.Retry.Backoff = joinBackoff
	g.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategySticky()}
	g.InstanceId = o.InstanceID

	// The client answers for metadata itself (groupClient), so the library's own checks
	// of it would see nothing new, and a deleted topic would be a rebalance.
	c.Metadata.RefreshFrequency = 0
	c.Metadata.Retry.Max = coordinatorRetries
	c.Metadata.Retry.Backoff = joinBackoff
	c.Metadata.Retry.BackoffFunc = nil

	// Claims are never consumed. Should one be, it moves no data.
	c.ChannelBufferSize = 0
	c.Consumer.Fetch.Default = 1
	c.Consumer.Fetch.MaxBytes = 1
	c.Consumer.MaxWaitTime = 100 * time.Millisecond
	c.Consumer.IsolationLevel = sarama.ReadUncommitted
	g.ResetInvalidOffsets = true
	c.Consumer.Return.Errors = true // read by Group.open
	return c
}
