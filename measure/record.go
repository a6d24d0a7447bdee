package measure

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"delay-scheduler/delay"
)

// LeastValue is the least size of a value, in bytes: what is needed to know a record
// again when it comes out, and when it was due, without believing what the scheduler
// writes.
const LeastValue = 24

// warmUp is the number of the first record that only wakes the scheduler.
const warmUp = 1 << 62

// mark is the beginning of a value.
type mark struct {
	number    uint64
	due, sent int64 // epoch ms
}

func (m mark) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, m.number)
	b = binary.BigEndian.AppendUint64(b, uint64(m.due))
	return binary.BigEndian.AppendUint64(b, uint64(m.sent))
}

func readMark(r *delay.Record) (mark, error) {
	if len(r.Value) < LeastValue {
		return mark{}, fmt.Errorf("%s/%d at offset %d is none of ours", r.Topic, r.Partition, r.Offset)
	}
	return mark{
		number: binary.BigEndian.Uint64(r.Value),
		due:    int64(binary.BigEndian.Uint64(r.Value[8:])),
		sent:   int64(binary.BigEndian.Uint64(r.Value[16:])),
	}, nil
}

// makeRecord makes the record of a mark for a target.
func makeRecord(m mark, target []byte, valueBytes int) delay.Outgoing {
	value := Noise(m.append(make([]byte, 0, valueBytes)), m.number, valueBytes-LeastValue)
	return delay.Outgoing{
		Key: fmt.Appendf(nil, "bench-%d", m.number), Value: value,
		Headers: []delay.Header{
			{Key: []byte(delay.HeaderTargetTopic), Value: target},
			{Key: []byte(delay.HeaderDeliverAt), Value: strconv.AppendInt(nil, m.due, 10)},
		},
	}
}

// Noise appends n bytes that no compression makes smaller (SplitMix64).
func Noise(b []byte, seed uint64, n int) []byte {
	for end := len(b) + n; len(b) < end; {
		seed += 0x9e3779b97f4a7c15
		z := seed
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], z^z>>31)
		b = append(b, word[:min(8, end-len(b))]...)
	}
	return b
}
