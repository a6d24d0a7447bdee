package main

import (
	"fmt"
	"io"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"delay-scheduler/app"
	"delay-scheduler/config"
)

// escaping escapes what a terminal would take for a command: the encoders leave some of
// it in texts that come from elsewhere.
type escaping struct{ to io.Writer }

// Write implements io.Writer. An entry comes in one piece.
func (e escaping) Write(entry []byte) (int, error) {
	if _, err := e.to.Write(app.Escape(entry)); err != nil {
		return 0, err
	}
	return len(entry), nil
}

// newLogger makes the process's logger: JSON lines for machines, console for people.
// It does not sample: logs are for state changes, and none may be missing.
func newLogger(c *config.Config, w io.Writer) (*zap.Logger, error) {
	level, err := zapcore.ParseLevel(c.Log.Level)
	if err != nil {
		return nil, fmt.Errorf("log.level is %q: %w", c.Log.Level, err)
	}
	enc := zap.NewProductionEncoderConfig()
	enc.TimeKey = "time"
	enc.EncodeTime = zapcore.ISO8601TimeEncoder
	enc.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewJSONEncoder(enc)
	if c.Log.Format == "console" {
		enc.EncodeLevel = zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(enc)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(escaping{w})), level)), nil
}
