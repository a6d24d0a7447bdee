//go:build clients

package clients

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// delay is what all examples ask for, in ms, and late what a busy machine may add.
const (
	delay = 30_000
	late  = 10_000
)

func TestExamplesAsPrintedOnApacheKafka(t *testing.T) {
	w := onApacheKafka(t)
	w.examples(t)
}

func TestExamplesAsPrintedOnTheEmbeddedBroker(t *testing.T) {
	w := onDev(t)
	w.examples(t)
}

// wanted are the records of an example: key and value by its other header, which is
// empty in README.md. "-" is null.
var wanted = map[string][][2]string{
	"":       {{"order-1", "hello"}, {"order-2", "hello"}, {"order-3", "hello"}},
	"kcat":   same[:4], // it cannot write binary numbers
	"python": same,
	"java":   same,
	"go":     same,
	"node":   same,
}

var same = [][2]string{{"order-1", "close"}, {"order-2", "close"}, {"-", "no key"}, {"order-4", "-"}, {"order-5", "close"}}

// examples runs everything side by side, since each waits for half a minute.
func (w world) examples(t *testing.T) {
	target, dead := w.read(t, "orders"), w.read(t, "orders-dlq")
	done := make(chan outcome)
	running := 0
	for _, s := range programs(t) {
		dir := t.TempDir()
		launch(t, s.language+" of "+s.file, dir, runnable[s.language](t, dir, s.text), done)
		running++
	}
	for name, program := range w.javaPrograms(t) {
		launch(t, name, program.Dir, program, done)
		running++
	}
	said := make(map[string]string)
	for range running {
		o := <-done
		require.NoError(t, o.err, "%s said:\n%s", o.name, o.output)
		t.Logf("%s said:\n%s", o.name, o.output)
		said[o.name] = o.output
	}
	t.Run("records arrive as they were sent", func(t *testing.T) { w.checkExamples(t, target) })
	t.Run("nothing is refused", func(t *testing.T) { require.Empty(t, dead.all()) })
	t.Run("keys land where a Java producer puts them", w.checkKeys)
	t.Run("gaps are those of the document", func(t *testing.T) { w.checkGaps(t, said["Gaps.java"]) })
}

func (w world) checkExamples(t *testing.T, target *reader) {
	asked := w.asked(t)
	missing := make(map[string]int)
	n := 0
	for source, records := range wanted {
		for _, r := range records {
			missing[source+": "+r[0]+", "+r[1]]++
			n++
		}
	}
	require.Len(t, asked, n, "records in orders-delay")
	for _, r := range target.exactly(n, patience) {
		source, headers := "", r.Headers
		if headers[0].Key == "source" {
			source, headers = string(headers[0].Value), headers[1:]
		}
		name := source + ": " + text(r.Key) + ", " + text(r.Value)
		require.Equal(t, 1, missing[name], "not asked for, or there before: %s", name)
		delete(missing, name)
		require.Len(t, headers, 2, name)
		require.Equal(t, []string{"delay-id", "delay-due"}, []string{headers[0].Key, headers[1].Key}, name)
		was := asked[string(headers[0].Value)]
		require.NotNil(t, was, "%s has the delay-id %s", name, headers[0].Value)
		require.Equal(t, text(was.Key)+text(was.Value), text(r.Key)+text(r.Value), name)
		w.checkTime(t, name, r, was, string(headers[1].Value))
	}
	require.Empty(t, missing)
}

// checkTime compares the due time with what was asked for, and the arrival with the due time.
func (w world) checkTime(t *testing.T, name string, r arrival, was *kgo.Record, due string) {
	want := was.Timestamp.UnixMilli() + delay
	if at := value(was, "deliver-at"); at != nil {
		var err error
		want, err = strconv.ParseInt(string(at), 10, 64)
		require.NoError(t, err)
	}
	require.Equal(t, strconv.FormatInt(want, 10), due, name)
	arrived := r.seen
	if w.real {
		arrived = r.Timestamp.UnixMilli() // the broker's, at the append
		require.EqualValues(t, 1, r.Attrs.TimestampType(), "orders has not LogAppendTime")
	}
	require.GreaterOrEqual(t, arrived, want, "early: %s", name)
	require.Less(t, arrived, want+late, "late: %s", name)
}

// asked are the records of the examples' delay topic, by the delay-id that they must get.
func (w world) asked(t *testing.T) map[string]*kgo.Record {
	n := 0
	for _, records := range wanted {
		n += len(records)
	}
	asked := make(map[string]*kgo.Record)
	for _, r := range w.read(t, "orders-delay").exactly(n, patience) {
		asked[fmt.Sprintf("%s/%d/%d/%d", r.Topic, r.Partition, r.Offset, r.Timestamp.UnixMilli())] = r.Record
	}
	return asked
}

// text tells null from a text.
func text(b []byte) string {
	if b == nil {
		return "-"
	}
	return string(b)
}

func value(r *kgo.Record, header string) []byte {
	for _, h := range r.Headers {
		if h.Key == header {
			return h.Value
		}
	}
	return nil
}

func TestDocumentsNameTheCommandsThatAreRun(t *testing.T) {
	for file, command := range map[string]string{
		readme:    "`java -cp 'libs/*' Later.java`",
		producers: "`java -cp 'libs/*' Orders.java`",
	} {
		page, err := os.ReadFile(file)
		require.NoError(t, err)
		require.True(t, strings.Contains(string(page), command), "%s in %s", command, file)
	}
}
