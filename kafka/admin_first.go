package kafka

import (
	"cmp"
	"context"
	"fmt"

	"github.com/IBM/sarama"

	"delay-scheduler/delay"
)

// firstTries bounds how many fetches may pass markers and aborted records in search of
// a record.
const firstTries = 8

// fetchOnceWait is how many ms a broker may wait for something to read where there is
// nothing; it also covers a read from a remote tier.
const fetchOnceWait = 500

// FirstRecords reads, for each partition of a topic, the first record at or after an
// offset. A partition that has none is left out. What can be read is given also if
// there is an error; that is the first of those that kept others from being read.
func (a *Admin) FirstRecords(ctx context.Context, topic string, from map[int32]int64) (map[int32]delay.Record, error) {
	found := make(map[int32]delay.Record, len(from))
	t, brokers, err := a.topic(ctx, topic)
	if err != nil {
		return found, fmt.Errorf("look up topic %s: %w", topic, err)
	}
	led := make(map[string][]int32)
	for p := range from {
		state, known := t.partitions[p]
		addr, ok := brokers[state.leader]
		if !known || !ok {
			err = cmp.Or(err, fmt.Errorf("read %s/%d: %w", topic, p, errLeaderless))
			continue
		}
		led[addr] = append(led[addr], p)
	}
	for addr, partitions := range led {
		conn := connection{config: a.conf, addr: addr}
		for _, p := range partitions {
			rec, some, ferr := firstRecord(ctx, &conn, topic, p, from[p])
			if ferr != nil {
				err = cmp.Or(err, fmt.Errorf("read %s/%d at offset %d: %w", topic, p, from[p], forbidden(ferr)))
			} else if some {
				found[p] = rec
			}
		}
		conn.close()
	}
	return found, err
}

func firstRecord(ctx context.Context, conn *connection, topic string, partition int32, from int64) (delay.Record, bool, error) {
	for range firstTries {
		part, err := fetchPart(ctx, conn, topic, partition, from, sarama.ReadCommitted)
		if err != nil {
			return delay.Record{}, false, err
		}
		page := decodePage(topic, partition, from, part, nil, 0)
		if len(page.records) > 0 {
			return copyRecords(page.records[:1])[0], true, nil
		}
		if page.next == from {
			return delay.Record{}, false, page.err // nil at the end
		}
		from = page.next
	}
	return delay.Record{}, false, nil
}

// fetchPart asks once for what a partition has at an offset.
func fetchPart(ctx context.Context, conn *connection, topic string, partition int32, from int64, isolation sarama.IsolationLevel) (*part, error) {
	req := &sarama.FetchRequest{
		Version: 11, SessionEpoch: -1, Isolation: isolation,
		MinBytes: 1, MaxWaitTime: fetchOnceWait, MaxBytes: explainBytes,
	}
	req.AddBlock(topic, partition, from, explainBytes, -1)
	resp, err := conn.fetch(ctx, requestTimeout, req)
	if err != nil {
		return nil, err
	}
	p := resp.part(topic, partition)
	if p == nil {
		return nil, sarama.ErrIncompleteResponse
	}
	return p, kafkaError(p.Err)
}
