package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"go.uber.org/zap"

	"delay-scheduler/config"
	"delay-scheduler/devbroker"
)

// DevOptions are those of the all-in-one process for a laptop.
type DevOptions struct {
	Data    string   // directory of the broker's data
	Listen  string   // address of the broker
	HTTP    string   // address of health, metrics and status
	Topics  []string // made at the start, beside those that are always there
	Version string
}

// Topics that dev always has: one of each kind, and a target.
const (
	DevDelayTopic  = "orders-delay"
	DevRetryTopic  = "orders-retry"
	DevDeadLetters = "orders-dlq"
	DevTarget      = "orders"
)

const (
	// devReadyEvery is how often dev looks whether the scheduler is ready.
	devReadyEvery = 20 * time.Millisecond
	// devReadyLate is when it says why it is not.
	devReadyLate = 10 * time.Second
)

// Dev is an embedded broker and a scheduler in one process.
type Dev struct {
	broker *devbroker.Broker
	app    *App
}

// NewDev starts the broker and binds all addresses. Run must follow.
func NewDev(o DevOptions, log *zap.Logger) (*Dev, error) {
	topics := []devbroker.Topic{{Name: DevDelayTopic}, {Name: DevRetryTopic}, {Name: DevDeadLetters, Partitions: 1}, {Name: DevTarget}}
	for _, t := range o.Topics {
		topics = append(topics, devbroker.Topic{Name: t})
	}
	broker, err := devbroker.Start(devbroker.Options{
		Listen: o.Listen, DataDir: o.Data, Topics: topics, AutoCreateAlways: true, Log: log,
	})
	if err != nil {
		return nil, err
	}
	c := config.Default()
	c.Kafka.Brokers = []string{broker.Addr()}
	c.Kafka.MetadataRefresh = time.Second // a topic made on first use is read soon
	c.Group.InstanceID = "dev"            // after a kill the partitions are taken back at once
	c.HTTP.Listen = o.HTTP
	a, err := New(c, o.Version, log)
	if err != nil {
		return nil, errors.Join(devHTTPError(o.HTTP, err), broker.Close())
	}
	a.unjudged = true
	return &Dev{broker: broker, app: a}, nil
}

// devHTTPError names the flag of dev instead of the key of a configuration.
func devHTTPError(address string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("serve HTTP on %s: the port is in use by another process: stop that one, or choose a free port with --http 127.0.0.1:0", address)
	}
	return fmt.Errorf("%w (--http)", err)
}

// Brokers is where clients connect.
func (d *Dev) Brokers() string { return d.broker.Addr() }

// HTTP is where health, metrics and status are served.
func (d *Dev) HTTP() string { return d.app.Address() }

// Health says how the scheduler is.
func (d *Dev) Health() Health { return d.app.health.now() }

// Run works until ctx ends, and stops in order; hurry cuts the waits short. It calls
// ready once, when the scheduler is.
func (d *Dev) Run(ctx, hurry context.Context, ready func()) error {
	ended := make(chan error, 1)
	go func() { ended <- d.app.Run(ctx, hurry) }()
	tick := time.NewTicker(devReadyEvery)
	defer tick.Stop()
	late := time.NewTimer(devReadyLate)
	defer late.Stop()
	for {
		select {
		case err := <-ended:
			return errors.Join(err, d.broker.Close())
		case <-late.C:
			d.app.log.Warn("not ready yet", zap.String("why", d.Health().Why))
		case <-tick.C:
			if d.Health().Ready {
				tick.Stop()
				late.Stop()
				ready()
			}
		}
	}
}

// DevData is the directory that dev uses unless told otherwise: the same for every
// start by the same user.
func DevData() (string, error) {
	base := os.Getenv("XDG_DATA_HOME")
	if !filepath.IsAbs(base) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find a directory for the broker's data: %w: name one with --data DIR", err)
		}
		base = filepath.Join(home, ".local", "share")
		if runtime.GOOS == "darwin" || runtime.GOOS == "windows" {
			if base, err = os.UserConfigDir(); err != nil {
				return "", fmt.Errorf("find a directory for the broker's data: %w: name one with --data DIR", err)
			}
		}
	}
	return filepath.Join(base, "delay-scheduler", "dev"), nil
}
