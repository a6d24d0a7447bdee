package kafka

import "encoding/binary"

// cursor reads what a broker wrote. Once something does not fit it is bad, and gives
// zeros from then on, so that whoever reads need only ask at the end. Nothing that it
// gives is longer than what is there.
type cursor struct {
	raw []byte
	at  int
	bad bool
}

func (c *cursor) left() int { return len(c.raw) - c.at }

// take gives the next n bytes, which alias what is read from.
func (c *cursor) take(n int) []byte {
	if c.bad || n < 0 || n > c.left() {
		c.bad = true
		return nil
	}
	b := c.raw[c.at : c.at+n : c.at+n]
	c.at += n
	return b
}

func (c *cursor) skip(n int) { c.take(n) }

func (c *cursor) uint32() uint32 {
	if b := c.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// length is a count that goes before so many bytes or elements, none of which is
// smaller than a byte; null counts as none.
func (c *cursor) length() int {
	n := int(int32(c.uint32()))
	if n > c.left() {
		c.bad = true
		return 0
	}
	return max(n, 0)
}

// text is a short string.
func (c *cursor) text() []byte {
	if b := c.take(2); b != nil {
		return c.take(int(int16(binary.BigEndian.Uint16(b))))
	}
	return nil
}

// varint reads a number in zigzag form.
func (c *cursor) varint() int64 {
	if !c.bad && c.at < len(c.raw) {
		if b := c.raw[c.at]; b < 0x80 { // most are short
			c.at++
			return int64(b>>1) ^ -int64(b&1)
		}
	}
	v, n := binary.Varint(c.raw[c.at:])
	if c.bad || n <= 0 {
		c.bad = true
		return 0
	}
	c.at += n
	return v
}

// varbytes reads bytes with their length before them, nil if that is below zero.
func (c *cursor) varbytes() []byte {
	n := c.varint()
	if n < 0 {
		return nil
	}
	if n > int64(c.left()) {
		c.bad = true
		return nil
	}
	return c.take(int(n))
}
