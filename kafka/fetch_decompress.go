package kafka

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
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

// unpackSnappy doubles what it gives room to until that is enough: what is packed in
// blocks, as Java does, does not say its size beforehand.
func unpackSnappy(packed []byte) ([]byte, error) {
	for room := max(4*len(packed), 4096); ; room *= 2 {
		room = min(room, maxDecompressed)
		plain, err := xerial.DecodeCapped(make([]byte, 0, room), packed)
		if errors.Is(err, xerial.ErrDstTooSmall) {
			if room < maxDecompressed {
				continue
			}
			err = errTooLarge
		}
		if err != nil {
			return nil, fmt.Errorf("unpack snappy: %w", err)
		}
		return plain, nil
	}
}
