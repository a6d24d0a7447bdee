package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/IBM/sarama"
)

// Committed is what a group has stored for a partition.
type Committed struct {
	Offset   int64 // -1: nothing
	Metadata string
}

// Committed reads what a group has stored for all partitions of some topics. A group
// that never was has stored nothing. The error is ErrUnknownTopic if one of the topics
// does not exist.
func (a *Admin) Committed(ctx context.Context, group string, topics ...string) (map[string]map[int32]Committed, error) {
	var places []place
	for _, name := range topics {
		t, _, err := a.topic(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("look up topic %s: %w", name, err)
		}
		for p := range t.partitions {
			places = append(places, place{name, p})
		}
	}
	found, err := a.committedAt(ctx, group, places)
	if err != nil {
		return nil, fmt.Errorf("read the offsets of group %s: %w", group, err)
	}
	all := make(map[string]map[int32]Committed, len(topics))
	for _, p := range places {
		if all[p.topic] == nil {
			all[p.topic] = make(map[int32]Committed)
		}
		c, ok := found[p]
		if !ok {
			c.offset = -1
		}
		all[p.topic][p.partition] = Committed{Offset: c.offset, Metadata: c.metadata}
	}
	return all, nil
}

// committedAt asks the group's coordinator, until offsets that a transaction has
// pending are decided and the coordinator has loaded the group.
func (a *Admin) committedAt(ctx context.Context, group string, places []place) (map[place]committedOffset, error) {
	coordinator := &groupCoordinator{config: a.conf, group: group, lookup: a.lookup}
	defer coordinator.close()
	for n := 1; ; n++ {
		found, err := coordinator.offsets(ctx, places)
		if errors.Is(err, sarama.ErrGroupIDNotFound) {
			return nil, nil
		}
		again := coordinatorMoved(err) || coordinatorBusy(err) || errors.Is(err, sarama.ErrUnstableOffsetCommit)
		if err == nil || !again || n == settleTries || !pause(ctx, settlePause) {
			return found, err
		}
	}
}
