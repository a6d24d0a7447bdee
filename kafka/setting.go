package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/IBM/sarama"
)

const (
	// commitsKept is the brokers' setting of how long, in minutes, they keep the commits of
	// a group that is not there.
	commitsKept = "offsets.retention.minutes"
	// commitsKeptDefault is its default.
	commitsKeptDefault = 7 * 24 * time.Hour
	// commitsKeptMost keeps what is set to "for ever" from overflowing.
	commitsKeptMost = 100 * 365 * 24 * time.Hour
)

// errNotTold says that a broker has no such setting, or does not show it.
var errNotTold = errors.New("the broker does not tell")

// brokerSetting reads a setting of whichever broker answers first. Only a broker itself
// knows its settings, so each is asked for its own.
func brokerSetting(ctx context.Context, conf *sarama.Config, l *lookup, name string) (string, error) {
	m, err := l.metadata(ctx, "__consumer_offsets")
	if err != nil {
		return "", err
	}
	err = errNotTold
	for id, addr := range m.brokers {
		var values map[string]string
		if values, err = brokerSettings(ctx, conf, id, addr, name); err != nil {
			continue // another broker will do
		}
		if value, told := values[name]; told {
			return value, nil
		}
		return "", errNotTold
	}
	return "", err
}

// brokerSettings reads settings of one broker; one that it does not know is left out.
func brokerSettings(ctx context.Context, conf *sarama.Config, id int32, addr string, names ...string) (map[string]string, error) {
	req := configRequest(conf)
	req.Resources = []*sarama.ConfigResource{{Type: sarama.BrokerResource, Name: strconv.Itoa(int(id)), ConfigNames: names}}
	conn := connection{config: conf, addr: addr}
	defer conn.close()
	var resp *sarama.DescribeConfigsResponse
	err := conn.do(ctx, askTimeout, func(b *sarama.Broker) (err error) {
		resp, err = b.DescribeConfigs(req)
		return err
	})
	switch {
	case err == nil && len(resp.Resources) != 1:
		err = sarama.ErrIncompleteResponse
	case err == nil:
		err = resourceError(resp.Resources[0])
	}
	if err != nil {
		return nil, err
	}
	values := make(map[string]string, len(names))
	for _, c := range resp.Resources[0].Configs {
		values[c.Name] = c.Value
	}
	return values, nil
}

func configRequest(conf *sarama.Config) *sarama.DescribeConfigsRequest {
	req := &sarama.DescribeConfigsRequest{Version: 1}
	if conf.Version.IsAtLeast(sarama.V2_0_0_0) {
		req.Version = 2
	}
	return req
}

// keptFor is how long the brokers keep commits that nobody renews. Where that cannot be
// read it is taken to be Kafka's default.
func keptFor(ctx context.Context, conf *sarama.Config, l *lookup) (time.Duration, error) {
	value, err := brokerSetting(ctx, conf, l, commitsKept)
	if err != nil {
		return commitsKeptDefault, err
	}
	minutes, err := strconv.Atoi(value)
	if err != nil || minutes <= 0 {
		return commitsKeptDefault, fmt.Errorf("%s is %q", commitsKept, value)
	}
	return min(time.Duration(minutes), commitsKeptMost/time.Minute) * time.Minute, nil
}
