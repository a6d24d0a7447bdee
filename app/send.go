package app

import (
	"context"
	"errors"
	"time"

	"delay-scheduler/config"
	"delay-scheduler/delay"
	"delay-scheduler/kafka"
)

// SendOptions say what is written to a source, and whether to wait for it to come out.
type SendOptions struct {
	Topic   string
	Record  delay.Outgoing // key, value and headers of every record
	Count   int
	Rate    float64 // records a second; 0: as fast as they are taken
	Wait    bool
	Timeout time.Duration // after the last due time, until what is missing is given up
	// Progress hears now and then how it stands. It must not block for long.
	Progress func(SendProgress)
}

// SendProgress is how it stands.
type SendProgress struct {
	Total, Written, Arrived int
	Due                     time.Time // of the record that is due last among those written
}

// Sent is one record that was written, and what became of it.
type Sent struct {
	ID        string    `json:"delay_id"`
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	Written   time.Time `json:"written"` // the record's timestamp
	Due       time.Time `json:"due,omitzero"`
	Arrival   *Arrival  `json:"arrival,omitempty"`
}

// Arrival is where and when a record came out.
type Arrival struct {
	Topic     string        `json:"topic"`
	Partition int32         `json:"partition"`
	Offset    int64         `json:"offset"`
	At        time.Time     `json:"at"` // by the broker on a LogAppendTime topic, else when it was read
	Late      time.Duration `json:"late_ns"`
	Refused   *Refused      `json:"refused,omitempty"` // it is a dead letter
}

// SendResult is what became of all of them.
type SendResult struct {
	Topic        string        `json:"topic"`
	Target       string        `json:"target,omitempty"`
	Written      int           `json:"written"`
	Failed       int           `json:"failed"`
	Arrived      int           `json:"arrived"`
	DeadLettered int           `json:"dead_lettered"`
	Missing      int           `json:"missing"`
	Early        int           `json:"early"`
	Duplicates   int           `json:"duplicates"`
	P50          time.Duration `json:"p50_late_ns"`
	P99          time.Duration `json:"p99_late_ns"`
	Max          time.Duration `json:"max_late_ns"`
	Took         time.Duration `json:"took_ns"` // to write them
	Records      []Sent        `json:"records,omitempty"`
	Trouble      string        `json:"trouble,omitempty"` // of reading the target
}

// Done says whether everything that was asked for has happened.
func (r SendResult) Done() bool { return r.Failed == 0 && r.Missing == 0 && r.DeadLettered == 0 }

const (
	// sendKept is how many records are listed that nobody waits for.
	sendKept = 1000
	// sendTick is how often progress is told.
	sendTick = 100 * time.Millisecond
)

// Send writes records and, if asked to, waits for them at their target.
//
// A record that comes out is recognised by its delay-id, which is the place where it
// was written; a dead letter by its original-* headers, which are the same. So nothing
// has to be added to the records, and what others send does not disturb.
func Send(ctx context.Context, c *config.Config, o SendOptions) (SendResult, error) {
	s, err := newSender(c, o)
	if err != nil {
		return SendResult{}, err
	}
	w, err := kafka.NewWriter(ctx, clusterOptions(c), o.Topic, s.size())
	if err != nil {
		return SendResult{}, err
	}
	defer w.Close()
	if o.Wait {
		// Before the first record is written: it may be due at once.
		stop, err := s.watchOutlets(ctx, c)
		if err != nil {
			return SendResult{}, err
		}
		defer stop()
	}
	ctx, cancel := context.WithCancel(ctx)
	wrote := make(chan error, 1)
	go func() { wrote <- s.write(ctx, w) }()
	err = s.follow(ctx, w)
	cancel()
	err = errors.Join(err, ignoreCancelled(<-wrote))
	return s.result(), err
}

func ignoreCancelled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// sender is one Send. All but the goroutines of write and of the readers happens in
// the caller's goroutine, which owns the fields.
type sender struct {
	o         SendOptions
	explain   *explainer
	target    string
	outlet    []string // the topics where a record may come out
	arrivals  chan delivery
	troubles  chan error
	began     time.Time
	took      time.Duration
	failed    int
	failure   error
	trouble   error
	written   int
	over      bool // all are written
	lastDue   time.Time
	sent      map[position]*Sent
	order     []*Sent
	unclaimed map[int32]*unclaimed // by partition of the source
	counts    SendResult
	lates     []time.Duration
}

func newSender(c *config.Config, o SendOptions) (*sender, error) {
	s := &sender{
		o: o, sent: map[position]*Sent{}, unclaimed: map[int32]*unclaimed{},
		arrivals: make(chan delivery), troubles: make(chan error), began: time.Now(),
	}
	var err error
	if s.explain, err = newExplainer(c); err != nil {
		return nil, err
	}
	dead := (&delay.Rules{}).DeadLetter(o.Topic)
	switch e, err := s.explain.explain(s.record(0, -1, time.Now().UnixMilli())); {
	case err == nil:
		s.target, dead = e.Target, e.DeadLetter
	case !errors.Is(err, ErrNoSource):
		return nil, err
	}
	if s.target == "" {
		s.target = lastHeader(o.Record.Headers, delay.HeaderTargetTopic)
	}
	for _, t := range []string{s.target, dead} {
		if delay.ValidTopic(t) {
			s.outlet = append(s.outlet, t)
		}
	}
	return s, nil
}

