package kafka

import "delay-scheduler/delay"

// copyRecords copies records out of the responses that they alias, into one buffer.
func copyRecords(records []delay.Record) []delay.Record {
	if len(records) == 0 {
		return records
	}
	bytes, headers := 0, 0
	for i := range records {
		r := &records[i]
		bytes += len(r.Key) + len(r.Value)
		headers += len(r.Headers)
		for _, h := range r.Headers {
			bytes += len(h.Key) + len(h.Value)
		}
	}
	c := copier{buffer: make([]byte, 0, bytes), headers: make([]delay.Header, 0, headers)}
	copies := make([]delay.Record, len(records))
	for i, r := range records {
		r.Key, r.Value = c.bytes(r.Key), c.bytes(r.Value)
		start := len(c.headers)
		for _, h := range r.Headers {
			c.headers = append(c.headers, delay.Header{Key: c.bytes(h.Key), Value: c.bytes(h.Value)})
		}
		if r.Headers != nil {
			r.Headers = c.headers[start:len(c.headers):len(c.headers)]
		}
		copies[i] = r
	}
	return copies
}

// copier has buffers of exactly the size that is needed, so they never move.
type copier struct {
	buffer  []byte
	headers []delay.Header
}

// bytes copies b; null stays null and empty stays empty.
func (c *copier) bytes(b []byte) []byte {
	if b == nil {
		return nil
	}
	start := len(c.buffer)
	c.buffer = append(c.buffer, b...)
	return c.buffer[start:len(c.buffer):len(c.buffer)]
}
