package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"delay-scheduler/app"
	"delay-scheduler/config"
	"delay-scheduler/scheduler"
)

// What is read from outside has to be what the product writes.
func TestStatusOfTheProductIsUnderstood(t *testing.T) {
	written := app.Status{
		Health: app.Health{Ready: true}, Budget: app.BudgetStatus{UsedBytes: 4640},
		Partitions: []scheduler.PartitionStatus{{Pending: 4}, {Partition: 1, Pending: 6}},
	}
	text, err := json.Marshal(written)
	require.NoError(t, err)

	var s status
	require.NoError(t, json.Unmarshal(text, &s))

	require.True(t, s.Health.Ready)
	require.Equal(t, int64(4640), s.Budget.Used)
	require.Len(t, s.Partitions, 2)
	require.Equal(t, 10, s.pending())
}

func TestConfigurationIsValidAndSaysWhatTheReportSays(t *testing.T) {
	p := process{dir: t.TempDir(), name: "bench-1-delay", source: "bench-1-delay", brokers: []string{"a:1", "b:2"}, budget: budget, listen: "127.0.0.1:1"}
	require.NoError(t, writeConfig(&p))

	c, err := config.Load(p.file("yaml"), nil)

	require.NoError(t, err)
	require.Equal(t, []string{"a:1", "b:2"}, c.Kafka.Brokers)
	require.Equal(t, "bench-1-delay-0", c.Group.InstanceID)
	require.Equal(t, []string{"bench-1-delay"}, c.Sources[0].Topics)
	require.Equal(t, int64(1<<30), int64(c.Memory.Budget))
	require.Equal(t, linger, c.Forward.Linger, "the copies are set up like the product")
	require.Equal(t, int64(inFlight), int64(c.Memory.MaxInFlight), "the copies are set up like the product")
	require.Equal(t, "none", c.Forward.Compression, "the copies are set up like the product")
}
