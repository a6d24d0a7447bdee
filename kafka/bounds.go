package kafka

import (
	"context"
	"fmt"

	"github.com/IBM/sarama"
)

// Bounds are a partition's offsets: the first there is, the end (the next one to be
// written), and the stable end, up to which transactions are decided.
type Bounds struct{ Start, End, Stable int64 }

// listBounds asks a partition's leader for its bounds.
func listBounds(ctx context.Context, conn *connection, topic string, partition int32) (Bounds, error) {
	var b Bounds
	for _, q := range []struct {
		at        int64
		isolation sarama.IsolationLevel
		into      *int64
	}{
		{sarama.OffsetOldest, sarama.ReadUncommitted, &b.Start},
		{sarama.OffsetNewest, sarama.ReadCommitted, &b.Stable},
		{sarama.OffsetNewest, sarama.ReadUncommitted, &b.End},
	} {
		req := sarama.NewOffsetRequest(conn.config.Version)
		req.IsolationLevel = q.isolation
		req.AddBlock(topic, partition, q.at, 1)
		var resp *sarama.OffsetResponse
		err := conn.do(ctx, requestTimeout, func(broker *sarama.Broker) (err error) {
			resp, err = broker.GetAvailableOffsets(req)
			return err
		})
		if err != nil {
			return Bounds{}, err
		}
		block := resp.GetBlock(topic, partition)
		if block == nil {
			return Bounds{}, sarama.ErrIncompleteResponse
		}
		if err := kafkaError(block.Err); err != nil {
			return Bounds{}, fmt.Errorf("list offsets of %s/%d: %w", topic, partition, err)
		}
		*q.into = block.Offset
	}
	return b, nil
}
