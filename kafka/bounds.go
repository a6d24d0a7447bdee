package kafka

import (
	"context"
	"fmt"

	"github.com/IBM/sarama"
)

// Bounds are a partition's offsets: the first there is, the end (the next one to be
// written), and the stable end, up to which transactions are decided.
type Bounds struct{ Start, End, Stable int64 }

// listBounds asks the leader of some partitions of a topic for their bounds.
func listBounds(ctx context.Context, conn *connection, topic string, partitions ...int32) (map[int32]Bounds, error) {
	// The ends come last, and the stable one before the other: what is written meanwhile
	// must not make the start greater than an end.
	start, err := listOffsets(ctx, conn, topic, partitions, sarama.OffsetOldest, sarama.ReadUncommitted)
	if err != nil {
		return nil, err
	}
	stable, err := listOffsets(ctx, conn, topic, partitions, sarama.OffsetNewest, sarama.ReadCommitted)
	if err != nil {
		return nil, err
	}
	end, err := listOffsets(ctx, conn, topic, partitions, sarama.OffsetNewest, sarama.ReadUncommitted)
	if err != nil {
		return nil, err
	}
	all := make(map[int32]Bounds, len(partitions))
	for _, p := range partitions {
		all[p] = Bounds{Start: start[p], End: end[p], Stable: stable[p]}
	}
	return all, nil
}

func listOffsets(ctx context.Context, conn *connection, topic string, partitions []int32, at int64, isolation sarama.IsolationLevel) (map[int32]int64, error) {
	req := sarama.NewOffsetRequest(conn.config.Version)
	req.IsolationLevel = isolation
	for _, p := range partitions {
		req.AddBlock(topic, p, at, 1)
	}
	var resp *sarama.OffsetResponse
	err := conn.do(ctx, requestTimeout, func(broker *sarama.Broker) (err error) {
		resp, err = broker.GetAvailableOffsets(req)
		return err
	})
	if err != nil {
		return nil, err
	}
	offsets := make(map[int32]int64, len(partitions))
	for _, p := range partitions {
		block := resp.GetBlock(topic, p)
		if block == nil {
			return nil, sarama.ErrIncompleteResponse
		}
		if err := kafkaError(block.Err); err != nil {
			return nil, fmt.Errorf("list offsets of %s/%d: %w", topic, p, err)
		}
		offsets[p] = block.Offset
	}
	return offsets, nil
}
