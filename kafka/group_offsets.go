package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"
)

// offsetsTimeout bounds one look at the group's offsets.
const offsetsTimeout = 3 * time.Second

// committedOffset is what the group has of a partition; offset -1: nothing.
type committedOffset struct {
	offset   int64
	metadata string
}

// offsets reads what the group has committed, once. Offsets that a transaction has
// pending are not there yet: sarama.ErrUnstableOffsetCommit.
func (c *groupCoordinator) offsets(ctx context.Context, places []place) (map[place]committedOffset, error) {
	wanted := make(map[string][]int32)
	for _, p := range places {
		wanted[p.topic] = append(wanted[p.topic], p.partition)
	}
	req := sarama.NewOffsetFetchRequest(c.config.Version, c.group, wanted)
	req.RequireStable = true
	var resp *sarama.OffsetFetchResponse
	if _, err := c.do(ctx, offsetsTimeout, func(b *sarama.Broker) (err error) {
		resp, err = b.FetchOffset(req)
		return err
	}); err != nil {
		return nil, fmt.Errorf("read the group's offsets: %w", err)
	}
	if err := kafkaError(resp.GroupError()); err != nil {
		if coordinatorMoved(err) {
			c.lost()
		}
		return nil, fmt.Errorf("read the group's offsets: %w", err)
	}
	found := make(map[place]committedOffset, len(places))
	for _, p := range places {
		block := resp.GetBlock(p.topic, p.partition)
		if block == nil {
			return nil, fmt.Errorf("read the offset of %s/%d: %w", p.topic, p.partition, sarama.ErrIncompleteResponse)
		}
		switch block.Err {
		case sarama.ErrNoError:
			found[p] = committedOffset{block.Offset, block.Metadata}
		case sarama.ErrUnknownTopicOrPartition:
			found[p] = committedOffset{offset: -1} // deleted since it was claimed
		default:
			if coordinatorMoved(block.Err) {
				c.lost()
			}
			return nil, fmt.Errorf("read the offset of %s/%d: %w", p.topic, p.partition, block.Err)
		}
	}
	return found, nil
}

// awaitOffsets reads until it succeeds or ctx ends. failed is told of every failure.
func (c *groupCoordinator) awaitOffsets(ctx context.Context, places []place, failed func(error)) (map[place]committedOffset, error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		found, err := c.offsets(ctx, places)
		if err == nil {
			return found, nil
		}
		if !errors.Is(err, sarama.ErrUnstableOffsetCommit) {
			failed(err)
		}
		if !pause(ctx, wait) {
			return nil, context.Cause(ctx)
		}
	}
}
