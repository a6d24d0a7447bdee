package bucket

// What structures take, in bytes.
const (
	secondBytes = 64
	blockBytes  = 56 // a block's headers and count, in its second
	sliceBytes  = 24 // a slice's header
	runBytes    = 96
	placeBytes  = 16 // a late record's place

	tableSlots = 1024 // of a table of a map that is larger than one
	tableBytes = 48   // a table, its groups left out, and its places in the directory
)

// Bytes is what the index takes beyond what Cost charges for its near records: the far
// tier, and what is allocated around near records. It is counted as things come and go,
// not by walking.
func (x *Index) Bytes() int64 {
	sum := x.size - int64(x.n)*(entryBytes+slotBytes)
	sum += int64(cap(x.queue))*8 + mapBytes(x.peak, 16)
	for _, r := range x.runs {
		sum += r.bytes()
	}
	return sum + x.far.bytes()
}

// mapBytes is what a Go map takes that has had so many elements of that size at most,
// key included. A map has a byte of control for each slot and fills seven of eight. It
// doubles table by table, not all at once; counting a twentieth more elements than
// there are allows for those that come first.
func mapBytes(peak int, element int64) int64 {
	if peak == 0 {
		return 0
	}
	slots := int64(8)
	for slots*7 < int64(peak+peak/20)*8 && slots*7/8 < int64(peak) || slots == 8 && peak > 8 {
		slots *= 2
	}
	tables := max(1, slots/tableSlots)
	return 48 + tables*(tableBytes+scanned(int(slots/tables*(element+1))))
}
