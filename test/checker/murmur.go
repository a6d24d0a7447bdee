package main

import "encoding/binary"

// javaPartition is where Kafka's Java producer puts a key: murmur2, made positive,
// modulo the partitions. It is written here a second time on purpose: the checker
// must not share the product's code.
func javaPartition(key []byte, partitions int32) int32 {
	const m = 0x5bd1e995
	h := uint32(0x9747b28c) ^ uint32(len(key))
	b := key
	for ; len(b) >= 4; b = b[4:] {
		k := binary.LittleEndian.Uint32(b) * m
		k = (k ^ k>>24) * m
		h = h*m ^ k
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
	h ^= h >> 15
	return int32(h&0x7fffffff) % partitions
}
