package main

import (
	"fmt"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"delay-scheduler/config"
)

// newLogger makes the process's logger: JSON lines for machines, console for people.
func newLogger(c *config.Config) (*zap.Logger, error) {
	level, err := zapcore.ParseLevel(c.Log.Level)
	if err != nil {
		return nil, fmt.Errorf("log.level is %q: %w", c.Log.Level, err)
	}
	z := zap.NewProductionConfig()
	if c.Log.Format == "console" {
		z = zap.NewDevelopmentConfig()
		z.Development = false
	}
	z.Level = zap.NewAtomicLevelAt(level)
	z.Sampling = nil // logs are for state changes: none may be missing
	z.DisableStacktrace = true
	z.DisableCaller = true
	z.EncoderConfig.TimeKey = "time"
	z.EncoderConfig.EncodeTime = zapcore.ISO8601TimeEncoder
	return z.Build()
}
