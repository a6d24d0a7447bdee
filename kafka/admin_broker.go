package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/IBM/sarama"
)

// RequestOffer is a kind of request that we make, and what a broker offers of it.
type RequestOffer struct {
	Name string
	// Need is the least version that does what we need, Speak the newest that we know.
	Need, Speak int16
	Offered     bool
	Least, Most int16 // that the broker takes
}

// requestKinds are those that the service makes. What we need is of Kafka 2.8 or older:
// topic ids (Metadata 10), stable offsets (OffsetFetch 7), static members (JoinGroup 5
// and the like), isolation levels. What we speak is what the library can encode.
var requestKinds = []struct {
	key         int16
	name        string
	need, speak int16
}{
	{0, "Produce", 7, 10},
	{1, "Fetch", 11, 12},
	{2, "ListOffsets", 2, 6},
	{3, "Metadata", 10, 11},
	{8, "OffsetCommit", 7, 8},
	{9, "OffsetFetch", 7, 8},
	{10, "FindCoordinator", 2, 3},
	{11, "JoinGroup", 5, 8},
	{12, "Heartbeat", 3, 4},
	{13, "LeaveGroup", 3, 5},
	{14, "SyncGroup", 3, 5},
	{18, "ApiVersions", 0, 4},
	{22, "InitProducerId", 1, 4},
}

// Offers says what a broker offers of the requests that we make.
func (a *Admin) Offers(ctx context.Context, addr string) ([]RequestOffer, error) {
	var resp *sarama.ApiVersionsResponse
	err := a.at(ctx, addr, func(b *sarama.Broker) (err error) {
		resp, err = b.ApiVersions(&sarama.ApiVersionsRequest{Version: 2})
		return err
	})
	if err == nil {
		err = kafkaError(sarama.KError(resp.ErrorCode))
	}
	if err != nil {
		return nil, fmt.Errorf("ask broker %s what it offers: %w", addr, err)
	}
	offers := make([]RequestOffer, 0, len(requestKinds))
	for _, kind := range requestKinds {
		o := RequestOffer{Name: kind.name, Need: kind.need, Speak: kind.speak}
		for _, k := range resp.ApiKeys {
			if k.ApiKey == kind.key {
				o.Offered, o.Least, o.Most = true, k.MinVersion, k.MaxVersion
			}
		}
		offers = append(offers, o)
	}
	return offers, nil
}

// ErrForbidden says that we are not allowed to do something.
var ErrForbidden = errors.New("the cluster does not allow it")

// BrokerConfigs reads settings of one broker; one that it does not know is left out. The
// error is ErrForbidden if they are not ours to see.
func (a *Admin) BrokerConfigs(ctx context.Context, b BrokerInfo, names ...string) (map[string]string, error) {
	values, err := brokerSettings(ctx, a.conf, b.ID, b.Addr, names...)
	if err != nil {
		return nil, fmt.Errorf("read the settings of broker %d: %w", b.ID, err)
	}
	return values, nil
}

// forbidden gives a refusal for want of rights a name that others know.
func forbidden(err error) error {
	for _, code := range []sarama.KError{
		sarama.ErrTopicAuthorizationFailed, sarama.ErrClusterAuthorizationFailed, sarama.ErrGroupAuthorizationFailed,
	} {
		if errors.Is(err, code) {
			return fmt.Errorf("%w (%w)", ErrForbidden, err)
		}
	}
	return err
}

// at makes one request to one broker.
func (a *Admin) at(ctx context.Context, addr string, call func(*sarama.Broker) error) error {
	conn := connection{config: a.conf, addr: addr}
	defer conn.close()
	return conn.do(ctx, askTimeout, call)
}

// AlterTopic changes settings of a topic and leaves the others as they are.
func (a *Admin) AlterTopic(ctx context.Context, name string, configs map[string]string) error {
	entries := make(map[string]sarama.IncrementalAlterConfigsEntry, len(configs))
	for k, v := range configs {
		entries[k] = sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &v}
	}
	req := &sarama.IncrementalAlterConfigsRequest{Resources: []*sarama.IncrementalAlterConfigsResource{
		{Type: sarama.TopicResource, Name: name, ConfigEntries: entries},
	}}
	err := whenSettled(ctx, func() error {
		var resp *sarama.IncrementalAlterConfigsResponse
		err := a.atController(ctx, func(b *sarama.Broker) (err error) {
			resp, err = b.IncrementalAlterConfigs(req)
			return err
		})
		switch {
		case err != nil:
			return err
		case len(resp.Resources) != 1:
			return sarama.ErrIncompleteResponse
		}
		r := resp.Resources[0]
		if err := forbidden(kafkaError(sarama.KError(r.ErrorCode))); err != nil {
			return fmt.Errorf("%w: %s", err, r.ErrorMsg)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("change the settings of topic %s: %w", name, err)
	}
	return nil
}
