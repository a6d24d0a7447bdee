package bucket

// record is what the far tier knows of a pending record.
type record struct {
	due    int64
	offset int64
	lane   uint32
}

func (r record) key() Key { return Key{Due: r.due, Offset: r.offset} }

func (r record) before(o record) bool { return r.key().Less(o.key()) }

// far holds the records that are known by due time, offset and lane alone.
type far struct {
	records heap[record]
}

func (f *far) len() int { return len(f.records) }

// min gives the least key. There must be one.
func (f *far) min() Key { return f.records[0].key() }

func (f *far) add(r record) { f.records.push(r) }

// take removes the earliest records, at most n and none due after until, and
// appends them to dst in the order of their keys.
func (f *far) take(n int, until int64, dst []record) []record {
	for ; n > 0 && len(f.records) > 0 && f.records[0].due <= until; n-- {
		dst = append(dst, f.records.pop())
	}
	return dst
}

func (f *far) bytes() int64 { return int64(cap(f.records)) * 24 }
