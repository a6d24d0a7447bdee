package bucket

import "sort"

// What a pending record takes beside its message, in bytes.
const (
	entryBytes = 16 // an entry
	slotBytes  = 24 // a payload slot
	// completedBytes is the record's share of the completed set.
	completedBytes = 24
)

// Cost is what a near record with a message of that many bytes is charged: what it
// takes by itself. What is allocated around records depends on how their due times
// lie, and is in Index.Bytes.
func Cost(messageBytes int) int64 {
	return allocated(messageBytes) + entryBytes + slotBytes + completedBytes
}

// allocated is what Go's allocator takes for n bytes without pointers.
func allocated(n int) int64 {
	if n <= 0 {
		return 0
	}
	if n > sizeClasses[len(sizeClasses)-1] {
		return (int64(n) + pageBytes - 1) / pageBytes * pageBytes
	}
	return int64(sizeClasses[sort.SearchInts(sizeClasses[:], n)])
}

// scanned is what the allocator takes for n bytes with pointers in them: from a size on
// it puts a header in front.
func scanned(n int) int64 {
	if n > headerFrom && n <= sizeClasses[len(sizeClasses)-1]-headerBytes {
		n += headerBytes
	}
	return allocated(n)
}

const (
	pageBytes   = 8192
	headerFrom  = 512
	headerBytes = 8
)

// sizeClasses are those of Go's runtime (internal/runtime/gc). A test compares
// them with what the running version does.
var sizeClasses = [...]int{
	8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256,
	288, 320, 352, 384, 416, 448, 480, 512, 576, 640, 704, 768, 896, 1024, 1152, 1280,
	1408, 1536, 1792, 2048, 2304, 2688, 3072, 3200, 3456, 4096, 4864, 5376, 6144,
	6528, 6784, 6912, 8192, 9472, 9728, 10240, 10880, 12288, 13568, 14336, 16384,
	18432, 19072, 20480, 21760, 24576, 27264, 28672, 32768,
}
