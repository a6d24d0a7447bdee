package kafka

import (
	"context"
	"testing"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"delay-scheduler/internal/testkafka"
)

// Whether the end of the context or the first question is noticed first is chance, so it
// is tried often.
func TestQuestionThatEndsBeforeItIsAskedLeavesNoConnectionBehind(t *testing.T) {
	fake := testkafka.Fake(t, kfake.NumBrokers(1))
	p, _ := testProducer(t, fake, nil)
	config := *p.loop.config
	a := newProduceAsker(&config, fake.Addrs())
	defer a.close()
	metadata := func(b *sarama.Broker) (*sarama.MetadataResponse, error) {
		return b.GetMetadata(&sarama.MetadataRequest{Version: 1})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		_, err := askAny(t.Context(), a, metadata)
		require.NoError(t, err)
		link := a.idle
		require.NotNil(t, link)
		_, err = askAny(ended, a, metadata)
		require.Error(t, err)
		a.wg.Wait()
		connected, _ := link.broker.Connected()
		require.True(t, !connected || a.idle == link, "it is open and nobody has it")
	}
}
