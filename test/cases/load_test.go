package cases

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"delay-scheduler/internal/testkafka"
)

// What a case with more records than memory has in its configuration, in MiB.
const (
	smallBudget   = 32
	smallInFlight = 8
)

// memory is the section of the configuration that allows so many MiB for what is pending
// and for what is in flight.
func memory(budget, inFlight int) string {
	return fmt.Sprintf("memory:\n  budget: %dMiB\n  max_in_flight: %dMiB", budget, inFlight)
}

// stated is what docs/operations.md says that the process takes, in bytes.
func stated(budget, inFlight int) int64 { return (int64(budget)*6/5 + int64(inFlight) + 80) << 20 }

// far counts the records of a source that are pending without their payload.
func (p *process) far(suffix string) (n int) {
	p.w.t.Helper()
	for partition := range p.w.ends(suffix) {
		n += int(p.metric(fmt.Sprintf("delay_scheduler_far_records{partition=\"%d\",topic=%q}", partition, p.w.topic(suffix))))
	}
	return n
}

// static gives the group a member that a restart makes nobody wait for.
func (w *world) static(instance string) string {
	return fmt.Sprintf("group:\n  id: %s\n  session_timeout: 6s\n  instance_id: %s", w.name, instance)
}

// sized is a record's value: its number, and as many bytes as are wanted.
func sized(number, size int) []byte {
	v := make([]byte, 0, size)
	v = append(strconv.AppendInt(v, int64(number), 10), ' ')
	for len(v) < size {
		v = append(v, byte(len(v)*7+number))
	}
	return v
}

// numbered reads the number back, and says that nothing of the value has changed.
func numbered(t *testing.T, r *kgo.Record) int {
	t.Helper()
	end := slices.Index(r.Value, ' ')
	require.Positive(t, end, "a record without a number")
	n, err := strconv.Atoi(string(r.Value[:end]))
	require.NoError(t, err)
	require.Equal(t, sized(n, len(r.Value)), r.Value, "the value of record %d has changed", n)
	return n
}

// stream produces n records to the partitions that they name, a few thousand at a time,
// so that there may be more than the test could hold.
func (w *world) stream(n int, record func(i int) *kgo.Record) {
	w.t.Helper()
	client := testkafka.Client(w.t, w.broker, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(20_000))
	defer client.Close()
	var failed atomic.Pointer[error]
	for i := range n {
		client.Produce(w.t.Context(), record(i), func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Store(&err)
			}
		})
	}
	require.NoError(w.t, client.Flush(w.t.Context()))
	if err := failed.Load(); err != nil {
		require.NoError(w.t, *err)
	}
}

// steady produces a record in each interval until it is told to stop, and then says how
// many there are.
func (w *world) steady(every time.Duration, record func(i int) *kgo.Record) (stop func() int) {
	ctx, cancel := context.WithCancel(w.t.Context())
	client := testkafka.Client(w.t, w.broker, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	sent := make(chan int, 1)
	go func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-tick.C:
				client.Produce(context.WithoutCancel(ctx), record(n), nil)
			case <-ctx.Done():
				_ = client.Flush(context.WithoutCancel(ctx)) // Whoever counts them finds out.
				sent <- n
				return
			}
		}
	}()
	w.t.Cleanup(cancel)
	return func() int {
		cancel()
		return <-sent
	}
}

// ends are the log's, by partition.
func (w *world) ends(suffix string) map[int32]int64 {
	w.t.Helper()
	listed, err := testkafka.Admin(w.t, w.broker).ListEndOffsets(w.t.Context(), w.topic(suffix))
	require.NoError(w.t, err)
	ends := make(map[int32]int64)
	for _, o := range listed.Offsets()[w.topic(suffix)] {
		ends[o.Partition] = o.At
	}
	return ends
}

// awaitRead waits until the process has read a source up to where it ends now.
func (p *process) awaitRead(suffix string, within time.Duration) {
	p.w.t.Helper()
	ends := p.w.ends(suffix)
	var at map[int32]int64
	require.Eventually(p.w.t, func() bool {
		at = make(map[int32]int64)
		for _, part := range p.status().Partitions {
			if part.Topic == p.w.topic(suffix) {
				at[part.Partition] = part.Position
			}
		}
		for partition, end := range ends {
			if at[partition] < end {
				return false
			}
		}
		return true
	}, within, 50*time.Millisecond, "reading stands still: %v of %v", lazy(func() any { return at }), ends)
}

