//go:build soak

package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"delay-scheduler/internal/testkafka"
)

// setting is a whole number from the environment.
func setting(t *testing.T, name string, without int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return without
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, name)
	require.Positive(t, n, name)
	return n
}

// soak is one run.
type soak struct {
	world
	t        *testing.T
	rnd      *rand.Rand
	length   time.Duration
	began    time.Time
	broker   *testkafka.Cluster
	ledger   *ledger
	load     *load
	all      []*process
	steady   *process // runs from beginning to end, and shows whether memory grows
	victim   *process // is killed now and then
	visitor  *process // comes and goes, and makes the group move partitions
	away     bool     // the target that comes and goes
	out      span     // the outage of the moment, or the last one
	left     bool     // somebody stopped meanwhile
	doubtful []span   // outages in which somebody stopped
	seen     []sight  // of the steady one
	kills    []time.Time
	moves    int
	outages  int
}

func TestMixedLoadForAsLongAsIsAskedFor(t *testing.T) {
	minutes, seed := setting(t, "SOAK_MINUTES", 20), setting(t, "SOAK_SEED", int(time.Now().UnixNano()))
	rate := setting(t, "SOAK_RATE", 1000)
	t.Logf("SOAK_MINUTES=%d SOAK_RATE=%d SOAK_SEED=%d", minutes, rate, seed)
	testkafka.Need(t)
	s := &soak{t: t, rnd: rand.New(rand.NewPCG(uint64(seed), 1)), length: time.Duration(minutes) * time.Minute, ledger: &ledger{}}
	s.name = testkafka.UniqueName(t)
	s.prepare()
	longest := min(10*time.Minute, s.length/2)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	s.began = time.Now()
	s.load = &load{
		world: s.world, rnd: rand.New(rand.NewPCG(uint64(seed), 2)), rate: rate, ends: s.began.Add(s.length),
		client: testkafka.Client(t, s.broker, kgo.MaxBufferedRecords(50_000)),
	}
	produced := make(chan struct{})
	go func() { defer close(produced); s.load.run(ctx, longest) }()
	waits := []func(){
		s.ledger.read(ctx, t, s.broker, s.sources(), s.ledger.source),
		s.ledger.read(ctx, t, s.broker, s.targets(guest, false), func(r *kgo.Record) { s.ledger.target(r, false) }),
		s.ledger.read(ctx, t, s.broker, s.targets(guest, true), func(r *kgo.Record) { s.ledger.target(r, true) }),
	}
	s.disturb()
	s.finish()
	stop()
	<-produced
	for _, wait := range waits {
		wait()
	}
	s.judge()
}

func (s *soak) sources() (topics []string) {
	for _, from := range sources {
		topics = append(topics, s.topic(from.name+"-delay"))
	}
	return topics
}

// targets are those that have a name, or those that have another one.
func (s *soak) targets(name string, has bool) (topics []string) {
	for _, to := range targets {
		if (to == name) == has {
			topics = append(topics, s.topic(to))
		}
	}
	return topics
}

// prepare makes a cluster whose second node has nothing but the guest, its topics, and
// the processes.
func (s *soak) prepare() {
	t := s.t
	s.broker = testkafka.Start(t, testkafka.WithBrokers(2), testkafka.WithProxy(), testkafka.WithOptimizer(), testkafka.WithHeap(768))
	create := func(name string, partitions int, node int32) {
		var placed [][]int32
		for range partitions {
			placed = append(placed, []int32{node})
		}
		s.broker.CreateTopicOn(s.topic(name), placed, testkafka.LogAppendTime())
	}
	for _, from := range sources {
		create(from.name+"-delay", from.partitions, 0)
		create(from.name+"-dlq", 1, 0)
	}
	for _, to := range targets {
		node := int32(0)
		if to == guest {
			node = 1
		}
		create(to, 3, node)
	}
	bin := filepath.Join(t.TempDir(), "scheduler")
	if other := os.Getenv("TEST_SCHEDULER"); other != "" {
		bin = other // a build of one's own, such as one of another commit
	} else {
		out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "delay-scheduler/cmd/scheduler").CombinedOutput()
		require.NoError(t, err, string(out))
	}
	dir, err := os.MkdirTemp("", "soak-") // it is kept when the run fails
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("logs are in %s", dir)
			return
		}
		_ = os.RemoveAll(dir)
	})
	for _, name := range []string{"steady", "victim", "visitor"} {
		s.all = append(s.all, &process{t: t, bin: bin, name: name, dir: dir, config: s.config})
	}
	s.steady, s.victim, s.visitor = s.all[0], s.all[1], s.all[2]
	s.steady.start()
	if s.broker.Coordinator(s.name) != 0 {
		s.broker.MoveCoordinator(s.name)
	}
	s.victim.start()
}

