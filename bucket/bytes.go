package bucket

// sliceBytes is a slice's header.
const sliceBytes = 24

// Bytes is what the index takes beyond what Cost charges for its near records.
func (x *Index) Bytes() int64 {
	return x.far.bytes() + int64(len(x.seconds))*1024
}
