package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// step is one part of a stop. A step that fails does not keep the others from
// running.
type step struct {
	name string
	stop func(ctx context.Context) error
}

// steps run in the order in which they were added. (Not the reverse of the start:
// design.md's stop order serves the HTTP last so that a drain can be watched.)
type steps []step

func (s steps) run(ctx context.Context, log *zap.Logger) error {
	var errs []error
	for _, st := range s {
		began := time.Now()
		if err := st.stop(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", st.name, err))
		}
		log.Debug("stopped", zap.String("step", st.name), zap.Duration("took", time.Since(began)))
	}
	return errors.Join(errs...)
}