// record is what is written, as it will be read.
func (s *sender) record(partition int32, offset, timestamp int64) *delay.Record {
	return &delay.Record{
		Topic: s.o.Topic, Partition: partition, Offset: offset, Timestamp: timestamp,
		Key: s.o.Record.Key, Value: s.o.Record.Value, Headers: s.o.Record.Headers,
	}
}

func (s *sender) size() int {
	n := len(s.o.Record.Key) + len(s.o.Record.Value)
	for _, h := range s.o.Record.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// write writes all records at their pace.
func (s *sender) write(ctx context.Context, w *kafka.Writer) error {
	defer w.Finish()
	began := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := range s.o.Count {
		if s.o.Rate > 0 {
			timer.Reset(time.Until(began.Add(time.Duration(float64(n) / s.o.Rate * float64(time.Second)))))
			select {
			case <-timer.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		r := s.o.Record
		r.Timestamp = time.Now().UnixMilli()
		if err := w.Write(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// follow takes what was written and what came out until all is known or given up.
func (s *sender) follow(ctx context.Context, w *kafka.Writer) error {
	results := w.Results()
	tick := time.NewTicker(sendTick)
	defer tick.Stop()
	for !s.finished(time.Now()) {
		select {
		case r, ok := <-results:
			if !ok {
				results, s.over, s.took = nil, true, time.Since(s.began)
				continue
			}
			s.wrote(r)
		case d := <-s.arrivals:
			s.arrived(d)
		case s.trouble = <-s.troubles:
		case <-tick.C:
			if s.o.Progress != nil {
				s.o.Progress(SendProgress{Total: s.o.Count, Written: s.written, Arrived: s.counts.Arrived + s.counts.DeadLettered, Due: s.lastDue})
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return s.failure
}

func (s *sender) finished(now time.Time) bool {
	if !s.over || !s.o.Wait {
		return s.over
	}
	return s.pending() == 0 || now.After(s.lastDue.Add(s.o.Timeout))
}

func (s *sender) pending() int { return s.written - s.counts.Arrived - s.counts.DeadLettered }

// wrote takes the end of one record.
func (s *sender) wrote(r kafka.Written) {
	if r.Err != nil {
		if s.failed++; s.failed == 1 {
			s.failure = r.Err
		}
		return
	}
	s.written++
	rec := s.record(r.Partition, r.Offset, r.Timestamp)
	sent := &Sent{
		ID:        delay.Identity(s.o.Topic, r.Partition, r.Offset, r.Timestamp),
		Partition: r.Partition, Offset: r.Offset, Written: time.UnixMilli(r.Timestamp),
	}
	if e, err := s.explain.explain(rec); err == nil && e.Due != nil {
		sent.Due = *e.Due
	}
	if due := latest(sent.Due, sent.Written); due.After(s.lastDue) {
		s.lastDue = due
	}
	if s.o.Wait || len(s.order) < sendKept {
		s.order = append(s.order, sent)
	}
	if !s.o.Wait {
		return
	}
	at := position{s.o.Topic, r.Partition, r.Offset}
	s.sent[at] = sent
	for _, d := range s.waiting(r.Partition).written(r.Offset) {
		s.claim(sent, d)
	}
}

// arrived takes a record that came out, ours or somebody else's.
func (s *sender) arrived(d delivery) {
	if sent := s.sent[d.from]; sent != nil {
		s.claim(sent, d)
	} else if !s.over && d.from.topic == s.o.Topic {
		s.waiting(d.from.partition).add(d)
	}
}

func (s *sender) waiting(partition int32) *unclaimed {
	if s.unclaimed[partition] == nil {
		s.unclaimed[partition] = &unclaimed{high: -1, by: map[int64][]delivery{}}
	}
	return s.unclaimed[partition]
}

// claim notes what became of a record.
func (s *sender) claim(sent *Sent, d delivery) {
	if d.id != "" && d.id != sent.ID {
		return // of a topic that had the same name
	}
	if sent.Arrival != nil {
		s.counts.Duplicates++
		return
	}
	if !d.due.IsZero() {
		sent.Due = d.due // as the scheduler understood it
	}
	a := d.arrival
	sent.Arrival = &a
	if a.Refused != nil {
		s.counts.DeadLettered++
		return
	}
	s.counts.Arrived++
	a.Late = a.At.Sub(sent.Due)
	if a.Late < 0 {
		s.counts.Early++
	}
	sent.Arrival.Late = a.Late
	s.lates = append(s.lates, a.Late)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func lastHeader(headers []delay.Header, name string) string {
	value := ""
	for _, h := range headers {
		if string(h.Key) == name {
			value = string(h.Value)
		}
	}
	return value
}

// result is what is known in the end.
func (s *sender) result() SendResult {
	r := s.counts
	r.Topic, r.Target, r.Written, r.Failed, r.Took = s.o.Topic, s.target, s.written, s.failed, s.took
	if s.o.Wait {
		r.Missing = s.pending()
	}
	r.P50, r.P99, r.Max = percentiles(s.lates)
	for _, sent := range s.order {
		r.Records = append(r.Records, *sent)
	}
	if s.trouble != nil && r.Missing > 0 {
		r.Trouble = s.trouble.Error()
	}
	return r
}
