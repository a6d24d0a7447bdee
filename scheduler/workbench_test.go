package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"delay-scheduler/bucket"
	"delay-scheduler/delay"
)

// workbench is a scheduler with one partition and everything around it faked.
type workbench struct {
	t     *testing.T
	topic *fakeTopic
	out   *fakeOut
	group *fakeGroup
	clock *fakeClock
	rules *delay.Rules
	limit int64
	jump  Jump
	// candidate: only a pattern matches the topic.
	candidate bool
	s         *Scheduler
}

// inBubble runs a test under fake time.
func inBubble(t *testing.T, f func(t *testing.T, w *workbench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newFakeClock()
		w := &workbench{
			t: t, topic: newFakeTopic(), out: newFakeOut(c), group: newFakeGroup(), clock: c, limit: 64 << 20,
			rules: &delay.Rules{MaxDelay: 90 * 24 * time.Hour, Allow: []string{"*"}, MaxHops: 10},
		}
		defer func() {
			if w.s != nil {
				w.s.Stop()
			}
		}()
		f(t, w)
	})
}

func (w *workbench) start() {
	w.t.Helper()
	var err error
	w.s, err = New(Options{
		CommitInterval: time.Second, MetadataLimit: 4096, SessionTimeout: 10 * time.Second,
		RebalanceTimeout: time.Minute, MaxSkew: time.Minute, OnJump: w.jump,
		Source: func(string) Source { return Source{Rules: w.rules, Candidate: w.candidate} },
	}, Parts{
		Log: w.topic, Recaller: w.topic, Outlet: w.out, Budget: bucket.NewBudget(w.limit),
		Clock: Clock{Wall: w.clock.wall, Boot: w.clock.boot},
	}, zap.NewNop(), nil)
	require.NoError(w.t, err)
	w.s.Quiesce(w.t.Context())
	w.s.Assign(w.group.next(), []Claim{w.group.claim()})
	synctest.Wait()
}

// crash ends the process without a word: nothing more is committed.
func (w *workbench) crash() {
	w.group.next()
	w.s.Stop()
	w.s = nil
}

// after lets time pass and everything settle.
func (w *workbench) after(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the time of a bubble passes at once
	synctest.Wait()
}

// noneEarly checks the first invariant.
func (w *workbench) noneEarly() {
	w.t.Helper()
	for _, s := range w.out.all() {
		require.GreaterOrEqual(w.t, s.at.UnixMilli(), s.due, "offset %d left early", s.offset)
	}
}