// config has a static member for who stays or is killed; the visitor leaves the group when
// it stops, so that its partitions move at once.
func (s *soak) config(listen, name string) string {
	instance := name
	if name == "visitor" {
		instance = ""
	}
	return fmt.Sprintf(`kafka:
  brokers: [%s]
  metadata_refresh: 5s
group:
  id: %s
  instance_id: %q
  session_timeout: 10s
sources:
  - topics: ["%s-*-delay"]
memory:
  budget: %dMiB
  max_in_flight: %dMiB
commit:
  interval: %v
http:
  listen: %q
`, strings.Join(s.broker.Addrs(), ", "), s.name, instance, s.name, budget, inFlight, commitInterval, listen)
}

// tick is how often processes are looked at.
const tick = time.Second

// disturb lets something happen every now and then until the time is nearly over, and
// then puts everything right.
func (s *soak) disturb() {
	every := min(max(s.length/40, 4*time.Second), 30*time.Second)
	report := min(max(s.length/10, 10*time.Second), 30*time.Second)
	next, line := s.began.Add(every), s.began.Add(report)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for now := range ticker.C {
		if now.Sub(s.began) > s.length*95/100 {
			break
		}
		s.look()
		if now.After(next) {
			s.happen()
			next = time.Now().Add(every/2 + time.Duration(s.rnd.Int64N(int64(every))))
		}
		if now.After(line) {
			s.say()
			line = line.Add(report)
		}
	}
	if s.away {
		s.comeOrGo()
	}
	if s.visitor.cmd != nil {
		s.visit()
	}
}

// happen does one thing at random.
func (s *soak) happen() {
	switch n := s.rnd.IntN(10); {
	case n < 4:
		s.comeOrGo()
	case n < 7:
		s.visit()
	default:
		s.kill()
	}
}

// comeOrGo takes the guest's broker away, or brings it back. While it is away nobody is
// killed: what a killed process had sent would arrive when the broker comes back, and
// could not be told from what is forbidden.
func (s *soak) comeOrGo() {
	s.away = !s.away
	if !s.away {
		s.broker.Proxy(1).Resume()
		s.out.to = time.Now().Add(10 * time.Second).UnixMilli() // it takes a while until it is found to be back
		if s.left {
			s.doubtful = append(s.doubtful, s.out)
		}
		return
	}
	s.outages++
	s.left, s.out = false, span{from: time.Now().Add(-2 * time.Second).UnixMilli()}
	if s.rnd.IntN(2) == 0 {
		s.broker.Proxy(1).Refuse()
	} else {
		s.broker.Proxy(1).Delay(2 * time.Second)
	}
}

// visit lets the visitor come, or go.
func (s *soak) visit() {
	s.moves++
	if s.visitor.cmd == nil {
		s.visitor.start()
		return
	}
	exit := s.visitor.end(syscall.SIGTERM)
	if s.away {
		s.left = true // and it may have complained that sends are unanswered
		return
	}
	require.NoError(s.t, exit, "the visitor did not end well")
}

func (s *soak) kill() {
	if s.away {
		s.comeOrGo()
		return
	}
	s.kills = append(s.kills, time.Now())
	require.Error(s.t, s.victim.end(syscall.SIGKILL), "it had ended by itself")
	s.victim.start()
}

