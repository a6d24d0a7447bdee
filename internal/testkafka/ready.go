package testkafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// readyPause is between two looks at a node that starts.
const readyPause = 25 * time.Millisecond

// ready waits until each of the nodes serves: it knows every running node, a topic can
// be created on all of them, and groups have a coordinator.
func (s *Server) ready(ctx context.Context, nodes ...*node) error {
	for _, n := range nodes {
		if err := s.nodeReady(ctx, n); err != nil {
			return fmt.Errorf("wait for node %d: %w", n.id, err)
		}
	}
	return nil
}

func (s *Server) nodeReady(ctx context.Context, n *node) error {
	client, err := kgo.NewClient(append(s.harnessOpts(),
		kgo.SeedBrokers(n.internal),
		kgo.RetryBackoffFn(func(int) time.Duration { return readyPause }),
		kgo.RequestRetries(0),
		kgo.MetadataMinAge(readyPause),
	)...)
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		err := probe(ctx, client, n, s.runningNodes())
		if err == nil {
			return nil
		}
		select {
		case <-n.process.exited:
			return errors.New("it has ended")
		case <-ctx.Done():
			return fmt.Errorf("not ready after %v: %w", startPatience, err)
		case <-time.After(readyPause):
		}
	}
}

// probe asks the node once for everything that tests will ask of it.
func probe(ctx context.Context, client *kgo.Client, n *node, nodes int) error {
	seed := client.SeedBrokers()[0]
	metadata, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, seed)
	if err != nil {
		return err
	}
	if len(metadata.Brokers) < nodes {
		return fmt.Errorf("it knows %d of %d nodes", len(metadata.Brokers), nodes)
	}
	if err := probeTopic(ctx, seed, nodes); err != nil {
		return err
	}
	return probeGroup(ctx, seed)
}

// probeTopic lets the controller judge a topic with a replica on every node without
// creating it: what it accepts now, it will accept from a test.
func probeTopic(ctx context.Context, broker kmsg.Requestor, nodes int) error {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic = "ready"
	topic.NumPartitions = 1
	topic.ReplicationFactor = int16(nodes)
	req := kmsg.NewPtrCreateTopicsRequest()
	req.ValidateOnly = true
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, broker)
	if err != nil {
		return err
	}
	for _, topic := range resp.Topics {
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("create a topic: %w", err)
		}
	}
	return nil
}

// probeGroup makes the broker create the topic of committed offsets, which otherwise is
// the first thing that the first consumer of a test waits for.
func probeGroup(ctx context.Context, broker kmsg.Requestor) error {
	if _, err := findCoordinator(ctx, broker, "ready"); err != nil {
		return fmt.Errorf("find a group coordinator: %w", err)
	}
	return nil
}
