package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"delay-scheduler/delay"
	"delay-scheduler/kafka"
)

// Scan reads a topic from its start to its present end with the scheduler's own fetcher,
// and says when the first fetch began. Visit is called by one goroutine for each
// partition, and must not keep what it gets unless it means to keep the whole response.
func Scan(ctx context.Context, admin *kafka.Admin, o kafka.Options, topic string, visit func(partition int32, records []delay.Record) error) (began time.Time, err error) {
	ends, err := admin.Bounds(ctx, topic)
	if err != nil {
		return began, err
	}
	f, err := kafka.NewFetcher(kafka.FetchOptions{Options: o}, zap.NewNop(), nil)
	if err != nil {
		return began, err
	}
	defer f.Close()
	g, ctx := errgroup.WithContext(ctx)
	began = time.Now()
	for partition, bounds := range ends {
		if bounds.Start < bounds.Stable {
			g.Go(func() error { return scanPartition(ctx, f, topic, partition, bounds, visit) })
		}
	}
	if err := g.Wait(); err != nil {
		return began, fmt.Errorf("read %s: %w", topic, err)
	}
	return began, nil
}

func scanPartition(ctx context.Context, f *kafka.Fetcher, topic string, partition int32, bounds kafka.Bounds, visit func(int32, []delay.Record) error) error {
	stream := f.Open(topic, partition, bounds.Start)
	defer stream.Close()
	var trouble error // passes by itself, or is what there is to say at the end of ctx
	for next := bounds.Start; next < bounds.Stable; {
		select {
		case batch := <-stream.Batches():
			next, trouble = batch.Next, batch.Err
			if len(batch.Records) == 0 {
				continue
			}
			if err := visit(partition, batch.Records); err != nil {
				return err
			}
		case <-ctx.Done():
			return errors.Join(trouble, context.Cause(ctx))
		}
	}
	return nil
}
