package delay_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"delay-scheduler/delay"
)

// hostileValues are what a stranger may put into any header.
var hostileValues = map[string]string{
	"empty":     "",
	"escape":    "\x1b]0;owned\a\x1b[2J",
	"lines":     "a\r\nWARN forged=true\n",
	"nul":       "\x00\x00\x00\x00\x00\x00\x00\x00\x00",
	"c1":        "\u009b31m\x7f",
	"bidi":      "\u202egnirts\u200b",
	"not UTF-8": "\xff\xfe\xc3\x28",
	"1 MB":      strings.Repeat("9", 1<<20),
	"1 MB ESC":  strings.Repeat("\x1b[2J", 1<<18),
	"topic":     "../../etc/passwd",
	"internal":  "__consumer_offsets",
	"long name": strings.Repeat("a", 250),
}

// names are all headers that are read or written.
var names = []string{
	delay.HeaderTargetTopic, delay.HeaderDelayMS, delay.HeaderNextRetryTime, delay.HeaderDeliverAt, delay.HeaderOriginTime,
	delay.HeaderDelayID, delay.HeaderDelayDue, delay.HeaderDelayHops, delay.HeaderRetryAttempt, delay.HeaderRetryCount,
	delay.HeaderInitialOffset, delay.HeaderOriginalTopic, delay.HeaderOriginalPartition, delay.HeaderOriginalOffset,
	delay.HeaderPreviousTopic, delay.HeaderFirstFailureTime, delay.HeaderTargetGroup,
	delay.HeaderLastErrorClass, delay.HeaderLastErrorMsg, delay.HeaderErrorStack,
	delay.HeaderDLQReason, delay.HeaderDLQDetail, delay.HeaderDLQTime, delay.HeaderDLQPointer,
}

func requirePrintable(t *testing.T, what, text string, limit int) {
	t.Helper()
	require.LessOrEqual(t, len(text), limit, what)
	for _, c := range text {
		require.True(t, unicode.IsPrint(c), "%s: %U in %.200q", what, c, text)
	}
}

func TestNoHeaderOfAStrangerIsInWhatWeSayOfIt(t *testing.T) {
	good := headers("target-topic", "orders", "delay-ms", "5000")
	origin := delay.Origin{Topic: "orders-delay", Partition: 3, Offset: 17}
	for _, name := range names {
		for kind, v := range hostileValues {
			what := name + ": " + kind
			for topic, rules := range map[string]*delay.Rules{"orders-delay": delayRules(), "orders-retry": retryRules()} {
				rec := record(topic, append(append([]delay.Header{}, good...), headers(name, v)...))
				req, ref := delay.NewParser(topic, rules).Parse(rec)
				if ref == nil {
					require.True(t, delay.ValidTopic(req.Target), "%s: target %.100q", what, req.Target)
					continue
				}
				requirePrintable(t, what, ref.Detail, 512)
				packed := delay.Pack(rec, nil, ref)
				dead := packed.DeadLetter(origin, "orders-dlq", *ref, base, nil)
				detail, times := value(dead.Headers, delay.HeaderDLQDetail)
				require.Equal(t, 1, times, what)
				requirePrintable(t, what, detail, 512)
				pointer := packed.Pointer(origin, "orders-dlq", *ref, base)
				size := len(pointer.Key)
				for _, h := range pointer.Headers {
					size += len(h.Key) + len(h.Value)
				}
				require.Less(t, size, 16<<10, "%s: a pointer is small", what)
			}
		}
	}
}

func TestTenThousandHeadersAreReadOnceAndKept(t *testing.T) {
	const n = 10_000
	var hs []delay.Header
	for i := range n {
		hs = append(hs, headers(names[i%len(names)], "\x1b[2J")...)
	}
	hs = append(hs, headers("target-topic", "orders", "delay-ms", "5000", "delay-hops", "0")...)
	for i := range n {
		hs = append(hs, headers("x-"+itoa(int64(i)), strings.Repeat("y", 100))...)
	}
	rec := record("orders-delay", hs)
	origin := delay.Origin{Topic: rec.Topic, Partition: rec.Partition, Offset: rec.Offset}
	parser := delay.NewParser(rec.Topic, delayRules())

	_, ref := parser.Parse(rec)

	require.NotNil(t, ref)
	requirePrintable(t, "detail", ref.Detail, 512)
	dead := delay.Pack(rec, nil, ref).DeadLetter(origin, "orders-dlq", *ref, base, nil)
	require.GreaterOrEqual(t, len(dead.Headers), n, "a dead letter has the headers of its record")
	pointer := delay.Pack(rec, nil, ref).Pointer(origin, "orders-dlq", *ref, base)
	require.Less(t, len(pointer.Headers), 4<<10)
	allocs := testing.AllocsPerRun(5, func() { _, _ = parser.Parse(rec) })
	require.Less(t, allocs, 50.0, "reading costs nothing per header")
}
