package security

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"go.uber.org/zap"

	"delay-scheduler/app"
	"delay-scheduler/internal/testkafka"
	"delay-scheduler/measure"
)

// measures runs a measurement with the rights that docs/operations.md names.
func measures(t *testing.T, b *testkafka.Cluster) {
	w := newWorld(t, b, user)
	prefix := w.name + "-bench"
	granted := []testkafka.Access{{User: user, Group: prefix, Prefixed: true, Operation: kadm.OpRead}}
	for _, operation := range []kadm.ACLOperation{kadm.OpCreate, kadm.OpDelete, kadm.OpRead, kadm.OpWrite} {
		granted = append(granted, testkafka.Access{User: user, Topic: prefix, Prefixed: true, Operation: operation})
	}
	b.Grant(granted...)

	r, err := app.Measure(t.Context(), t.Context(), w.settings(logins), app.MeasureOptions{
		Self: true, Version: "test",
		Options: measure.Options{
			Topics: measure.NewTopics(prefix, "-source", 1, time.Now()), Partitions: 2, Replication: -1,
			Count: 300, Rate: 1000, Delays: measure.Fixed(500 * time.Millisecond), ValueBytes: 100, Appear: patience, Patience: patience,
		},
	}, zap.NewNop())

	require.NoError(t, err)
	require.Empty(t, r.Broken())
	require.Equal(t, 300, r.Forwarded)
	require.True(t, r.BrokerStamped)
}
