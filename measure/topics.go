package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"delay-scheduler/kafka"
)

// ErrLeft says that a topic of a run could not be removed.
var ErrLeft = errors.New("a topic is left")

// adminWait bounds one thing that a cluster is told.
const adminWait = time.Minute

// Topics are those of one run. None of them was there before.
type Topics struct {
	Source, DeadLetters string
	Copy                string // empty: no plain copy is made
	Targets             []string
}

// NewTopics names the topics of a run that begins now, the source with that suffix.
func NewTopics(prefix, suffix string, targets int, now time.Time) Topics {
	base := prefix + "-" + strconv.FormatInt(now.UnixMilli(), 36)
	t := Topics{Source: base + suffix, DeadLetters: base + "-dlq", Copy: base + "-copy"}
	for n := range targets {
		t.Targets = append(t.Targets, base+"-target-"+strconv.Itoa(n+1))
	}
	return t
}

// All are the names, the source last: so that it is made when its targets are there.
func (t Topics) All() []string {
	all := append([]string{t.DeadLetters}, t.Targets...)
	if t.Copy != "" {
		all = append(all, t.Copy)
	}
	return append(all, t.Source)
}

// create makes the topics. Remove deletes those that were made, also after an error and
// when ctx has ended; its error names those that could not be deleted. It gives up when
// hurry ends.
func (t Topics) create(ctx, hurry context.Context, admin *kafka.Admin, partitions int32, replication int16) (remove func() error, err error) {
	var made []string
	remove = func() error {
		var errs []error
		for _, name := range slices.Backward(made) {
			errs = append(errs, deleteTopic(hurry, admin, name))
		}
		return errors.Join(errs...)
	}
	for _, name := range t.All() {
		// Before the answer: a topic may have been made though none came.
		made = append(made, name)
		if err := createTopic(ctx, admin, name, partitions, replication); err != nil {
			if errors.Is(err, kafka.ErrTopicExists) {
				made = made[:len(made)-1]
			}
			return remove, err
		}
	}
	return remove, nil
}

func createTopic(ctx context.Context, admin *kafka.Admin, name string, partitions int32, replication int16) error {
	ctx, cancel := context.WithTimeout(ctx, adminWait)
	defer cancel()
	return admin.CreateTopic(ctx, name, partitions, replication, map[string]string{
		// By the broker's clock, for early and late are judged by that.
		"message.timestamp.type": "LogAppendTime",
		// Housekeeping would take records away before they are counted.
		"retention.ms": "-1", "retention.bytes": "-1",
	})
}

func deleteTopic(ctx context.Context, admin *kafka.Admin, name string) error {
	ctx, cancel := context.WithTimeout(ctx, adminWait)
	defer cancel()
	err := admin.DeleteTopic(ctx, name)
	if err == nil || errors.Is(err, kafka.ErrUnknownTopic) {
		return nil
	}
	return fmt.Errorf("%w: delete %s by hand: %w", ErrLeft, name, err)
}
