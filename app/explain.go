package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"delay-scheduler/config"
	"delay-scheduler/delay"
	"delay-scheduler/kafka"
)

// ErrNoSource says that no source of the configuration matches a topic.
var ErrNoSource = errors.New("no source of the configuration matches the topic, so it is not read")

// Explanation is what becomes of a record, and why.
type Explanation struct {
	Topic      string     `json:"topic"`
	Partition  *int32     `json:"partition,omitempty"`
	Offset     *int64     `json:"offset,omitempty"`
	Source     string     `json:"source"` // the part of the configuration that decides
	Base       *time.Time `json:"base,omitempty"`
	BaseFrom   string     `json:"base_from,omitempty"`
	Due        *time.Time `json:"due,omitempty"`
	DueMS      int64      `json:"due_ms,omitempty"`
	Target     string     `json:"target,omitempty"`
	Attempt    int32      `json:"attempt,omitempty"`
	Hops       int32      `json:"hops,omitempty"`
	DeadLetter string     `json:"dead_letter_topic"`
	DelayID    string     `json:"delay_id"`
	Refused    *Refused   `json:"refused,omitempty"`
	Notes      []string   `json:"notes,omitempty"`
}

// Refused says why a record goes to the dead-letter topic.
type Refused struct {
	Reason string `json:"reason"`
	Detail string `json:"detail"`
}

// Explain says what the configuration makes of a record. A negative offset stands for
// one that is not written yet.
func Explain(c *config.Config, rec *delay.Record) (Explanation, error) {
	x, err := newExplainer(c)
	if err != nil {
		return Explanation{}, err
	}
	return x.explain(rec)
}

// explainer explains many records. It is not for concurrent use.
type explainer struct {
	config  *config.Config
	sources *sources
	parsers map[string]*delay.Parser
}

func newExplainer(c *config.Config) (*explainer, error) {
	all, err := newSources(c)
	if err != nil {
		return nil, err
	}
	return &explainer{config: c, sources: all, parsers: map[string]*delay.Parser{}}, nil
}

func (x *explainer) explain(rec *delay.Record) (Explanation, error) {
	c := x.config
	src, ok := c.SourceFor(rec.Topic)
	if !ok {
		return Explanation{Topic: rec.Topic}, fmt.Errorf("topic %s: %w (sources: %s)", rec.Topic, ErrNoSource, patterns(c))
	}
	rules := x.sources.made[src]
	e := Explanation{Topic: rec.Topic, Source: nameSource(c, src), DeadLetter: rules.Rules.DeadLetter(rec.Topic)}
	e.place(rec)
	req, ref := rules.Judge(x.parser(rec.Topic, rules.Rules), rec)
	if ref != nil {
		e.Refused = &Refused{Reason: string(ref.Reason), Detail: ref.Detail}
		return e, nil
	}
	base, due := time.UnixMilli(req.Base), time.UnixMilli(req.Due)
	e.Base, e.Due, e.DueMS = &base, &due, req.Due
	e.BaseFrom = baseFrom(src, rec)
	e.Target, e.Attempt, e.Hops = req.Target, req.Attempt, req.Hops
	if jittered(src, rec) {
		e.Notes = append(e.Notes, "the retry policy's jitter comes from the record's place, which it has not got yet: it may be due a little earlier or later")
	}
	return e, nil
}

func (x *explainer) parser(topic string, r *delay.Rules) *delay.Parser {
	if x.parsers[topic] == nil {
		x.parsers[topic] = delay.NewParser(topic, r)
	}
	return x.parsers[topic]
}

// ErrPlace says that something is no place of a record.
var ErrPlace = errors.New("want a record's place, such as orders-delay/0/42: topic, partition and offset")

// ReadRecord reads one record of the configured cluster; place is
// topic/partition/offset.
func ReadRecord(ctx context.Context, c *config.Config, place string) (*delay.Record, error) {
	at, err := parsePosition(strings.Split(place, "/"))
	if err != nil {
		return nil, fmt.Errorf("%q: %w", place, err)
	}
	admin, err := kafka.NewAdmin(clusterOptions(c))
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	// All topics, so that a broker that makes what is named does not make this one.
	if _, err := sourceTopics(ctx, admin, c, []string{at.topic}); err != nil {
		return nil, err
	}
	rec, err := admin.ReadRecord(ctx, at.topic, at.partition, at.offset)
	return &rec, err
}

// place fills in where the record is.
func (e *Explanation) place(rec *delay.Record) {
	if rec.Offset < 0 {
		e.DelayID = fmt.Sprintf("%s/<partition>/<offset>/%d", rec.Topic, rec.Timestamp)
		return
	}
	partition, offset := rec.Partition, rec.Offset
	e.Partition, e.Offset = &partition, &offset
	e.DelayID = delay.Identity(rec.Topic, rec.Partition, rec.Offset, rec.Timestamp)
}

// baseFrom names what the base time is, for people.
func baseFrom(src *config.Source, rec *delay.Record) string {
	switch {
	case src.Base == "origin-time" && hasHeader(rec, delay.HeaderOriginTime):
		return "the header " + delay.HeaderOriginTime
	case rec.AppendTime:
		return "the broker's append time"
	}
	return "the record's timestamp, as the producer set it"
}

// jittered says whether the due time of a record that is not written yet depends on
// where it will be written.
func jittered(src *config.Source, rec *delay.Record) bool {
	if src.Retry == nil || src.Retry.Jitter == 0 || src.Delay > 0 || rec.Offset >= 0 {
		return false
	}
	for _, name := range []string{
		delay.HeaderNextRetryTime, delay.HeaderDeliverAt, delay.HeaderDelayMS,
		delay.HeaderOriginalOffset, delay.HeaderInitialOffset,
	} {
		if hasHeader(rec, name) {
			return false
		}
	}
	return true
}

func hasHeader(rec *delay.Record, name string) bool {
	for i := range rec.Headers {
		if string(rec.Headers[i].Key) == name {
			return true
		}
	}
	return false
}

func nameSource(c *config.Config, src *config.Source) string {
	for i := range c.Sources {
		if &c.Sources[i] == src {
			return fmt.Sprintf("sources[%d] (%s)", i, strings.Join(src.Topics, ", "))
		}
	}
	return ""
}

func patterns(c *config.Config) string {
	var all []string
	for i := range c.Sources {
		all = append(all, c.Sources[i].Topics...)
	}
	return strings.Join(all, ", ")
}
