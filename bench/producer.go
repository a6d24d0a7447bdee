package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"delay-scheduler/delay"
)

// producerBlock is how many records are made once and written again and again, so that
// what is measured is writing and not making them.
const producerBlock = 20_000

// producers writes the same records through our producer and through sarama's, in turns,
// and compares what a record costs this process.
func (b *bench) producers(ctx context.Context) error {
	var ours, library []float64
	for n := range b.o.cheap() {
		for _, p := range []struct {
			open func(*cluster, string) (writer, error)
			to   *[]float64
		}{{openOwn, &ours}, {openLibrary, &library}} {
			us, err := b.produceOnce(ctx, p.open)
			if err != nil {
				return err
			}
			*p.to = append(*p.to, us)
		}
		b.say("producer %d of %d: %.2f us of CPU a record, sarama's %.2f", n+1, b.o.cheap(), ours[n], library[n])
	}
	ratio := median(ours) / median(library)
	b.report.judge(goalProducer, figure{
		Name: "producer, CPU of a record over sarama's AsyncProducer", Value: ratio,
		Text: fmt.Sprintf("%.2f (%.2f us against %.2f us)", ratio, median(ours), median(library)), Runs: ours, Beside: library,
		Note: "CPU time of a process that does nothing but write the same records in memory, with the same batches and acks. Medians, in turns.",
	})
	return nil
}

// produceOnce gives the CPU time of a record in us.
func (b *bench) produceOnce(ctx context.Context, open func(*cluster, string) (writer, error)) (us float64, err error) {
	topics, remove, err := b.cluster.createAll(ctx, "produced")
	if err != nil {
		return 0, err
	}
	defer remove()
	made := recipe{target: "nowhere", due: time.Now().UnixMilli}.make(0, min(producerBlock, b.o.records))
	records := make([]delay.Record, len(made))
	for i := range made {
		records[i] = delay.Record{Key: made[i].Key, Value: made[i].Value, Headers: made[i].Headers}
	}
	w, err := open(b.cluster, topics[0])
	if err != nil {
		return 0, err
	}
	before := ownCPU()
	written := 0
	for ; written < b.o.records && err == nil; written += len(records) {
		for from := 0; from < len(records) && err == nil; from += parcelRecords {
			err = w.write(ctx, records[from:min(from+parcelRecords, len(records))])
		}
	}
	if err := errors.Join(err, w.finish(ctx)); err != nil {
		return 0, fmt.Errorf("write %d records: %w", written, err)
	}
	return float64((ownCPU() - before).Microseconds()) / float64(written), nil
}

// ownCPU is what this process has taken so far, finer than /proc says it.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
