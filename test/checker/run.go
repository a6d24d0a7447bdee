package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	targetPartitions = 3
	// slack: a produce request under way when its sender is killed is still appended.
	slack = time.Second
)

// run is one check under way.
type run struct {
	o      options
	id     string
	rnd    *rand.Rand
	client *kgo.Client
	procs  []*process
	kills  []time.Time
	exits  int
}

func (r *run) source() string      { return "check-" + r.id + "-delay" }
func (r *run) target(i int) string { return fmt.Sprintf("check-%s-t%d", r.id, i) }
func (r *run) deadLetters() string { return "check-" + r.id + "-dlq" }
func (r *run) seeds() []string     { return strings.Split(r.o.brokers, ",") }
func (r *run) targets() (t []string) {
	for i := range r.o.targets {
		t = append(t, r.target(i))
	}
	return t
}

// check makes topics, runs and disturbs the processes, and judges.
func check(ctx context.Context, o options) (Verdict, error) {
	r := &run{o: o, id: strconv.FormatUint(o.seed%1e9, 36) + strconv.FormatInt(time.Now().UnixMilli()%1e6, 36), rnd: rand.New(rand.NewPCG(o.seed, 1))}
	if o.dir == "" {
		dir, err := os.MkdirTemp("", "checker-")
		if err != nil {
			return Verdict{}, err
		}
		r.o.dir = dir
	}
	var err error
	r.client, err = kgo.NewClient(kgo.SeedBrokers(r.seeds()...), kgo.MaxBufferedRecords(100_000))
	if err != nil {
		return Verdict{}, fmt.Errorf("connect to %s: %w", o.brokers, err)
	}
	defer r.client.Close()
	if err := r.createTopics(ctx); err != nil {
		return Verdict{}, err
	}
	for i := range o.processes {
		p := &process{o: r.o, run: r.id, index: i}
		if err := p.start(); err != nil {
			return Verdict{}, err
		}
		r.procs = append(r.procs, p)
	}
	// A join moves partitions, and what is being sent while the group re-forms may
	// come twice. That is promised otherwise than what is judged here.
	for _, p := range r.procs {
		if err := p.ready(ctx); err != nil {
			return Verdict{}, err
		}
	}
	v, err := r.carryOut(ctx)
	for _, p := range r.procs {
		if !p.end(syscall.SIGTERM) {
			v.fault(&v.Exits, "process %d did not end well, see %s", p.index, r.o.dir)
		}
	}
	r.weigh(&v)
	if err == nil && v.Kept() {
		err = os.RemoveAll(r.o.dir)
	} else {
		fmt.Fprintln(os.Stderr, "logs are in", r.o.dir)
	}
	return v, err
}

// weigh judges what was seen of the processes.
func (r *run) weigh(v *Verdict) {
	for _, p := range r.procs {
		v.ResidentMiB = max(v.ResidentMiB, int(p.seen.resident>>20))
		v.Used += p.seen.used
	}
	if r.o.resident > 0 && v.ResidentMiB > r.o.resident {
		v.fault(&v.Fat, "a process had %d MiB resident, %d are allowed", v.ResidentMiB, r.o.resident)
	}
	if r.o.used != "" && v.Used == 0 {
		v.fault(&v.Unused, "%s has counted nothing", r.o.used)
	}
}

func (r *run) carryOut(ctx context.Context) (Verdict, error) {
	produced := make(chan error, 1)
	go func() { produced <- r.produce(ctx) }()
	if err := r.disturb(ctx); err != nil {
		return Verdict{}, err
	}
	if err := <-produced; err != nil {
		return Verdict{}, fmt.Errorf("produce: %w", err)
	}
	want, err := r.readSource(ctx)
	if err != nil {
		return Verdict{}, err
	}
	got, err := r.readTargets(ctx, want)
	if err != nil {
		return Verdict{}, err
	}
	v := judge(want, got, rules{kills: r.kills, window: r.o.commitInterval + time.Second, slack: slack, murmur: javaPartition, partitions: targetPartitions})
	v.Seed, v.Exits = r.o.seed, r.exits
	return v, nil
}

func (r *run) createTopics(ctx context.Context) error {
	adm := kadm.NewClient(r.client)
	appendTime := "LogAppendTime"
	cfg := map[string]*string{"message.timestamp.type": &appendTime}
	create := func(partitions int, topics ...string) error {
		resp, err := adm.CreateTopics(ctx, int32(partitions), 1, cfg, topics...)
		if err != nil {
			return fmt.Errorf("create topics: %w", err)
		}
		return resp.Error()
	}
	return errors.Join(create(r.o.partitions, r.source()), create(targetPartitions, r.targets()...), create(1, r.deadLetters()))
}

