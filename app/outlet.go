package app

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"delay-scheduler/config"
	"delay-scheduler/delay"
	"delay-scheduler/kafka"
	"delay-scheduler/scheduler"
)

// position is where a record is.
type position struct {
	topic     string
	partition int32
	offset    int64
}

// delivery is a record that came out of the scheduler.
type delivery struct {
	from    position // where it was read
	id      string   // its delay-id; a dead letter has none
	due     time.Time
	arrival Arrival
}

// unclaimed are records from one source partition that came out before we heard that
// they are written. Of a partition we hear in the order of offsets, so what is not
// above the last one that we heard of is somebody else's.
type unclaimed struct {
	high int64 // the last that we heard of
	by   map[int64][]delivery
}

// unclaimedMost is how many are kept before others' records are looked for among them.
const unclaimedMost = 4096

func (u *unclaimed) add(d delivery) {
	if d.from.offset > u.high {
		u.by[d.from.offset] = append(u.by[d.from.offset], d)
	}
}

// written gives what has come out of a record that we hear of now.
func (u *unclaimed) written(offset int64) []delivery {
	u.high = offset
	found := u.by[offset]
	delete(u.by, offset)
	if len(u.by) > unclaimedMost {
		maps.DeleteFunc(u.by, func(o int64, _ []delivery) bool { return o < offset })
	}
	return found
}

// outletEvery is how often a topic is looked for that does not exist yet.
const outletEvery = 500 * time.Millisecond

// watchOutlets begins to read the topics where records may come out, from their ends.
// What stop waits for has ended when it returns.
func (s *sender) watchOutlets(ctx context.Context, c *config.Config) (stop func(), err error) {
	admin, err := kafka.NewAdmin(clusterOptions(c))
	if err != nil {
		return nil, err
	}
	fetcher, err := kafka.NewFetcher(kafka.FetchOptions{Options: clusterOptions(c)}, zap.NewNop(), nil)
	if err != nil {
		admin.Close()
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var readers sync.WaitGroup
	stop = func() {
		cancel()
		fetcher.Close()
		readers.Wait()
		admin.Close()
	}
	for _, topic := range s.outlet {
		bounds, err := admin.Bounds(ctx, topic)
		if err != nil && !errors.Is(err, kafka.ErrUnknownTopic) {
			stop()
			return nil, err
		}
		if err != nil {
			readers.Go(func() { s.awaitOutlet(ctx, admin, fetcher, topic) })
			continue
		}
		for p, b := range bounds {
			readers.Go(func() { s.read(ctx, fetcher.Open(topic, p, b.End)) })
		}
	}
	return stop, nil
}

// awaitOutlet reads a topic that does not exist yet from its first record.
func (s *sender) awaitOutlet(ctx context.Context, admin *kafka.Admin, fetcher *kafka.Fetcher, topic string) {
	tick := time.NewTicker(outletEvery)
	defer tick.Stop()
	var readers sync.WaitGroup
	defer readers.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		bounds, err := admin.Bounds(ctx, topic)
		if err != nil {
			s.complain(ctx, err)
			continue
		}
		for p := range bounds {
			readers.Go(func() { s.read(ctx, fetcher.Open(topic, p, 0)) })
		}
		return
	}
}

// read passes on what a partition gets.
func (s *sender) read(ctx context.Context, stream scheduler.Stream) {
	defer stream.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case b := <-stream.Batches():
			now := time.Now()
			if b.Err != nil {
				s.complain(ctx, b.Err)
			}
			for i := range b.Records {
				d, ok := recognise(&b.Records[i], now)
				if !ok {
					continue
				}
				select {
				case s.arrivals <- d:
				case <-ctx.Done():
					return
				}
			}
		}
	}
}

func (s *sender) complain(ctx context.Context, err error) {
	select {
	case s.troubles <- err:
	case <-ctx.Done():
	}
}

// recognise reads from a record's headers where the scheduler had it from.
func recognise(rec *delay.Record, now time.Time) (delivery, bool) {
	at := now
	if rec.AppendTime {
		at = time.UnixMilli(rec.Timestamp)
	}
	d := delivery{arrival: Arrival{Topic: rec.Topic, Partition: rec.Partition, Offset: rec.Offset, At: at}}
	h := map[string]string{}
	for i := range rec.Headers {
		h[string(rec.Headers[i].Key)] = string(rec.Headers[i].Value)
	}
	if reason, dead := h[delay.HeaderDLQReason]; dead {
		d.arrival.Refused = &Refused{Reason: reason, Detail: h[delay.HeaderDLQDetail]}
		from, err := parsePosition([]string{h[delay.HeaderOriginalTopic], h[delay.HeaderOriginalPartition], h[delay.HeaderOriginalOffset]})
		d.from = from
		return d, err == nil
	}
	d.id = h[delay.HeaderDelayID]
	parts := strings.Split(d.id, "/")
	if len(parts) != 4 {
		return d, false
	}
	var err error
	if due, err := strconv.ParseInt(h[delay.HeaderDelayDue], 10, 64); err == nil {
		d.due = time.UnixMilli(due)
	}
	d.from, err = parsePosition(parts[:3])
	return d, err == nil
}

// parsePosition reads topic, partition and offset.
func parsePosition(parts []string) (position, error) {
	if len(parts) != 3 || !delay.ValidTopic(parts[0]) {
		return position{}, ErrPlace
	}
	partition, err := strconv.ParseInt(parts[1], 10, 32)
	if err != nil || partition < 0 {
		return position{}, ErrPlace
	}
	offset, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil || offset < 0 {
		return position{}, ErrPlace
	}
	return position{parts[0], int32(partition), offset}, nil
}

// percentiles sorts and gives the median, the 99th percentile and the most.
func percentiles(d []time.Duration) (p50, p99, most time.Duration) {
	n := len(d)
	if n == 0 {
		return 0, 0, 0
	}
	slices.Sort(d)
	return d[n/2], d[n*99/100], d[n-1]
}
