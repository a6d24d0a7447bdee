package devbroker

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/zap"
)

// logger passes on what the broker could not do. What it says below a warning is about
// single requests, and is for whoever debugs the broker itself.
type logger struct{ log *zap.Logger }

func (l logger) Logf(level kfake.LogLevel, format string, args ...any) {
	switch level {
	case kfake.LogLevelError:
		l.log.Error(fmt.Sprintf(format, args...))
	case kfake.LogLevelWarn:
		l.log.Warn(fmt.Sprintf(format, args...))
	}
}
