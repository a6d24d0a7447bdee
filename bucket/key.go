package bucket

import "math"

// Key is the order in which records leave an index: by due time, then by offset.
type Key struct {
	Due    int64 // epoch ms
	Offset int64
}

// Endless is beyond every record.
var Endless = Key{Due: math.MaxInt64, Offset: math.MaxInt64}

// Less says whether k comes before o.
func (k Key) Less(o Key) bool {
	return k.Due < o.Due || k.Due == o.Due && k.Offset < o.Offset
}
