package kafka

import (
	"encoding/binary"
	"math/rand/v2"
)

// partitionOf is where a Java producer puts a key.
func partitionOf(key []byte, partitions int) int32 {
	// Java drops the sign bit rather than negating.
	return int32(murmur2(key)&0x7fffffff) % int32(partitions)
}

// murmur2 is the hash of org.apache.kafka.common.utils.Utils.murmur2.
func murmur2(b []byte) uint32 {
	const (
		seed = 0x9747b28c
		m    = 0x5bd1e995
		r    = 24
	)
	h := uint32(seed) ^ uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		k := binary.LittleEndian.Uint32(b) * m
		h = h*m ^ (k^k>>r)*m
	}
	switch len(b) {
	case 3:
		h ^= uint32(b[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(b[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(b[0])) * m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}

// keyless chooses the partition for records without a key: at random among those that
// take records now, the same until its batch is cut. If none does, any.
func (t *produceTopic) keyless() *producePartition {
	if p := t.sticky; p != nil && p.available() {
		return p
	}
	n := t.count
	start := rand.IntN(n)
	for i := range n {
		if p := t.parts[(start+i)%n]; p.available() {
			t.sticky = p
			return p
		}
	}
	if t.sticky == nil {
		t.sticky = t.parts[start]
	}
	return t.sticky
}

// available says whether the partition takes records as far as we know.
func (p *producePartition) available() bool {
	return p.node != nil && p.node.hindered.IsZero() && p.trouble.since.IsZero() &&
		p.refused.err == nil && !p.health.slow
}