// lazy is a part of a message that is known when the message is written.
type lazy func() any

// String implements fmt.Stringer.
func (l lazy) String() string { return fmt.Sprint(l()) }

var peakLine = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peak is the most memory that the process has had resident, in bytes; 0 where the
// system does not say.
func (p *process) peak() int64 {
	p.w.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	found := peakLine.FindSubmatch(text)
	require.NotNil(p.w.t, found, "the process has ended")
	return number(p.w.t, string(found[1])) << 10
}

// staysWithin says that the process has never had more memory than is stated.
func (p *process) staysWithin(budget, inFlight int) {
	p.w.t.Helper()
	peak := p.peak()
	p.w.t.Logf("%d MiB resident at the most, %d are stated", peak>>20, stated(budget, inFlight)>>20)
	require.LessOrEqual(p.w.t, peak, stated(budget, inFlight), "resident memory")
}

// span is a time from and to which something was the matter, in epoch ms.
type span struct{ from, to int64 }

// lateness is sorted, in ms.
type lateness []int64

// late tells how late records came that were due outside of the spans. None is early.
func late(t *testing.T, recs []*kgo.Record, without ...span) (l lateness) {
	t.Helper()
	for _, r := range recs {
		due := number(t, header(r, "delay-due"))
		require.GreaterOrEqual(t, ms(r), due, "early")
		if !slices.ContainsFunc(without, func(s span) bool { return due >= s.from && due <= s.to }) {
			l = append(l, ms(r)-due)
		}
	}
	slices.Sort(l)
	return l
}

// at is a percentile; -1 when there is nothing.
func (l lateness) at(percent int) int64 {
	if len(l) == 0 {
		return -1
	}
	return l[(len(l)-1)*percent/100]
}

// String implements fmt.Stringer.
func (l lateness) String() string {
	return fmt.Sprintf("%d records late by %d ms at the median, p99 %d, at most %d", len(l), l.at(50), l.at(99), l.at(100))
}

// firsts are the first copies, and says that further ones are of what was sent shortly
// before a crash.
func firsts(t *testing.T, recs []*kgo.Record, crashes ...int64) (first []*kgo.Record) {
	t.Helper()
	recs = slices.Clone(recs)
	slices.SortStableFunc(recs, func(a, b *kgo.Record) int { return a.Timestamp.Compare(b.Timestamp) })
	seen := make(map[string]int64, len(recs))
	for _, r := range recs {
		id := header(r, "delay-id")
		at, again := seen[id]
		if !again {
			seen[id] = ms(r)
			first = append(first, r)
			continue
		}
		require.True(t, slices.ContainsFunc(crashes, func(c int64) bool { return at >= c-2000 && at <= c+1000 }),
			"%s came at %d and again at %d, and the crashes were at %v", id, at, ms(r), crashes)
	}
	return first
}

// millis is a time as headers have it.
func millis(at time.Time) string { return strconv.FormatInt(at.UnixMilli(), 10) }

// many gives the number of a report where all run unscaled, else a smaller one.
func many(few, full int) int {
	if long {
		return full
	}
	return few
}

// all reads what a topic has now.
func (w *world) all(suffix string) []*kgo.Record {
	w.t.Helper()
	total := 0
	for _, end := range w.ends(suffix) {
		total += int(end)
	}
	return w.arrived(suffix, total, time.Minute)
}

// complete waits until a topic has n records, and says that there are no more of them.
// Call it when nothing is pending any more: unlike exactly it does not wait for others.
func (w *world) complete(suffix string, n int, within time.Duration) []*kgo.Record {
	w.t.Helper()
	w.arrivedOf(suffix, within, n)
	recs := w.all(suffix)
	require.Len(w.t, recs, n, "records in %s", suffix)
	return recs
}

// arrivedOf reads at least so many of a topic.
func (w *world) arrivedOf(suffix string, within time.Duration, atLeast int) []*kgo.Record {
	w.t.Helper()
	recs := testkafka.ReadAll(w.t, w.broker, w.topic(suffix), atLeast, within)
	require.GreaterOrEqual(w.t, len(recs), atLeast, "records in %s after %v", suffix, within)
	return recs
}
