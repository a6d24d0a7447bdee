package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestKeysFallWhereAJavaProducerPutsThem(t *testing.T) {
	for key, want := range map[string]int32{"foobar": 6, "order-1": 10, "order-2": 3, "order-42": 0, "abc": 3} {
		require.Equal(t, want, javaPartition([]byte(key), 12), key)
	}
}

// good makes a record that was asked for and one right copy of it.
func good(n int) (asked, arrived) {
	src := &kgo.Record{
		Topic: "a-delay", Key: []byte("order-1"), Value: []byte("v"), Timestamp: time.UnixMilli(1_790_000_000_000),
		Headers: []kgo.RecordHeader{{Key: "x", Value: []byte{0}}, {Key: "delay-ms", Value: []byte("500")}, {Key: "target-topic", Value: []byte("a")}},
	}
	w := asked{partition: 1, offset: int64(n), due: 1_790_000_000_500, target: "a", record: src}
	c := arrived{topic: "a", partition: javaPartition(src.Key, 3), offset: int64(n), at: w.due + 2, record: &kgo.Record{
		Key: src.Key, Value: src.Value, Headers: expected(w),
	}}
	return w, c
}

func TestVerdict(t *testing.T) {
	kill := time.UnixMilli(1_790_000_001_000)
	r := rules{kills: []time.Time{kill}, window: 2 * time.Second, slack: time.Second, murmur: javaPartition, partitions: 3}
	cases := map[string]struct {
		change func(w *asked, c *[]arrived)
		faulty func(v Verdict) int
	}{
		"a good run is accepted":   {func(*asked, *[]arrived) {}, nil},
		"a missing record is lost": {func(_ *asked, c *[]arrived) { *c = nil }, func(v Verdict) int { return v.Lost }},
		"one millisecond is early": {func(w *asked, c *[]arrived) { (*c)[0].at = w.due - 1 }, func(v Verdict) int { return v.Early }},
		"a changed value":          {func(_ *asked, c *[]arrived) { (*c)[0].record.Value = []byte("w") }, func(v Verdict) int { return v.Changed }},
		"empty instead of null":    {func(w *asked, _ *[]arrived) { w.record.Value = nil }, func(v Verdict) int { return v.Changed }},
		"a dropped header":         {func(_ *asked, c *[]arrived) { (*c)[0].record.Headers = (*c)[0].record.Headers[1:] }, func(v Verdict) int { return v.Changed }},
		"another target":           {func(_ *asked, c *[]arrived) { (*c)[0].topic = "b" }, func(v Verdict) int { return v.Changed }},
		"another partition":        {func(_ *asked, c *[]arrived) { (*c)[0].partition = ((*c)[0].partition + 1) % 3 }, func(v Verdict) int { return v.Misplaced }},
		"a copy long before a kill": {func(w *asked, c *[]arrived) {
			(*c)[0].at -= 2
			*c = append(*c, (*c)[0])
			kill = time.UnixMilli(w.due + 2001)
		}, func(v Verdict) int { return v.Forbidden }},
		"a copy just before a kill": {func(_ *asked, c *[]arrived) { *c = append(*c, (*c)[0]) }, nil},
		"a copy with another id":    {func(_ *asked, c *[]arrived) { *c = append(*c, other((*c)[0])) }, func(v Verdict) int { return v.OtherID }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			kill = time.UnixMilli(1_790_000_001_000)
			w, c := good(1)
			copies := []arrived{c}
			tc.change(&w, &copies)
			r.kills = []time.Time{kill}
			v := judge(map[int]asked{1: w}, map[int][]arrived{1: copies}, r)
			if tc.faulty == nil {
				require.True(t, v.Kept(), v)
				return
			}
			require.False(t, v.Kept(), v)
			require.NotZero(t, tc.faulty(v), v)
			require.NotEmpty(t, v.Example)
		})
	}
}

func other(c arrived) arrived {
	r := *c.record
	r.Headers = append([]kgo.RecordHeader(nil), r.Headers...)
	r.Headers[len(r.Headers)-2].Value = []byte("a-delay/9/9/9")
	c.record = &r
	return c
}

func TestVerdictSeesWrongOrder(t *testing.T) {
	want, got := map[int]asked{}, map[int][]arrived{}
	for n := range 3 {
		w, c := good(n)
		c.offset = int64(10 - n)
		want[n], got[n] = w, []arrived{c}
	}
	v := judge(want, got, rules{murmur: javaPartition, partitions: 3})
	require.Equal(t, 2, v.Disordered, fmt.Sprint(v))
}

func TestVerdictSeesTooMuchMemoryAndAPartThatWasNotUsed(t *testing.T) {
	r := &run{o: options{resident: 100, used: "recalled"}, procs: []*process{{seen: sight{resident: 100 << 20, used: 0}}, {seen: sight{resident: 1 << 20, used: 2}}}}
	var v Verdict
	r.weigh(&v)
	require.True(t, v.Kept(), v)

	v = Verdict{}
	r.procs[0].seen.resident = 101 << 20
	r.procs[1].seen.used = 0
	r.weigh(&v)
	require.Equal(t, 1, v.Fat)
	require.Equal(t, 1, v.Unused)
	require.False(t, v.Kept(), v)
}

func TestFigureIsReadAfterItsWholeName(t *testing.T) {
	text := "VmHWMs:\t 7 kB\nVmHWM:\t  2048 kB\n# HELP a_total Something.\na_total 3\na_total_more 4\n"
	require.EqualValues(t, 2048, figure(text, "VmHWM:"))
	require.EqualValues(t, 3, figure(text, "a_total"))
	require.Zero(t, figure(text, "a"))
}
