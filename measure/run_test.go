package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"delay-scheduler/delay"
	"delay-scheduler/internal/testkafka"
	"delay-scheduler/kafka"
)

// TestMain fails the package when a test leaves a goroutine behind. The metrics library
// of the client has one that nothing can stop.
func TestMain(m *testing.M) {
	code := testkafka.Main(m)
	if code == 0 {
		if err := goleak.Find(goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// toy is the least scheduler there is, with faults on request.
type toy struct {
	cluster kafka.Options
	topics  Topics
	// copies says how often a record is sent, 1 unless something is wrong.
	copies func(number uint64) int
	// early is how long before its time a record is sent.
	early time.Duration
	// late is how long after it, by the record's number.
	late func(number uint64) time.Duration

	mu     sync.Mutex // guards sender's error
	failed error
}

func (s *toy) start(ctx context.Context) (stop func() error, err error) {
	admin, err := kafka.NewAdmin(s.cluster)
	if err != nil {
		return nil, err
	}
	bounds, err := admin.Bounds(ctx, s.topics.Source)
	admin.Close()
	if err != nil {
		return nil, err
	}
	fetcher, err := kafka.NewFetcher(kafka.FetchOptions{Options: s.cluster}, zap.NewNop(), nil)
	if err != nil {
		return nil, err
	}
	sender, err := NewSender(kafka.ProducerOptions{Options: s.cluster})
	if err != nil {
		return nil, err
	}
	work, end := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	for partition := range bounds {
		wg.Go(func() { s.read(work, fetcher, sender, partition) })
	}
	return func() error {
		end()
		wg.Wait()
		fetcher.Close()
		return errors.Join(s.failed, sender.Close(hurried()))
	}, nil
}

func (s *toy) read(ctx context.Context, fetcher *kafka.Fetcher, sender *Sender, partition int32) {
	stream := fetcher.Open(s.topics.Source, partition, 0)
	defer stream.Close()
	for {
		select {
		case batch := <-stream.Batches():
			for i := range batch.Records {
				if err := s.forward(ctx, sender, &batch.Records[i]); err != nil && ctx.Err() == nil {
					s.mu.Lock()
					s.failed = errors.Join(s.failed, err)
					s.mu.Unlock()
				}
			}
		case <-ctx.Done():
			return
		}
	}
}

func (s *toy) forward(ctx context.Context, sender *Sender, r *delay.Record) error {
	m, err := readMark(r)
	if err != nil {
		return err
	}
	headers := map[string]string{}
	for _, h := range r.Headers {
		headers[string(h.Key)] = string(h.Value)
	}
	if headers[delay.HeaderDeliverAt] != strconv.FormatInt(m.due, 10) {
		return fmt.Errorf("the record asks for %s and is due at %d", headers[delay.HeaderDeliverAt], m.due)
	}
	at := time.UnixMilli(m.due).Add(time.Millisecond - s.early)
	if s.late != nil {
		at = at.Add(s.late(m.number))
	}
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	copies := 1
	if s.copies != nil && m.number < warmUp {
		copies = s.copies(m.number)
	}
	for range copies {
		out := delay.Outgoing{Key: r.Key, Value: r.Value, Headers: r.Headers}
		if err := sender.Send(ctx, headers[delay.HeaderTargetTopic], []delay.Outgoing{out}); err != nil {
			return err
		}
	}
	return nil
}

// small is a run of a second or two with a toy.
func small(b testkafka.Broker, s *toy) Options {
	s.cluster = kafka.Options{Brokers: b.Addrs()}
	s.topics = NewTopics("measured", "-delay", 2, time.Now())
	return Options{
		Cluster: s.cluster, Topics: s.topics, Partitions: 2, Replication: -1,
		Count: 300, Rate: 1000, Delays: Fixed(400 * time.Millisecond), ValueBytes: 100,
		Appear: 20 * time.Second, Patience: 2 * time.Second, Start: s.start,
		Memory: func(context.Context) (int64, error) { return 5 << 20, nil },
	}
}

// requireNoTopicsOf says that a run has removed everything that it made.
func requireNoTopicsOf(t *testing.T, o Options) {
	t.Helper()
	admin, err := kafka.NewAdmin(o.Cluster)
	require.NoError(t, err)
	defer admin.Close()
	require.Eventually(t, func() bool {
		all, err := admin.Topics(t.Context())
		require.NoError(t, err)
		for _, topic := range all {
			if slices.Contains(o.Topics.All(), topic.Name) {
				return false
			}
		}
		return true
	}, 20*time.Second, 20*time.Millisecond)
}

func TestRunMeasuresAndLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	testkafka.Each(t, func(t *testing.T, b testkafka.Broker) {
		o := small(b, &toy{})
		var phases []string
		o.Progress = func(p Progress) {
			if len(phases) == 0 || phases[len(phases)-1] != p.Phase {
				phases = append(phases, p.Phase)
			}
		}

		r, err := Run(t.Context(), t.Context(), o)

		require.NoError(t, err)
		require.Empty(t, r.Broken(), "%+v", r)
		require.Equal(t, []int{300, 300}, []int{r.Records, r.Forwarded})
		require.InDelta(t, 1000, r.Accepted.PerSecond, 600)
		require.Positive(t, r.Forwards.PerSecond)
		require.GreaterOrEqual(t, r.Copy.Records, 300)
		require.Positive(t, r.Copy.PerSecond)
		require.Equal(t, b.Real(), r.BrokerStamped)
		require.LessOrEqual(t, r.Late.P50, r.Late.P99)
		require.LessOrEqual(t, r.Late.P999, r.Late.Max)
		require.Equal(t, int64(5<<20), r.Memory.Most)
		require.NotEmpty(t, r.Seconds)
		require.Equal(t, "making topics", phases[0])
		require.Equal(t, "removing topics", phases[len(phases)-1])
		requireNoTopicsOf(t, o)
	})
}

func TestEveryBrokenPromiseIsFound(t *testing.T) {
	t.Parallel()
	b := testkafka.Fake(t)
	for name, c := range map[string]struct {
		toy   *toy
		count func(Result) int
	}{
		"lost": {&toy{copies: func(n uint64) int { return min(int(n)%100, 1) }}, func(r Result) int { return r.Lost }},
		"twice": {&toy{copies: func(n uint64) int {
			if n%100 == 0 {
				return 2
			}
			return 1
		}}, func(r Result) int { return r.Duplicates }},
		"early": {&toy{early: 20 * time.Millisecond}, func(r Result) int { return min(r.Early, 3) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := Run(t.Context(), t.Context(), small(b, c.toy))
			require.NoError(t, err)
			require.Equal(t, 3, c.count(r), "%+v", r)
			require.NotEmpty(t, r.Broken())
		})
	}
}

// The number of records is complete when one has come twice and another not yet.
func TestWhatComesLateIsNotTakenForLostSinceAnotherCameTwice(t *testing.T) {
	t.Parallel()
	s := &toy{
		copies: func(n uint64) int { return 1 + int(max(n, 1)-n) },
		late: func(n uint64) time.Duration {
			if n == 299 {
				return quietFor + time.Second
			}
			return 0
		},
	}
	o := small(testkafka.Fake(t), s)
	o.Patience = 10 * time.Second

	r, err := Run(t.Context(), t.Context(), o)

	require.NoError(t, err)
	require.Equal(t, []string{"1 twice"}, r.Broken(), "%+v", r)
}

func TestRunWithoutASchedulerSaysSoAndLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	o := small(testkafka.Fake(t), &toy{})
	o.Start, o.Appear = nil, 300*time.Millisecond

	_, err := Run(t.Context(), t.Context(), o)

	require.ErrorIs(t, err, ErrNobody)
	requireNoTopicsOf(t, o)
}

func TestInterruptedRunLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	o := small(testkafka.Fake(t), &toy{})
	o.Delays = Fixed(time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	o.Progress = func(p Progress) {
		if strings.HasPrefix(p.Phase, "until") {
			cancel()
		}
	}

	_, err := Run(ctx, t.Context(), o)

	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, ErrLeft)
	requireNoTopicsOf(t, o)
}

