package cases

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"delay-scheduler/internal/testkafka"
)

// One far record keeps the committed offset where it is, so the group's lag counts what
// was delivered since; what is pending, overdue and done is told by metrics of our own.
func TestF49LagGrowsBehindOneFarRecordWhileTheMetricsShowNoWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	w.create("delay", "a", "dlq")
	p := w.start()
	w.flood(100, 0, 0)
	w.arrived("a", 100, 20*time.Second)
	before := time.Now()
	far := 24 * time.Hour
	w.produce(w.later("a", far.Milliseconds()))
	const behind = 50_000
	w.flood(behind, 0, 500)
	w.arrived("a", 100+behind, 60*time.Second)
	w.awaitAbove(100, 100+1+behind)

	// What a group-lag exporter and an autoscaler on it see.
	ends, err := testkafka.Admin(t, w.broker).ListEndOffsets(t.Context(), w.topic("delay"))
	require.NoError(t, err)
	end, there := ends.Lookup(w.topic("delay"), 0)
	require.True(t, there)
	lag := end.Offset - testkafka.Committed(t, w.broker, w.name, w.topic("delay"))[0].Offset
	require.Equal(t, int64(1+behind), lag)

	series := func(name string) float64 {
		return p.metric(fmt.Sprintf("delay_scheduler_%s{partition=\"0\",topic=%q}", name, w.topic("delay")))
	}
	require.Eventually(t, func() bool { return series("pending_records") == 1 }, 10*time.Second, 100*time.Millisecond)
	require.EqualValues(t, behind, series("completed_above_watermark"), "lag that is no work")
	require.Zero(t, series("overdue_not_in_flight_records"))
	require.Zero(t, series("oldest_overdue_seconds"))
	require.InDelta(t, before.Add(far).Unix(), series("next_due_timestamp_seconds"), 60)
	h := p.status().Health
	require.True(t, h.Ready)
	require.Empty(t, h.Degraded, "health is judged by what is overdue, not by lag")
}

// The other half: when work does wait, the metrics say so, and for how long.
func TestF49RecordsThatWaitForTheirTargetAreOverdueAndTheirAgeGrows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	w.create("delay", "dlq")
	p := w.start()
	w.flood(10, 0, 0) // to a target that does not exist
	series := func(name string) float64 {
		return p.metric(fmt.Sprintf("delay_scheduler_%s{partition=\"0\",topic=%q}", name, w.topic("delay")))
	}
	require.Eventually(t, func() bool {
		return series("overdue_not_in_flight_records") == 10 && series("oldest_overdue_seconds") > 2
	}, 30*time.Second, 100*time.Millisecond)
	require.Less(t, series("oldest_overdue_seconds"), 60.0)
	w.create("a")
	w.arrived("a", 10, 60*time.Second)
	require.Eventually(t, func() bool {
		return series("overdue_not_in_flight_records") == 0 && series("oldest_overdue_seconds") == 0
	}, 10*time.Second, 100*time.Millisecond)
}
