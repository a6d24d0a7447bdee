package scheduler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTopicOfAnotherProgramIsLeftAloneAndReported(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.candidate = true
		for range 3 * adoptAfter {
			w.topic.put(header("retry_topic-attempts", "1"))
		}
		w.start()
		w.after(time.Hour)
		require.Empty(t, w.out.all(), "nothing is dead-lettered")
		o, _, _ := w.group.committed()
		require.Zero(t, o, "nothing is done, so naming the topic adopts all of it")
		require.Equal(t, TroubleForeign, w.s.Troubles()[0].Reason)
		require.Len(t, w.s.Troubles(), 1)
		require.Len(t, w.topic.opened, 1)

		w.crash()
		w.candidate = false
		w.start()
		w.after(10 * time.Second)
		require.Len(t, w.out.all(), 3*adoptAfter)
	})
}

func TestCandidateIsAdoptedByTheFirstRecordThatIsOurs(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.candidate = true
		w.topic.put()
		w.topic.put(header("x", "y"))
		w.start()
		w.after(time.Minute)
		require.Empty(t, w.out.all())
		w.topic.add("a", time.Second)
		w.after(2 * time.Second)
		require.Equal(t, []int64{0, 1, 2}, w.offsets(), "those before it are ours too")
		require.Equal(t, "dlq", w.out.all()[0].target)
		require.Empty(t, w.s.Troubles())
		o, _, _ := w.group.committed()
		require.EqualValues(t, 3, o)
	})
}

func TestCandidateWithoutRecordsIsReadAsSoonAsThereAreSome(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.candidate = true
		w.start()
		w.after(time.Hour)
		require.Empty(t, w.s.Troubles())
		w.crash()
		w.start()
		w.after(time.Hour)
		w.topic.add("a", 0)
		w.after(10 * time.Millisecond)
		require.Equal(t, []int64{0}, w.offsets())
		require.Len(t, w.topic.opened, 2)
	})
}

func TestTopicWithACommitIsNoCandidate(t *testing.T) {
	inBubble(t, func(t *testing.T, w *workbench) {
		w.candidate = true
		w.group.offset = 0
		w.topic.put()
		w.start()
		w.after(time.Second)
		require.Equal(t, []int64{0}, w.offsets())
	})
}