func TestWhoIsInAHurryHearsWhatIsLeft(t *testing.T) {
	o := small(testkafka.Fake(t), &toy{})
	o.Start = func(context.Context) (func() error, error) { return nil, errors.New("no scheduler today") }
	hurry, skip := context.WithCancel(t.Context())
	skip()

	_, err := Run(t.Context(), hurry, o)

	require.ErrorContains(t, err, "no scheduler today")
	require.ErrorIs(t, err, ErrLeft)
	for _, name := range o.Topics.All() {
		require.ErrorContains(t, err, "delete "+name+" by hand")
	}
}

func TestTopicThatWasThereBeforeIsNotRemoved(t *testing.T) {
	b := testkafka.Fake(t)
	o := small(b, &toy{})
	b.CreateTopic(o.Topics.Targets[1], 1, nil)

	_, err := Run(t.Context(), t.Context(), o)

	require.ErrorIs(t, err, kafka.ErrTopicExists)
	admin, err := kafka.NewAdmin(o.Cluster)
	require.NoError(t, err)
	defer admin.Close()
	_, err = admin.Bounds(t.Context(), o.Topics.Targets[1])
	require.NoError(t, err)
	_, err = admin.Bounds(t.Context(), o.Topics.Targets[0])
	require.ErrorIs(t, err, kafka.ErrUnknownTopic)
}

func TestRunAsFastAsItGoesEndsWithItsTime(t *testing.T) {
	o := small(testkafka.Fake(t), &toy{})
	o.Rate, o.Count, o.Duration = 0, 0, 200*time.Millisecond
	p := pacer{run: &run{Options: o}}
	n, over := p.next(100 * time.Millisecond)
	require.Equal(t, parcelRecords, n)
	require.False(t, over)
	_, over = p.next(200 * time.Millisecond)
	require.True(t, over)
	require.Zero(t, o.Planned())
}

func TestPaceIsKeptAndEndsWithTheLastRecord(t *testing.T) {
	for _, c := range []struct {
		o     Options
		since time.Duration
		sent  int
		n     int
		over  bool
	}{
		{Options{Rate: 1000, Duration: time.Second}, 500 * time.Millisecond, 400, 100, false},
		{Options{Rate: 1000, Duration: time.Second}, 1500 * time.Millisecond, 900, 100, true},
		{Options{Rate: 1000, Count: 450}, 500 * time.Millisecond, 400, 50, true},
		{Options{Rate: 1000, Count: 450, Duration: 100 * time.Millisecond}, 500 * time.Millisecond, 40, 60, true},
		{Options{Count: 1000}, time.Hour, 900, 100, true},
	} {
		p := pacer{run: &run{Options: c.o}, sent: c.sent}
		n, over := p.next(c.since)
		require.Equal(t, c.n, n, "%+v", c)
		require.Equal(t, c.over, over, "%+v", c)
	}
}
