package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/snappy/xerial"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codecs, as a batch names them.
const (
	codecNone = iota
	codecGZIP
	codecSnappy
	codecLZ4
	codecZSTD
)

var (
	errTooLarge = fmt.Errorf("it unpacks to more than %d bytes", maxDecompressed)

	gzipReaders = sync.Pool{New: func() any { return new(gzip.Reader) }}
	lz4Readers  = sync.Pool{New: func() any { return lz4.NewReader(nil) }}
	// One for all: DecodeAll may be called by many at a time and starts no goroutines.
	zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxDecompressed), zstd.WithDecoderLowmem(true))
	})
)

// decompress unpacks what a codec has packed, at most maxDecompressed bytes. What is not
// packed is given as it is.
func decompress(codec int, packed []byte) ([]byte, error) {
	switch codec {
	case codecNone:
		return packed, nil
	case codecGZIP:
		r := gzipReaders.Get().(*gzip.Reader)
		defer gzipReaders.Put(r)
		if err := r.Reset(bytes.NewReader(packed)); err != nil {
			return nil, fmt.Errorf("unpack gzip: %w", err)
		}
		return unpack("gzip", r)
	case codecSnappy:
		return unpackSnappy(packed)
	case codecLZ4:
		r := lz4Readers.Get().(*lz4.Reader)
		defer lz4Readers.Put(r)
		r.Reset(bytes.NewReader(packed))
		return unpack("lz4", r)
	case codecZSTD:
		d, err := zstdDecoder()
		if err != nil {
			return nil, fmt.Errorf("set up zstd: %w", err)
		}
		plain, err := d.DecodeAll(packed, nil)
		if errors.Is(err, zstd.ErrDecoderSizeExceeded) {
			err = errTooLarge
		}
		if err != nil {
			return nil, fmt.Errorf("unpack zstd: %w", err)
		}
		return plain, nil
	default:
		return nil, fmt.Errorf("codec %d is not known", codec)
	}
}

func unpack(codec string, r io.Reader) ([]byte, error) {
	var plain bytes.Buffer
	n, err := plain.ReadFrom(io.LimitReader(r, maxDecompressed+1))
	if err == nil && n > maxDecompressed {
		err = errTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", codec, err)
	}
	return plain.Bytes(), nil
}

// xerialMagic begins what is packed in blocks, as Java does it. A version of eight bytes
// follows, and then each block with its length.
var xerialMagic = []byte("\x82SNAPPY\x00")

// unpackSnappy takes exactly the room that is needed: a page of each partition is unpacked
// at a time, so what one takes in vain is taken by all.
func unpackSnappy(packed []byte) ([]byte, error) {
	size, err := snappySize(packed)
	if err == nil && size > maxDecompressed {
		err = errTooLarge
	}
	var plain []byte
	if err == nil {
		plain, err = xerial.DecodeCapped(make([]byte, 0, size), packed)
	}
	if err != nil {
		return nil, fmt.Errorf("unpack snappy: %w", err)
	}
	return plain, nil
}

// snappySize is what something says that it unpacks to. What is no block is not counted,
// and nothing may be unpacked before it is.
func snappySize(packed []byte) (size int, err error) {
	const versions, length = 8, 4
	if !bytes.HasPrefix(packed, xerialMagic) {
		return blockSize(packed)
	}
	rest := packed[min(len(xerialMagic)+versions, len(packed)):]
	for len(rest) >= length {
		n := int64(binary.BigEndian.Uint32(rest))
		rest = rest[length:]
		if n > int64(len(rest)) {
			break
		}
		block, err := blockSize(rest[:n])
		if err != nil {
			return 0, err
		}
		size, rest = size+block, rest[n:]
	}
	return size, nil
}

// snappyMost bounds how much a byte of a block can unpack to: at the most three of them
// repeat 64 bytes. A block that says more is damaged, and gets no memory for it.
const snappyMost = 64

func blockSize(block []byte) (int, error) {
	n, err := s2.DecodedLen(block)
	if err == nil && n > snappyMost*len(block) {
		err = fmt.Errorf("a block of %d bytes says that it unpacks to %d", len(block), n)
	}
	return n, err
}
