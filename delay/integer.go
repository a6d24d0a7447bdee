package delay

import (
	"encoding/binary"
	"math"
	"strconv"
)

// integerKind says what a header's value is as an integer.
type integerKind uint8

const (
	absent     integerKind = iota // there is no such header
	whole                         // an integer
	overflow                      // decimal digits beyond 2^63-1
	unreadable                    // none
)

// readInteger reads decimal text, with or without JSON quotes, or a big-endian
// integer of 4 or 8 bytes. What is printable is text and never binary: "1e30",
// "10.5" and "50ms" are legal int32s of nine days and more.
func readInteger(v []byte) (int64, integerKind) {
	if !printable(v) {
		switch len(v) {
		case 4:
			return int64(int32(binary.BigEndian.Uint32(v))), whole
		case 8:
			return int64(binary.BigEndian.Uint64(v)), whole
		}
		return 0, unreadable
	}
	if n := len(v); n >= 2 && v[0] == '"' && v[n-1] == '"' {
		v = v[1 : n-1]
	}
	return readDecimal(v)
}

func readDecimal(v []byte) (int64, integerKind) {
	if len(v) == 0 {
		return 0, unreadable
	}
	var n int64
	if len(v) < len("9223372036854775807") { // too short to overflow, as nearly all are
		for _, c := range v {
			d := int64(c) - '0'
			if d < 0 || d > 9 {
				return 0, unreadable
			}
			n = n*10 + d
		}
		return n, whole
	}
	kind := whole
	for _, c := range v {
		d := int64(c) - '0'
		if d < 0 || d > 9 {
			return 0, unreadable
		}
		if n > math.MaxInt64/10 || n*10 > math.MaxInt64-d {
			kind, n = overflow, 0 // and go on: a letter may follow
		}
		n = n*10 + d
	}
	if kind == overflow {
		return 0, overflow
	}
	return n, whole
}

// printable says whether all bytes are printable ASCII.
func printable(v []byte) bool {
	for _, c := range v {
		if c < 0x20 || c > 0x7e {
			return false
		}
	}
	return true
}

// readCount reads an integer of at least 0; the kind is whole or overflow.
func readCount(name string, v []byte) (int64, integerKind, *Refusal) {
	n, kind := readInteger(v)
	switch {
	case kind == unreadable:
		return 0, kind, malformed(name + " " + show(v) + unreadableWhy(v))
	case n < 0:
		return 0, kind, malformed(name + " " + decimal(n) + " is negative")
	}
	return n, kind, nil
}

// readTime reads an absolute time in epoch ms; the kind is whole or overflow.
func readTime(name string, v []byte) (int64, integerKind, *Refusal) {
	n, kind := readInteger(v)
	switch {
	case kind == unreadable:
		return 0, kind, malformed(name + " " + show(v) + unreadableWhy(v))
	case kind == whole && n < 0:
		return 0, kind, malformed(name + " " + decimal(n) + " is negative")
	case kind == whole && n < leastTime:
		return 0, kind, malformed(name + " " + decimal(n) + " is below 10^12: expected are epoch milliseconds, not seconds")
	}
	return n, kind, nil
}

func unreadableWhy(v []byte) string {
	switch {
	case len(v) == 0:
		return " is no integer"
	case len(v) == 4 && printable(v):
		return " is not decimal digits, and four printable bytes are never read as a binary integer: send text or 8 bytes"
	case printable(v):
		return " is not decimal digits"
	}
	return " is neither decimal digits nor a big-endian integer of 4 or 8 bytes"
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
