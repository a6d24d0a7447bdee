package cases

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"delay-scheduler/internal/testkafka"
)

// bystander produces fifty records in a second to a source of its own, due after one to
// three seconds, and tells how late those were that fell due in a span of time.
type bystander struct {
	w    *world
	stop func() int
}

func (w *world) bystander(source string, partition int32, target string) *bystander {
	return &bystander{w, w.steady(20*time.Millisecond, func(i int) *kgo.Record {
		r := w.delayed(target, i, 1000, 1000+rand.Int64N(2000), partition)
		r.Topic = w.topic(source)
		return r
	})}
}

// ended waits for the last one, and says that all came once.
func (b *bystander) ended(target string) []*kgo.Record {
	b.w.t.Helper()
	return b.w.complete(target, b.stop(), 20*time.Second)
}

// between are the records that were due then.
func between(t *testing.T, recs []*kgo.Record, from, to time.Time) (some []*kgo.Record) {
	t.Helper()
	for _, r := range recs {
		if due := number(t, header(r, "delay-due")); due >= from.UnixMilli() && due < to.UnixMilli() {
			some = append(some, r)
		}
	}
	return some
}

// undisturbed says that those due while something went on were no later than others. An
// allowance, in ms, is for the processors that all of them share.
func undisturbed(t *testing.T, recs []*kgo.Record, from, to time.Time, allowance int64) {
	t.Helper()
	quiet, during := late(t, between(t, recs, from.Add(-time.Hour), from)), late(t, between(t, recs, from, to))
	t.Logf("before: %v; meanwhile: %v", quiet, during)
	require.Greater(t, len(quiet), 50)
	require.Greater(t, len(during), 50, "it was over too soon")
	require.Less(t, during.at(99), max(3*quiet.at(99), allowance), "the others were held up")
}

// A source that floods the service with records of days fills the budget, and takes
// nothing of what the others need.
func TestFloodOfFarRecordsTakesNothingFromAnotherSource(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	w.createWith("flood-delay", 4, testkafka.LogAppendTime())
	w.create("calm-delay", "flood-dlq", "calm-dlq", "a", "b")
	p := w.start(w.static("one"), memory(smallBudget, smallInFlight))
	calm := w.bystander("calm-delay", 0, "b")
	w.arrivedOf("b", 20*time.Second, 150)
	// What the other source has pending is within its share, which is a fifth of half of
	// the budget.
	const held = 2000
	began := time.Now()
	soon := began.Add(scaled(15*time.Second, 5*time.Minute))
	w.stream(held, func(i int) *kgo.Record {
		r := w.record("calm-delay", "a", text("deliver-at", millis(soon.Add(time.Duration(rand.Int64N(int64(3*time.Second)))))))
		r.Value = sized(i, 1000)
		return r
	})
	n := many(50_000, 1_000_000)
	w.stream(n, func(i int) *kgo.Record {
		r := w.delayed("a", i, 1024, time.Hour.Milliseconds()+rand.Int64N((23*time.Hour).Milliseconds()), int32(i%4))
		r.Topic = w.topic("flood-delay")
		return r
	})
	p.awaitRead("flood-delay", scaled(30*time.Second, 4*time.Minute))
	p.awaitRead("calm-delay", 10*time.Second)
	require.True(t, time.Now().Before(soon), "the flood took longer than there was to see")
	require.Positive(t, p.far("flood-delay"), "the flood fits into the budget")
	require.Zero(t, p.far("calm-delay"), "the flood has taken the other source's share")
	w.arrived("a", held, time.Until(soon)+30*time.Second)
	over := time.Now()
	undisturbed(t, calm.ended("b"), began, over, slack)
	recs := w.complete("a", held, 10*time.Second)
	t.Logf("what the other source had pending: %v", late(t, recs))
	require.Less(t, late(t, recs).at(99), int64(slack), "held up by the flood")
	p.awaitPending(n, 10*time.Second)
	p.staysWithin(smallBudget, smallInFlight)
}

// A burst in one partition, for one target, is nothing to another partition and target.
func TestBurstInOnePartitionHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkafka.Need(t))
	w.createWith("delay", 2, testkafka.LogAppendTime())
	w.create("burst", "calm", "dlq")
	w.start(w.static("one"), memory(smallBudget, smallInFlight))
	calm := w.bystander("delay", 1, "calm")
	w.arrivedOf("calm", 20*time.Second, 150)
	began := time.Now()
	due := began.Add(5 * time.Second)
	n := many(60_000, 500_000)
	w.stream(n, func(i int) *kgo.Record {
		r := w.record("delay", "burst", text("deliver-at", millis(due)))
		r.Value = sized(i, 1000)
		return r
	})
	w.arrived("burst", n, time.Minute)
	over := time.Now()
	burst := late(t, w.complete("burst", n, time.Minute))
	t.Logf("the burst: %v", burst)
	// Whoever waits behind the burst waits as long as its records do. A third of that, on
	// a machine where it takes long, is more than its share of the processors.
	undisturbed(t, calm.ended("calm"), began, over, max(burst.at(100)/3, 500))
}