// produce writes the records. What is expected of them is read back from the topic,
// so nothing is kept here.
func (r *run) produce(ctx context.Context) error {
	rnd := rand.New(rand.NewPCG(r.o.seed, 2))
	began := time.Now()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for i := range r.o.records {
		if r.o.rate > 0 {
			time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(r.o.rate))))
		}
		wg.Add(1)
		r.client.Produce(ctx, r.record(rnd, i), func(_ *kgo.Record, err error) {
			defer wg.Done()
			if err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// record n has a value of odd bytes, duplicate and binary headers, and sometimes no
// key or an empty one.
func (r *run) record(rnd *rand.Rand, n int) *kgo.Record {
	v := fmt.Appendf(make([]byte, 0, r.o.size), "%s %d ", r.id, n)
	for len(v) < r.o.size {
		v = append(v, byte(len(v)*7+n))
	}
	rec := &kgo.Record{Topic: r.source(), Value: v, Key: fmt.Appendf(nil, "key-%d", n%5000), Headers: []kgo.RecordHeader{
		{Key: "trace", Value: []byte{0, 1, 255, 10}},
		{Key: "target-topic", Value: []byte(r.target(n % r.o.targets))},
		{Key: "trace", Value: []byte("second")},
		{Key: "delay-ms", Value: strconv.AppendInt(nil, rnd.Int64N(r.o.delay.Milliseconds()+1), 10)},
		{Key: "empty", Value: []byte{}},
		{Key: "null"},
	}}
	switch n % 97 {
	case 13:
		rec.Key = nil
	case 14:
		rec.Key = []byte{}
	}
	return rec
}

// disturb kills and stops processes at random moments and starts them again.
func (r *run) disturb(ctx context.Context) error {
	total := r.o.kills + r.o.terms
	span := r.o.delay
	if r.o.rate > 0 {
		span += time.Duration(r.o.records) * time.Second / time.Duration(r.o.rate)
	}
	var moments []time.Duration
	for range total {
		moments = append(moments, time.Duration(r.rnd.Int64N(int64(span)*9/10))+span/20)
	}
	slices.Sort(moments)
	order := r.rnd.Perm(total)
	began := time.Now()
	for i, at := range moments {
		select {
		case <-time.After(time.Until(began.Add(at))):
		case <-ctx.Done():
			return ctx.Err()
		}
		p := r.procs[r.rnd.IntN(len(r.procs))]
		sig := syscall.SIGTERM
		if order[i] < r.o.kills {
			sig = syscall.SIGKILL
			r.kills = append(r.kills, time.Now())
		} else if err := p.ready(ctx); err != nil {
			// A SIGTERM in the first milliseconds of a process ends it before it has a
			// handler for signals, or anything to drain.
			return err
		}
		if !p.end(sig) {
			r.exits++
		}
		time.Sleep(r.o.pause)
		if err := p.start(); err != nil {
			return err
		}
	}
	return nil
}

// readSource reads back what was asked for, with the broker's append times.
func (r *run) readSource(ctx context.Context) (map[int]asked, error) {
	want := make(map[int]asked, r.o.records)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	err := r.consume(ctx, []string{r.source()}, func(rec *kgo.Record) {
		n, ok := r.number(rec)
		if !ok {
			return
		}
		delay, _ := strconv.ParseInt(value(rec, "delay-ms"), 10, 64)
		want[n] = asked{partition: rec.Partition, offset: rec.Offset, due: rec.Timestamp.UnixMilli() + delay, target: value(rec, "target-topic"), record: rec}
	}, func() bool { return len(want) == r.o.records })
	if err != nil {
		return nil, fmt.Errorf("read back %s: %d of %d records: %w", r.source(), len(want), r.o.records, err)
	}
	return want, nil
}

// readTargets reads until everything has arrived and nothing has for a while, or
// until the grace after the last due time is over.
func (r *run) readTargets(ctx context.Context, want map[int]asked) (map[int][]arrived, error) {
	last := int64(0)
	for _, w := range want {
		last = max(last, w.due)
	}
	ctx, cancel := context.WithDeadline(ctx, time.UnixMilli(last).Add(r.o.grace))
	defer cancel()
	got := make(map[int][]arrived, len(want))
	quiet := time.Now()
	err := r.consume(ctx, r.targets(), func(rec *kgo.Record) {
		quiet = time.Now()
		if n, ok := r.number(rec); ok {
			got[n] = append(got[n], arrived{rec.Topic, rec.Partition, rec.Offset, rec.Timestamp.UnixMilli(), rec})
		}
	}, func() bool {
		return len(got) == len(want) && time.Since(quiet) > 4*time.Second && time.Now().UnixMilli() > last+2000
	})
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("read the targets: %w", err)
	}
	for _, copies := range got {
		slices.SortFunc(copies, func(a, b arrived) int { return int(a.at - b.at) })
	}
	return got, nil
}

// consume reads topics from their start, as a reader of committed records, until
// done says so or ctx ends.
func (r *run) consume(ctx context.Context, topics []string, each func(*kgo.Record), done func() bool) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(r.seeds()...), kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	defer c.Close()
	for !done() {
		poll, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		fs := c.PollFetches(poll)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		fs.EachRecord(each)
	}
	return nil
}

func (r *run) number(rec *kgo.Record) (int, bool) {
	f := strings.SplitN(string(rec.Value[:min(len(rec.Value), 64)]), " ", 3)
	if len(f) < 3 || f[0] != r.id {
		return 0, false
	}
	n, err := strconv.Atoi(f[1])
	return n, err == nil
}
