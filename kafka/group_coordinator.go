package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// groupCoordinator is a connection to the broker that coordinates the group. It is
// found when first needed and again after any trouble.
type groupCoordinator struct {
	config *sarama.Config
	group  string
	lookup *lookup

	mu   sync.Mutex // guards addr and link, and that one caller at a time connects
	addr string     // "": not known
	link *link      // nil: none
	seen time.Time  // when refresh last found the same address

	// giving guards what follows, so that cut need not wait for a connection attempt.
	giving   sync.Mutex
	active   *link
	patience time.Duration // of every link; 0: the configuration's
	closed   bool
}

// get gives the connection, made if there is none. The link may go bad at any time.
func (c *groupCoordinator) get(ctx context.Context) (*link, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != nil {
		if c.link.ok() {
			return c.link, nil
		}
		c.drop()
	}
	if c.addr == "" {
		addr, err := c.lookup.coordinator(ctx, c.group)
		if err != nil {
			return nil, err
		}
		c.addr = addr
	}
	link := newLink(c.config, c.addr)
	if !c.use(link) {
		return nil, errCut
	}
	stop := context.AfterFunc(ctx, link.wire.cut)
	defer stop()
	if err := link.open(connectTimeout); err != nil {
		c.forget()
		return nil, err
	}
	c.link = link
	return link, nil
}

// forget drops the connection and the address. Asking the same broker again might
// give the same wrong answer.
func (c *groupCoordinator) forget() {
	c.drop()
	c.addr = ""
	c.lookup.another()
}

func (c *groupCoordinator) drop() {
	if c.link != nil {
		c.link.close()
		c.link = nil
	}
}

// refresh looks the address up again and keeps the connection if it is still right.
func (c *groupCoordinator) refresh(ctx context.Context) error {
	addr, err := c.lookup.coordinator(ctx, c.group)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		c.lookup.another()
		return err
	case addr == c.addr:
		if time.Since(c.seen) < suspicious {
			// Asked again so soon, the broker there will have said that it is not the
			// coordinator. Let somebody else answer next.
			c.lookup.another()
		}
		c.seen = time.Now()
	default:
		c.drop()
		c.addr = addr
	}
	return nil
}

// suspicious is how soon after another a question for the same thing means that the
// answer was of no use.
const suspicious = 3 * time.Second

// lost is called after an answer or a failure which means that the group is, or may
// be, coordinated by another broker.
func (c *groupCoordinator) lost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget()
}

func (c *groupCoordinator) use(link *link) bool {
	c.giving.Lock()
	defer c.giving.Unlock()
	c.active = link
	link.wire.patience.Store(int64(c.patience))
	return !c.closed
}

// cut ends whatever is waiting for the coordinator at the moment.
func (c *groupCoordinator) cut() {
	c.giving.Lock()
	defer c.giving.Unlock()
	if c.active != nil {
		c.active.wire.cut()
	}
}

// setPatience says how long the coordinator may take for an answer from now on.
func (c *groupCoordinator) setPatience(d time.Duration) {
	c.giving.Lock()
	defer c.giving.Unlock()
	c.patience = d
	if c.active != nil {
		c.active.wire.patience.Store(int64(d))
	}
}

// current is the address in use, "" if none is known.
func (c *groupCoordinator) current() string {
	c.giving.Lock()
	defer c.giving.Unlock()
	if c.active == nil {
		return ""
	}
	return c.active.addr
}

// heard is when the broker in use last answered.
func (c *groupCoordinator) heard() time.Time {
	c.giving.Lock()
	defer c.giving.Unlock()
	if c.active == nil {
		return time.Time{}
	}
	return time.Unix(0, c.active.wire.heard.Load())
}

// close ends the connection. Waits are ended by their contexts.
func (c *groupCoordinator) close() {
	c.giving.Lock()
	c.closed = true
	c.giving.Unlock()
	c.cut()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
}

// do sends one request to the coordinator. reached says that the broker may have seen
// the request: after an error its outcome is unknown.
func (c *groupCoordinator) do(ctx context.Context, within time.Duration, request func(*sarama.Broker) error) (reached bool, err error) {
	link, err := c.get(ctx)
	if err != nil {
		return false, err
	}
	if err := link.do(ctx, within, request); err != nil {
		c.lost()
		return true, fmt.Errorf("coordinator %s: %w", link.addr, plain(err))
	}
	return true, nil
}

// coordinatorMoved says that an answer came from a broker that is not, or not yet, the
// group's coordinator.
func coordinatorMoved(err error) bool {
	return errors.Is(err, sarama.ErrNotCoordinatorForConsumer) ||
		errors.Is(err, sarama.ErrConsumerCoordinatorNotAvailable)
}

// coordinatorBusy says that the broker is the coordinator and is still reading the
// group from its log.
func coordinatorBusy(err error) bool { return errors.Is(err, sarama.ErrOffsetsLoadInProgress) }
