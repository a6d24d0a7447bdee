package kafka

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
)

const (
	// fetchKey is the number of the fetch request in the protocol.
	fetchKey = 1
	// keptFrom and keptTo are the versions of its response whose records are kept from
	// the client library: the first with batches, and the last before the lengths in it
	// became varints.
	keptFrom, keptTo = 4, 11
	// frameHead is the length of a response and the number of its request.
	frameHead = 8
)

// tap keeps the records of fetch responses from the client library, which would make
// half a dozen objects of each one, whether it is wanted or not. The library gets the
// response without them; the records stay as the bytes that they came in. It is good for
// one fetch at a time on its connection, which is how a connection is used.
type tap struct {
	mu      sync.Mutex // guards what follows
	awaited bool       // the next response is a fetch's
	number  uint32     // of that request
	version int16
	rest    []byte // of the response, for the library
	kept    *kept
	spare   []byte // a body that was given back
}

// kept is what was kept of a response.
type kept struct {
	tap     *tap
	body    []byte
	records map[place][]byte // aliases of the body
	users   atomic.Int32     // parts that are not released
}

// release says that a part's records are not used any more. When all have said so, the
// next response is read into the same bytes; if one never does, the collector takes them.
func (k *kept) release() {
	if k != nil && k.users.Add(-1) == 0 {
		k.tap.mu.Lock()
		defer k.tap.mu.Unlock()
		if cap(k.body) > cap(k.tap.spare) {
			k.tap.spare = k.body
		}
	}
}

// body gives n bytes to read a response into.
func (t *tap) body(n int64) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	if int64(cap(t.spare)) < n {
		return make([]byte, n)
	}
	b := t.spare[:n]
	t.spare = nil
	return b
}

// wrote looks at a request on its way out. The library writes each in one go.
func (t *tap) wrote(request []byte) {
	const head = 12
	if len(request) < head || binary.BigEndian.Uint16(request[4:]) != fetchKey {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.version = int16(binary.BigEndian.Uint16(request[6:]))
	t.number = binary.BigEndian.Uint32(request[8:])
	t.awaited = t.version >= keptFrom && t.version <= keptTo
	t.kept = nil
}

// read gives the library what it is to see of a connection.
func (t *tap) read(conn net.Conn, b []byte) (int, error) {
	t.mu.Lock()
	awaited, version, number := t.awaited, t.version, t.number
	n := copy(b, t.rest)
	t.rest = t.rest[n:]
	t.mu.Unlock()
	if n > 0 || len(b) == 0 {
		return n, nil
	}
	if !awaited {
		return conn.Read(b)
	}
	response, kept, err := t.readFetch(conn, version, number)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.awaited = false
	if err != nil {
		return 0, err
	}
	n = copy(b, response)
	t.rest, t.kept = response[n:], kept
	return n, nil
}

// take gives what was kept of the last response.
func (t *tap) take() *kept {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := t.kept
	t.kept = nil
	return kept
}

// readFetch reads one response and takes the records out of it. What it makes no sense
// of it leaves to the library as it came, to say what is wrong with it.
func (t *tap) readFetch(conn io.Reader, version int16, number uint32) (response []byte, k *kept, err error) {
	head := make([]byte, frameHead)
	if _, err := io.ReadFull(conn, head); err != nil {
		return nil, nil, err
	}
	size := int64(int32(binary.BigEndian.Uint32(head))) - 4
	if binary.BigEndian.Uint32(head[4:]) != number || size < 0 || size > int64(sarama.MaxResponseSize) {
		return head, nil, nil
	}
	body := t.body(size)
	if _, err := io.ReadFull(conn, body); err != nil {
		return nil, nil, err
	}
	k = &kept{tap: t, body: body, records: make(map[place][]byte)}
	s := splitter{in: cursor{raw: body}, out: head, kept: k.records}
	s.response(version)
	if s.in.bad || len(s.in.raw) > s.in.at {
		return append(head, body...), nil, nil
	}
	binary.BigEndian.PutUint32(s.out, uint32(len(s.out)-4))
	k.users.Store(int32(len(k.records)))
	return s.out, k, nil
}

// splitter takes a response apart.
type splitter struct {
	in   cursor
	out  []byte // what the library gets
	from int    // what of in is not in out yet
	kept map[place][]byte
}

// flush lets the library have all that was passed.
func (s *splitter) flush() {
	s.out = append(s.out, s.in.raw[s.from:s.in.at]...)
	s.from = s.in.at
}

func (s *splitter) response(version int16) {
	s.in.skip(4) // throttle time
	if version >= 7 {
		s.in.skip(2 + 4) // error, session
	}
	for range s.in.length() {
		topic := string(s.in.text())
		for range s.in.length() {
			if s.partition(topic, version); s.in.bad {
				return
			}
		}
	}
	s.flush()
}

func (s *splitter) partition(topic string, version int16) {
	const aborted = 8 + 8
	index := int32(s.in.uint32())
	s.in.skip(2 + 8 + 8) // error, high watermark, last stable offset
	if version >= 5 {
		s.in.skip(8) // log start
	}
	s.in.skip(s.in.length() * aborted)
	if version >= 11 {
		s.in.skip(4) // preferred replica
	}
	size := s.in.at
	records := s.in.take(s.in.length())
	if s.in.bad || len(records) > magicAt && records[magicAt] < batchMagic {
		// Messages from before there were batches are the library's.
		return
	}
	end := s.in.at
	s.in.at = size
	s.flush()
	s.out = append(s.out, 0, 0, 0, 0) // no records
	s.in.at, s.from = end, end
	s.kept[place{topic: topic, partition: index}] = records
}

// fetched is the response to a fetch.
type fetched struct {
	*sarama.FetchResponse
	kept *kept // nil: nothing
}

// part is what a response says of one partition.
type part struct {
	*sarama.FetchResponseBlock
	records []byte // as they came, in batches, the last of which may be cut off
	kept    *kept
}

// release says that nobody uses the records any more, nor anything that aliases them.
func (p *part) release() { p.kept.release() }

// part gives what is said of a partition, nil if nothing.
func (f *fetched) part(topic string, partition int32) *part {
	block := f.GetBlock(topic, partition)
	if block == nil {
		return nil
	}
	p := &part{FetchResponseBlock: block}
	if f.kept != nil {
		var ok bool
		if p.records, ok = f.kept.records[place{topic: topic, partition: partition}]; ok {
			p.kept = f.kept
		}
	}
	return p
}

// nothing says that there are no records in it, not even a piece of one.
func (p *part) nothing() bool {
	return len(p.records) == 0 && len(p.RecordsSet) == 0 && !p.Partial
}

// fetch makes one fetch request.
func (c *connection) fetch(ctx context.Context, within time.Duration, req *sarama.FetchRequest) (*fetched, error) {
	var resp *sarama.FetchResponse
	err := c.do(ctx, within, func(b *sarama.Broker) (err error) {
		resp, err = b.Fetch(req)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &fetched{FetchResponse: resp, kept: c.link.wire.tap.take()}, nil
}