// look judges the memory of all that run.
func (s *soak) look() {
	for _, p := range s.all {
		if p.cmd == nil {
			continue
		}
		p.runs()
		if seen := p.look(); p == s.steady && seen.goroutines > 0 {
			s.seen = append(s.seen, seen)
		}
	}
}

// say writes a line of progress.
func (s *soak) say() {
	var each []string
	for _, p := range s.all {
		if p.cmd != nil {
			seen := p.look()
			each = append(each, fmt.Sprintf("%s %.0f MiB, %.0f pending, %.0f of them far", p.name, seen.resident/(1<<20), seen.pending, seen.far))
		}
	}
	s.t.Logf("%v of %v: %s; %s (of %d MiB); %d kills, %d moves, %d outages", time.Since(s.began).Round(time.Second), s.length,
		s.ledger.report(), strings.Join(each, ", "), stated, len(s.kills), s.moves, s.outages)
}

// finish waits until what was produced has arrived, and a little longer for what should not.
func (s *soak) finish() {
	wait := time.NewTimer(time.Until(s.load.ends) + 2*time.Second)
	<-wait.C
	require.NoError(s.t, s.load.client.Flush(s.t.Context()))
	produced := int(s.load.produced.Load())
	require.Eventually(s.t, func() bool { s.lookQuietly(); return s.ledger.settled(produced) }, 2*time.Minute, time.Second,
		"lost: %v", lazily(func() any { return s.ledger.missing() }))
	quiet := time.NewTimer(5 * time.Second)
	<-quiet.C
	s.say()
	for _, p := range []*process{s.steady, s.victim} {
		require.NoError(s.t, p.end(syscall.SIGTERM), "%s did not end well", p.name)
	}
}

// lookQuietly is look where nothing is to be added to what is seen of the steady process.
func (s *soak) lookQuietly() {
	for _, p := range s.all {
		if p.cmd != nil {
			p.look()
		}
	}
}

// lazily is a part of a message that is known when the message is written.
type lazily func() any

// String implements fmt.Stringer.
func (l lazily) String() string { return fmt.Sprint(l()) }

func (s *soak) judge() {
	t := s.t
	if err := s.load.failed.Load(); err != nil {
		require.NoError(t, *err, "the load itself failed")
	}
	s.ledger.compare()
	t.Log(s.ledger.report())
	require.Zero(t, s.ledger.wrong, strings.Join(s.ledger.faults, "\n"))
	doubts, peak := 0.0, int64(0)
	for _, p := range s.all {
		doubts, peak = doubts+p.doubts, max(peak, p.peak)
	}
	s.ledger.twice(t, s.kills, s.doubtful, doubts)
	t.Logf("%d MiB resident at the most, %d are stated", peak>>20, stated)
	s.even("resident memory", 16<<20, func(x sight) float64 { return x.resident })
	s.even("goroutines", 50, func(x sight) float64 { return x.goroutines })
	s.even("open files", 20, func(x sight) float64 { return x.files })
}

// even says that something of the steady process does not grow once as much is pending
// as ever will be, which is when the longest delay has passed: its median towards the end
// is not above that after half of the time by more than a fifth and some.
func (s *soak) even(what string, some float64, of func(sight) float64) {
	n := len(s.seen)
	median := func(part []sight) float64 {
		var v []float64
		for _, x := range part {
			v = append(v, of(x))
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	require.Greater(s.t, n, 20, "the steady process was hardly seen")
	if s.length >= 5*time.Minute { // a shorter run has not enough pending at a time
		require.Positive(s.t, s.seen[n-1].readBack, "every payload fitted into the budget: the load was too small to show anything")
	}
	before, after := median(s.seen[n/2:n*5/8]), median(s.seen[n*7/8:])
	s.t.Logf("%s: %.0f after half of the time, %.0f towards the end", what, before, after)
	require.LessOrEqual(s.t, after, before*1.2+some, "%s grows", what)
}
