package config

import (
	"math"
	"time"
)

const (
	day           = 24 * time.Hour
	kib           = 1 << 10
	mib           = 1 << 20
	gib           = 1 << 30
	maxAttempts   = 5
	attemptsUnset = math.MinInt
)

// Default is the configuration of an empty file.
func Default() *Config {
	c := &Config{
		Kafka: Kafka{Brokers: []string{"localhost:9092"}, ClientID: "delay-scheduler", MetadataRefresh: 30 * time.Second, SASL: SASL{Mechanism: "none"}},
		Group: Group{
			ID: "delay-scheduler", SessionTimeout: 10 * time.Second,
			RebalanceTimeout: time.Minute, RebalanceDrain: 5 * time.Second,
		},
		Targets: Targets{Allow: []string{"*"}, MaxHops: 10},
		Memory:  Memory{Budget: 256 * mib, MaxInFlight: 32 * mib},
		Forward: Forward{
			Timestamp: "now", GiveUpAfter: 10 * time.Minute, MaxLanes: 1000,
			Compression: "none", Linger: 5 * time.Millisecond,
		},
		Commit:   Commit{Interval: time.Second, MetadataLimit: 4096},
		Clock:    Clock{MaxSkew: time.Minute, OnJump: "hold"},
		HTTP:     HTTP{Listen: "127.0.0.1:8080"},
		Log:      Log{Level: "info", Format: "json"},
		Shutdown: Shutdown{DrainTimeout: 20 * time.Second},
	}
	delays, retries := defaultSource(), defaultSource()
	delays.Topics = []string{"*-delay"}
	retries.Topics = []string{"*-retry"}
	r := defaultRetry()
	retries.Retry = &r
	c.Sources = []Source{delays, retries}
	c.fill()
	return c
}

// defaultSource is what an entry of sources starts from.
func defaultSource() Source {
	return Source{Base: "timestamp", MaxDelay: 90 * day}
}

// defaultRetry is what a retry block starts from.
func defaultRetry() Retry {
	return Retry{
		Initial: time.Second, Multiplier: 2, MaxInterval: 5 * time.Minute,
		Jitter: 1, MaxAttempts: attemptsUnset,
	}
}

// fill sets what follows from other settings where nothing was said.
func (c *Config) fill() {
	for i := range c.Sources {
		if r := c.Sources[i].Retry; r != nil {
			r.MaxAttempts = r.Attempts()
		}
	}
}

// Attempts is the number of retries: what was set, else the number of steps, else 5.
func (r *Retry) Attempts() int {
	switch {
	case r.MaxAttempts != attemptsUnset:
		return r.MaxAttempts
	case len(r.Steps) > 0:
		return len(r.Steps)
	}
	return maxAttempts
}
