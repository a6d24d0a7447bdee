package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/IBM/sarama"
	"go.uber.org/zap"
)

// leavePatience is how long a broker may take to hear that we leave. The group finds
// out in any case when the session runs out.
const leavePatience = 500 * time.Millisecond

// interrupt prepares a stop. The library is deaf to its context while it waits for a
// join, which may be a minute; then its connection is cut. While a generation lasts
// nothing need be done: its context has ended, and Cleanup releases the claims.
func (g *Group) interrupt() {
	g.turn.Lock()
	defer g.turn.Unlock()
	g.stopping = true
	if g.active {
		return
	}
	if g.current != nil {
		// Released before, and not replaced since: the handler may have gone on working
		// under the old generation.
		g.release()
	}
	g.client.interrupt()
}

// leave tells the group that we are gone, so that it need not wait for the session to
// run out. A static member keeps its place and says nothing.
func (g *Group) leave() {
	if g.group == nil {
		return
	}
	if g.opts.InstanceID != "" {
		g.client.interrupt() // the library would look for the coordinator all the same
	} else {
		g.client.begin()
		late := time.AfterFunc(leavePatience, g.client.interrupt)
		defer late.Stop()
	}
	err := g.group.Close()
	<-g.errorsDone
	g.group = nil
	switch {
	case g.opts.InstanceID != "":
		g.log.Info("stopped; the group keeps our place for the session timeout", zap.String("instance", g.opts.InstanceID))
	case err != nil:
		g.log.Warn("the group could not be told that we leave; it waits for the session timeout", zap.Error(err))
	default:
		g.log.Info("left the group")
	}
}

// sessionCause is why a session ended, nil if that is the ordinary course of things.
func sessionCause(ctx context.Context) error {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, context.Canceled), errors.Is(cause, sarama.ErrRebalanceInProgress):
		return nil
	}
	return cause
}

// fencing says that the broker does not know the session any more.
func fencing(cause error) bool {
	return errors.Is(cause, sarama.ErrUnknownMemberId) || errors.Is(cause, sarama.ErrIllegalGeneration) ||
		errors.Is(cause, sarama.ErrFencedInstancedId)
}
