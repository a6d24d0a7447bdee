package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/IBM/sarama"

	"delay-scheduler/offset"
)

// ErrTopicExists says that a topic of that name is there already.
var ErrTopicExists = errors.New("the topic exists already")

// metadataLimit is the broker's setting for how long commit metadata may be.
const metadataLimit = "offset.metadata.max.bytes"

// TopicInfo is one topic of a cluster.
type TopicInfo struct {
	Name       string
	ID         offset.TopicID // zero where the broker is too old for them
	Partitions int
	Internal   bool
	Err        error // the topic is there and we may not see it
}

// Topics lists the topics by name.
func (a *Admin) Topics(ctx context.Context) ([]TopicInfo, error) {
	m, err := a.lookup.metadata(ctx)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	infos := make([]TopicInfo, 0, len(m.topics))
	for _, name := range slices.Sorted(maps.Keys(m.topics)) {
		t := m.topics[name]
		infos = append(infos, TopicInfo{Name: name, ID: t.id, Partitions: len(t.partitions), Internal: t.internal, Err: t.err})
	}
	return infos, nil
}

// CreateTopic makes a topic and waits until it can be used. A replication of -1 is the
// broker's default. The error is ErrTopicExists if it is there.
func (a *Admin) CreateTopic(ctx context.Context, name string, partitions int32, replication int16, configs map[string]string) error {
	detail := &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: replication, ConfigEntries: map[string]*string{}}
	for k, v := range configs {
		detail.ConfigEntries[k] = &v
	}
	req := sarama.NewCreateTopicsRequest(a.conf.Version, map[string]*sarama.TopicDetail{name: detail}, requestTimeout, false)
	err := whenSettled(ctx, func() error {
		var resp *sarama.CreateTopicsResponse
		err := a.atController(ctx, func(b *sarama.Broker) (err error) {
			resp, err = b.CreateTopics(req)
			return err
		})
		if err != nil {
			return err
		}
		result := resp.TopicErrors[name]
		switch {
		case result == nil:
			return sarama.ErrIncompleteResponse
		case errors.Is(result.Err, sarama.ErrTopicAlreadyExists):
			return ErrTopicExists
		case result.Err != sarama.ErrNoError:
			return result
		}
		return nil
	})
	if err == nil {
		// The controller knows it before the brokers do.
		_, err = a.Bounds(ctx, name)
		for n := 0; errors.Is(err, ErrUnknownTopic) && n < settleTries && pause(ctx, settlePause); n++ {
			_, err = a.Bounds(ctx, name)
		}
	}
	if err != nil {
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	return nil
}

// DeleteTopic deletes a topic. The error is ErrUnknownTopic if there is none.
func (a *Admin) DeleteTopic(ctx context.Context, name string) error {
	req := sarama.NewDeleteTopicsRequest(a.conf.Version, []string{name}, requestTimeout)
	err := whenSettled(ctx, func() error {
		var resp *sarama.DeleteTopicsResponse
		err := a.atController(ctx, func(b *sarama.Broker) (err error) {
			resp, err = b.DeleteTopics(req)
			return err
		})
		if err != nil {
			return err
		}
		code, ok := resp.TopicErrorCodes[name]
		switch {
		case !ok:
			return sarama.ErrIncompleteResponse
		case errors.Is(code, sarama.ErrUnknownTopicOrPartition):
			return ErrUnknownTopic
		}
		return kafkaError(code)
	})
	if err != nil {
		return fmt.Errorf("delete topic %s: %w", name, err)
	}
	return nil
}

// atController makes a request to the cluster's controller.
func (a *Admin) atController(ctx context.Context, call func(*sarama.Broker) error) error {
	// The answer names the controller whatever is asked; one topic is less than all.
	m, err := a.lookup.metadata(ctx, "__consumer_offsets")
	if err != nil {
		return err
	}
	addr, ok := m.brokers[m.controller]
	if !ok {
		return sarama.ErrNotController
	}
	conn := connection{config: a.conf, addr: addr}
	defer conn.close()
	return conn.do(ctx, requestTimeout+connectTimeout, call)
}

// ConfigValue is one setting of a topic.
type ConfigValue struct {
	Value string
	// Own says that it was set for this topic, and not for all.
	Own bool
}

// TopicConfigs gives all settings of some topics. The error is ErrUnknownTopic if one
// of them does not exist.
func (a *Admin) TopicConfigs(ctx context.Context, topics ...string) (map[string]map[string]ConfigValue, error) {
	req := a.configRequest()
	for _, name := range topics {
		req.Resources = append(req.Resources, &sarama.ConfigResource{Type: sarama.TopicResource, Name: name})
	}
	var resp *sarama.DescribeConfigsResponse
	err := a.lookup.ask(ctx, func(b *sarama.Broker) (err error) {
		resp, err = b.DescribeConfigs(req)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("describe topics: %w", unreachable(err))
	}
	all := make(map[string]map[string]ConfigValue, len(topics))
	for _, r := range resp.Resources {
		if err := resourceError(r); err != nil {
			return nil, fmt.Errorf("describe topic %s: %w", r.Name, err)
		}
		values := make(map[string]ConfigValue, len(r.Configs))
		for _, c := range r.Configs {
			values[c.Name] = ConfigValue{Value: c.Value, Own: c.Source == sarama.SourceTopic}
		}
		all[r.Name] = values
	}
	return all, nil
}

// MetadataLimit is how many characters of commit metadata the brokers take.
func (a *Admin) MetadataLimit(ctx context.Context) (int, error) {
	limit, err := a.metadataLimit(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the brokers' %s: %w", metadataLimit, err)
	}
	return limit, nil
}

func (a *Admin) metadataLimit(ctx context.Context) (int, error) {
	value, err := brokerSetting(ctx, a.conf, a.lookup, metadataLimit)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(value)
}

func (a *Admin) configRequest() *sarama.DescribeConfigsRequest { return configRequest(a.conf) }

func resourceError(r *sarama.ResourceResponse) error {
	code := sarama.KError(r.ErrorCode)
	if errors.Is(code, sarama.ErrUnknownTopicOrPartition) {
		return ErrUnknownTopic
	}
	return forbidden(kafkaError(code))
}
