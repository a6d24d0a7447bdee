package kafka

import (
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"
)

func TestOptionsNameAllThatIsWrong(t *testing.T) {
	err := Options{MetadataRefresh: -1, Version: "three"}.validate()
	require.ErrorContains(t, err, "set kafka.brokers")
	require.ErrorContains(t, err, "check kafka.metadata_refresh")
	require.ErrorContains(t, err, `"three"`)
	require.ErrorContains(t, Options{Brokers: []string{"localhost"}}.validate(), `"localhost" is not host:port`)
	require.NoError(t, Options{Brokers: []string{"[::1]:9092", "b:9093"}, Version: "3.9"}.validate())
}

func TestOptionsVersion(t *testing.T) {
	for text, want := range map[string]sarama.KafkaVersion{"": sarama.V3_9_0_0, "3.9": sarama.V3_9_0_0, "2.8.0": sarama.V2_8_0_0, "0.11.0.2": sarama.V0_11_0_2} {
		got, err := Options{Version: text}.version()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestRolesShareNoConfiguration(t *testing.T) {
	o := Options{Brokers: []string{"localhost:9092"}, ClientID: "orders", MetadataRefresh: time.Minute}
	a, b := o.config("fetch"), o.config("commit")
	require.NoError(t, a.Validate())
	require.Equal(t, "orders-fetch", a.ClientID)
	require.Equal(t, "orders-commit", b.ClientID)
	require.Equal(t, noMetrics{}, a.MetricRegistry)
	require.Equal(t, time.Minute, a.Metadata.RefreshFrequency)
	require.False(t, a.Metadata.AllowAutoTopicCreation)
	require.False(t, a.Consumer.Offsets.AutoCommit.Enable)
}
