package forward

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"delay-scheduler/bucket"
	"delay-scheduler/delay"

	"go.uber.org/zap"
)

// instant is a producer that keeps what it gets until the benchmark answers it.
type instant struct {
	resolver
	acks []Ack
}

// Produce implements Producer.
func (p *instant) Produce(_ string, records []delay.Outgoing) {
	for i := range records {
		p.acks = append(p.acks, Ack{Tag: records[i].Tag})
	}
}

// BenchmarkSendAndAck is one record's way through the package: taken, built, handed
// over, acknowledged, reported.
func BenchmarkSendAndAck(b *testing.B) {
	// A live heap of the size that the program has, else the collector never rests.
	ballast := make([]byte, 256<<20)
	for _, batch := range []int{1, 16, 512} {
		b.Run(fmt.Sprint("batch=", batch), func(b *testing.B) {
			start := time.Now()
			p := &instant{}
			p.answer = func(string) *Error { return nil }
			f := New(Options{}, p, time.Now, func() time.Duration { return time.Since(start) }, zap.NewNop(), nil)
			defer f.Close()
			port := f.Open("orders-delay", 0, &delay.Rules{})
			port.SetLease(math.MaxInt64)
			es := entries(0, int64(batch), 200)
			keep := make([]bucket.Entry, batch)
			for {
				copy(keep, es)
				if port.Send("orders", keep) > 0 {
					break
				}
				<-port.Ready()
			}
			report := func(bucket.Entry, delay.Outcome) {}
			settle := func() {
				f.Acks(p.acks)
				p.acks = p.acks[:0]
				port.Drain(report)
			}
			settle()
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < b.N; i += batch {
				if n := port.Send("orders", es); n != batch {
					b.Fatal(n)
				}
				settle()
			}
		})
	}
	runtime.KeepAlive(ballast)
}
