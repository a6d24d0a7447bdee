package delay_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"delay-scheduler/delay"
)

// typical are records as they mostly are: three headers, a 200 B value, few targets.
func typical() []*delay.Record {
	recs := make([]*delay.Record, 64)
	for i := range recs {
		recs[i] = record("orders-delay", headers("target-topic", fmt.Sprintf("orders-%d", i%4), "delay-ms", "1800000", "trace-id", "0123456789abcdef"))
		recs[i].Key, recs[i].Value = []byte("customer-12345"), make([]byte, 200)
	}
	return recs
}

func TestTheHotPathAllocatesWhatItMust(t *testing.T) {
	recs := typical()
	p := delay.NewParser("orders-delay", delayRules())
	retry := delay.NewParser("orders-retry", retryRules())
	grouped := record("orders-retry", headers("retry-count", "2", "original-topic", "orders", "target-group", "billing"))
	for _, rec := range recs {
		_, _ = p.Parse(rec)
	}
	_, _ = retry.Parse(grouped)
	rules := delayRules()
	m := delay.Pack(recs[0], &delay.Request{}, nil)
	space := newSpace(m)
	i := 0
	for _, tt := range []struct {
		name string
		want float64
		run  func()
	}{
		{"parse", 0, func() { _, _ = p.Parse(recs[i%len(recs)]); i++ }},
		{"parse a derived target", 0, func() { _, _ = retry.Parse(grouped) }},
		{"identity of a retry", 0, func() { _ = delay.RetryIdentity(grouped) }},
		{"pack", 1, func() { m = delay.Pack(recs[0], &delay.Request{Attempt: 1}, nil) }},
		{"forward into a space", 0, func() {
			space.Headers, space.Values = space.Headers[:0], space.Values[:0]
			sink = m.Forward(rules, origin, "orders", space)
		}},
	} {
		require.Equal(t, tt.want, testing.AllocsPerRun(100, tt.run), tt.name)
	}
}

var sink delay.Outgoing

// newSpace is room for one record.
func newSpace(m delay.Message) *delay.Space {
	return &delay.Space{Headers: make([]delay.Header, 0, m.HeaderCount()+delay.AddedHeaders), Values: make([]byte, 0, 100)}
}

func BenchmarkParse(b *testing.B) {
	recs := typical()
	p := delay.NewParser("orders-delay", delayRules())
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, ref := p.Parse(recs[i%len(recs)]); ref != nil {
			b.Fatal(ref)
		}
	}
}

func BenchmarkParseRetry(b *testing.B) {
	rec := record("orders-retry", headers("retry-count", "2", "original-topic", "orders", "target-group", "billing"))
	p := delay.NewParser("orders-retry", retryRules())
	b.ReportAllocs()
	for b.Loop() {
		if _, ref := p.Parse(rec); ref != nil {
			b.Fatal(ref)
		}
	}
}

func BenchmarkPack(b *testing.B) {
	rec, req := typical()[0], &delay.Request{}
	b.ReportAllocs()
	for b.Loop() {
		delay.Pack(rec, req, nil)
	}
}

func BenchmarkForward(b *testing.B) {
	m, rules := delay.Pack(typical()[0], &delay.Request{}, nil), delayRules()
	space := newSpace(m)
	b.ReportAllocs()
	for b.Loop() {
		space.Headers, space.Values = space.Headers[:0], space.Values[:0]
		sink = m.Forward(rules, origin, "orders", space)
	}
}
