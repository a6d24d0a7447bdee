package main

import (
	"context"
	"fmt"
	"time"
)

// warmUp writes and copies as much as a measurement does, and measures nothing. A JVM
// that has just started takes several times as long for the same: the first of three
// rounds said more of it than of us, and so did the idle probe.
func (b *bench) warmUp(ctx context.Context) error {
	b.say("warm-up of the broker")
	topics, remove, err := b.cluster.createAll(ctx, "warm", "warm-copy")
	if err != nil {
		return fmt.Errorf("warm the broker up: %w", err)
	}
	defer remove()
	if _, err := b.load(ctx, topics[0], b.o.records, recipe{target: topics[1], due: time.Now().UnixMilli}); err != nil {
		return fmt.Errorf("warm the broker up: %w", err)
	}
	if _, err := b.copy(ctx, topics[0], topics[1], openOwn); err != nil {
		return fmt.Errorf("warm the broker up: %w", err)
	}
	return nil
}
