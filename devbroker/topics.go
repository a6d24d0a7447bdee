package devbroker

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// createTimeout is far beyond what a request to this process takes.
const createTimeout = 10 * time.Second

// legalName is a real broker's rule, which the broker underneath does not have: a name
// that only works in dev would be found out in production.
var legalName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

func legal(name string) bool { return legalName.MatchString(name) && name != "." && name != ".." }

// internal names are the brokers' own; clients only ask about them.
func internal(name string) bool { return strings.HasPrefix(name, "__") }

// CreateTopic makes a topic; 0 partitions is the broker's default. A topic that exists
// is left as it is.
func (b *Broker) CreateTopic(name string, partitions int) error {
	if !legal(name) {
		return fmt.Errorf("create topic %q: a name has 1 to 249 of a-z A-Z 0-9 . _ -: %w", name, kerr.InvalidTopicException)
	}
	return b.createTopics(partitions, name)
}

func (b *Broker) createTopics(partitions int, names ...string) error {
	ctx, cancel := b.untilClose()
	defer cancel()
	client, err := b.client()
	if err != nil {
		return err
	}
	defer client.Close()
	if partitions <= 0 {
		partitions = b.partitions
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	for _, name := range names {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic = name
		topic.NumPartitions = int32(partitions)
		topic.ReplicationFactor = 1
		req.Topics = append(req.Topics, topic)
	}
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("create topics %q: %w", names, err)
	}
	var problems []error
	for _, topic := range resp.Topics {
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			problems = append(problems, fmt.Errorf("create topic %q: %w", topic.Topic, err))
		}
	}
	return errors.Join(problems...)
}

// createOnFirstUse makes the missing topics that a metadata request names, if the
// client asks for that, or always.
//
// The broker underneath can do it itself, but keeps such a topic in memory only: after
// a kill -9 the topic and every record acknowledged in it would be gone. An ordinary
// CreateTopics is written before it is answered, and the metadata request sleeps until then.
func (b *Broker) createOnFirstUse(always bool) {
	b.cluster.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if missing := b.missing(req.(*kmsg.MetadataRequest), always); len(missing) > 0 {
			b.cluster.SleepControl(func() { b.createMissing(missing) })
		}
		return nil, nil, false
	})
}

func (b *Broker) missing(req *kmsg.MetadataRequest, always bool) []string {
	if !req.AllowAutoTopicCreation && !always {
		return nil
	}
	var names []string
	for _, topic := range req.Topics {
		if topic.Topic != nil && legal(*topic.Topic) && !internal(*topic.Topic) && b.cluster.LeaderFor(*topic.Topic, 0) < 0 {
			names = append(names, *topic.Topic)
		}
	}
	return names
}

func (b *Broker) createMissing(names []string) {
	if err := b.createTopics(0, names...); err != nil && !errors.Is(err, context.Canceled) {
		b.log.Warn("a topic could not be made on first use", zap.Error(err))
	}
}

// untilClose is a context that Close ends, so that nothing waits for a broker that is gone.
func (b *Broker) untilClose() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), createTimeout)
	go func() {
		select {
		case <-b.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
