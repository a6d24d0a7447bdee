package scheduler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"delay-scheduler/bucket"
)

// Once more was late than may wait by itself, a pass was made for that alone and the next
// one followed at once, so that there was never a window again: the rest stayed behind
// for good, although there was room.
func TestWhatHasFallenBehindCatchesUpByWindows(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		const n = 20_000
		w.limit = 1 << 20
		w.scatter(n, 5*time.Second, 6*time.Second)
		w.topic.recall.wait = 100 * time.Millisecond // 4 s for a pass over the log
		w.start()
		w.after(time.Second)
		far := w.status().Far
		require.Greater(t, far, n/4)
		w.after(90 * time.Second)
		w.once(n)
		room := n - far
		require.LessOrEqual(t, len(w.topic.recalls()), 2+2*far/room, "of %d records without payload, with room for %d", far, room)
	})
}

// What is late leaves in the order of the log and has to be told one by one in a commit.
// When that outgrew the metadata, the partition sent less and less at a time, and so fell
// behind even more: of 20,000 records a second it came down to 40.
func TestWhatHasFallenBehindDoesNotOutgrowTheCommit(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		const n = 300_000
		w.limit = 22 << 20
		w.scatter(n, 5*time.Second, 15*time.Second)
		w.topic.recall.wait = 20 * time.Millisecond // 6 s for a pass over the log
		w.start()
		w.after(time.Second)
		require.Greater(t, w.status().Far, n/4)
		for range 300 {
			w.after(100 * time.Millisecond)
			st := w.status()
			require.LessOrEqual(t, st.AwaitingPayload, lateMost)
			require.Zero(t, st.CommitDropped)
		}
		w.after(30 * time.Second)
		w.once(n)
	})
}

// A target that took nothing for a while has a shelf, and behind it what fell due later.
// All of that was late at once when the shelf was empty.
func TestWhatWaitedBehindAShelfIsNotAskedForAllAtOnce(t *testing.T) {
	const n = 5000
	b := bucket.NewBudget(1 << 20)
	p := &partition{
		s: &Scheduler{parts: Parts{Budget: b}}, account: b.Open(), lanes: newLaneTable(),
		late: map[int64]tie{}, ties: map[tie][]bucket.Entry{},
	}
	l := p.lanes.get(laneName{target: "a"})
	l.behind = append(l.behind, bucket.Entry{Due: 0, Offset: 0, Message: []byte{1}})
	for i := range int64(n) {
		p.account.Force(bucket.Cost(0))
		l.behind = append(l.behind, bucket.Entry{Due: i + 1, Offset: i + 1, Lane: l.id})
	}
	p.moveUp(l)
	require.Equal(t, 1, l.waiting())
	require.Len(t, p.late, lateLeast)
	require.Equal(t, 1, l.shelf.Len())
	require.Len(t, l.behind, n-lateLeast-1)
	require.Equal(t, (n-1)*bucket.Cost(0), p.account.Used(), "what is on the shelf is no entry any more")
}
