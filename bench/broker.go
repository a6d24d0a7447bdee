package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"delay-scheduler/internal/testkafka"
	"delay-scheduler/kafka"
)

const (
	// partitions of every topic, source or target.
	partitions = 12
	// heap of the broker that is started, in MB: what a small one in production has.
	heap = 1024
	// adminWait is for one thing asked of the cluster on a busy machine.
	adminWait = 60 * time.Second
)

// cluster is the Kafka that is measured on.
type cluster struct {
	brokers []string
	version string
	admin   *kafka.Admin
	server  *testkafka.Server // nil: it was there already
	made    int               // topics
}

// openCluster connects to the brokers, or starts one.
func openCluster(brokers []string) (*cluster, error) {
	c := &cluster{brokers: brokers, version: os.Getenv(testkafka.EnvBrokersVersion)}
	if c.version == "" {
		c.version = "of unknown version"
	}
	if len(brokers) == 0 {
		if ok, why := testkafka.Available(); !ok {
			return nil, fmt.Errorf("start a broker: %s: name one that runs with -brokers", why)
		}
		server, err := testkafka.Launch(testkafka.WithOptimizer(), testkafka.WithHeap(heap), testkafka.WithListener(secure, testkafka.Listener{TLS: true}))
		if err != nil {
			return nil, err
		}
		c.server, c.brokers, c.version = server, server.Addrs(), server.Version()
	}
	admin, err := kafka.NewAdmin(c.options())
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	c.admin = admin
	return c, nil
}

func (c *cluster) options() kafka.Options {
	return kafka.Options{Brokers: c.brokers, ClientID: "bench"}
}

func (c *cluster) close() error {
	if c.admin != nil {
		c.admin.Close()
	}
	if c.server != nil {
		return c.server.Close()
	}
	return nil
}

// create makes a topic that the broker stamps, with a name of its own that ends in the
// suffix.
func (c *cluster) create(ctx context.Context, suffix string) (string, error) {
	c.made++
	name := "bench-" + strconv.FormatInt(time.Now().UnixMilli(), 36) + "-" + strconv.Itoa(c.made) + "-" + suffix
	ctx, cancel := context.WithTimeout(ctx, adminWait)
	defer cancel()
	return name, c.admin.CreateTopic(ctx, name, partitions, -1, map[string]string{
		"message.timestamp.type": "LogAppendTime",
		// A burst is not to be cut short, nor a measurement disturbed, by housekeeping.
		"retention.ms": "-1",
	})
}

// createAll makes one topic for each suffix. Remove deletes those that were made, also
// after an error and when ctx has ended.
func (c *cluster) createAll(ctx context.Context, suffixes ...string) (names []string, remove func(), err error) {
	remove = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), adminWait)
		defer cancel()
		for _, name := range names {
			_ = c.admin.DeleteTopic(ctx, name) // What is left behind is seen by its name.
		}
	}
	for _, suffix := range suffixes {
		name, err := c.create(ctx, suffix)
		if err != nil {
			remove()
			return nil, nil, err
		}
		names = append(names, name)
	}
	return names, remove, nil
}
