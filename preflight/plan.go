package preflight

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"delay-scheduler/delay"
)

// TopicRequest asks for the topics that a business topic needs.
type TopicRequest struct {
	Topic       string
	Delay       string   // the topic that delayed records are written to
	Retry       string   // the same for retries
	DeadLetters []string // where what is refused of the two goes: one name or two
	Redelivery  string   // where one group's retries come back to; empty: none
	Partitions  int32    // 0: as many as the business topic has
	Replication int16    // 0: as the business topic has
	MaxDelay    time.Duration
	Brokers     int   // that there are; 0: not known
	DefaultSize int64 // largest record of a topic that does not say, bytes
	Existing    map[string]ExistingTopic
}

// ExistingTopic is a topic that is there.
type ExistingTopic struct {
	Partitions  int32
	Replication int16
	Configs     map[string]string // nil: they cannot be read
}

// TopicPlan is what has to be done.
type TopicPlan struct {
	Topics []PlannedTopic `json:"topics"`
	Notes  []string       `json:"notes,omitempty"`
}

// PlannedTopic is one topic of a plan.
type PlannedTopic struct {
	Name        string            `json:"name"`
	Role        string            `json:"role"` // business, delay, retry, dead letters, redelivery
	Exists      bool              `json:"exists"`
	Partitions  int32             `json:"partitions"`
	Replication int16             `json:"replication"`
	Configs     map[string]string `json:"configs"` // that it has to have
	Drift       []Drift           `json:"drift,omitempty"`
}

// Drift is how a topic that exists differs from what it should be.
type Drift struct {
	Setting string `json:"setting"`
	Is      string `json:"is"`
	Want    string `json:"want"`
	Do      string `json:"do"`
	Fixable bool   `json:"fixable"` // by changing a setting of the topic
}

// Missing are the topics that have to be created.
func (p TopicPlan) Missing() []PlannedTopic {
	return slices.DeleteFunc(slices.Clone(p.Topics), func(t PlannedTopic) bool { return t.Exists })
}

// Drifts counts the differences of topics that exist, and those of them that a change of
// settings mends.
func (p TopicPlan) Drifts() (all, fixable int) {
	for _, t := range p.Topics {
		all += len(t.Drift)
		fixable += len(t.Fixes())
	}
	return all, fixable
}

// Fixes are the settings that have to be changed.
func (t PlannedTopic) Fixes() map[string]string {
	fixes := map[string]string{}
	for _, d := range t.Drift {
		if d.Fixable {
			fixes[d.Setting] = d.Want
		}
	}
	return fixes
}

// defaultSize is Kafka's default of message.max.bytes.
const defaultSize = 1048588

// PlanTopics compares what is needed with what exists. The error names everything that
// is wrong with the request.
func PlanTopics(r TopicRequest) (TopicPlan, error) {
	p := planner{r}
	if err := p.complete(); err != nil {
		return TopicPlan{}, err
	}
	body := r.DefaultSize
	if body <= 0 {
		body = defaultSize
	}
	body = max(body, p.sizeOf(r.Topic))
	source := map[string]string{
		keyTimestamp: "LogAppendTime", keyCleanup: "delete", keyRetention: millis(wantedRetention(r.MaxDelay)),
		// The headers that ask for a delay come on top of what the business topic takes.
		keySize: strconv.FormatInt(body+deadLetterRoom, 10),
	}
	largest := max(body+deadLetterRoom, p.sizeOf(r.Delay), p.sizeOf(r.Retry))
	dead := map[string]string{
		keyCleanup: "delete", keyRetention: millis(2 * wantedRetention(r.MaxDelay)),
		keySize: strconv.FormatInt(largest+deadLetterRoom, 10),
	}
	var plan TopicPlan
	add := func(name, role string, configs map[string]string) {
		plan.Topics = append(plan.Topics, p.topic(name, role, configs))
		if e, ok := r.Existing[name]; ok && e.Configs == nil {
			plan.Notes = append(plan.Notes, fmt.Sprintf("the settings of %s cannot be read, so nothing is said of them: grant DESCRIBE_CONFIGS on it", name))
		}
	}
	add(r.Topic, "business", nil)
	add(r.Delay, "delay", source)
	add(r.Retry, "retry", source)
	for _, name := range r.DeadLetters {
		add(name, "dead letters", dead)
	}
	if r.Redelivery != "" {
		add(r.Redelivery, "redelivery", map[string]string{keyCleanup: "delete", keySize: source[keySize]})
	}
	return plan, nil
}

// planner is a request that is being completed.
type planner struct{ TopicRequest }

// complete fills in what the business topic dictates.
func (p *planner) complete() error {
	var errs []error
	for _, name := range slices.Concat([]string{p.Topic, p.Delay, p.Retry}, p.DeadLetters) {
		if !delay.ValidTopic(name) {
			errs = append(errs, fmt.Errorf("%q is no name of a topic: letters, digits, dot, _ and -, at most 249 of them", name))
		}
	}
	if p.Redelivery != "" && !delay.ValidTopic(p.Redelivery) {
		errs = append(errs, fmt.Errorf("%q is no name of a topic: a group's redelivery topic has the group in its name, so it must consist of letters, digits, dot, _ and -", p.Redelivery))
	}
	business, exists := p.Existing[p.Topic]
	if exists && p.Partitions == 0 {
		p.Partitions = business.Partitions
	}
	if exists && p.Replication == 0 {
		p.Replication = business.Replication
	}
	if p.Partitions < 1 {
		errs = append(errs, fmt.Errorf("the number of partitions is %d and topic %s does not exist to take it from: give --partitions", p.Partitions, p.Topic))
	}
	switch {
	case p.Replication < 1:
		errs = append(errs, fmt.Errorf("the replication is %d and topic %s does not exist to take it from: give --replication", p.Replication, p.Topic))
	case p.Brokers > 0 && int(p.Replication) > p.Brokers:
		errs = append(errs, fmt.Errorf("the replication is %d and there are %d brokers", p.Replication, p.Brokers))
	}
	if p.MaxDelay <= 0 {
		errs = append(errs, fmt.Errorf("the longest delay is %s, must be positive", p.MaxDelay))
	}
	return errors.Join(errs...)
}

// sizeOf is the largest record that an existing topic takes; 0: not known.
func (p *planner) sizeOf(name string) int64 {
	n, err := strconv.ParseInt(p.Existing[name].Configs[keySize], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (p *planner) topic(name, role string, configs map[string]string) PlannedTopic {
	t := PlannedTopic{Name: name, Role: role, Partitions: p.Partitions, Replication: p.Replication, Configs: map[string]string{}}
	maps.Copy(t.Configs, configs)
	t.Configs[keyMinInSync] = leastInSync(p.Replication)
	is, exists := p.Existing[name]
	if !exists {
		return t
	}
	t.Exists = true
	t.Configs[keyMinInSync] = leastInSync(is.Replication)
	if role == "business" {
		t.Configs = map[string]string{} // its owner's affair
	}
	t.Drift = slices.Concat(layoutDrift(t, is), settingsDrift(t, is))
	t.Partitions, t.Replication = is.Partitions, is.Replication
	return t
}

// leastInSync leaves one broker's loss without consequences where there are three.
func leastInSync(replication int16) string {
	if replication >= 3 {
		return "2"
	}
	return "1"
}

func layoutDrift(t PlannedTopic, is ExistingTopic) (drift []Drift) {
	if is.Partitions != t.Partitions {
		d := Drift{Setting: "partitions", Is: strconv.Itoa(int(is.Partitions)), Want: strconv.Itoa(int(t.Partitions))}
		d.Do = "partitions cannot be taken away: plan with --partitions " + d.Is
		if is.Partitions < t.Partitions {
			d.Do = fmt.Sprintf("raise it with kafka-topics.sh --alter --topic %s --partitions %s; keys move to other partitions", t.Name, d.Want)
		}
		drift = append(drift, d)
	}
	if is.Replication < t.Replication {
		drift = append(drift, Drift{
			Setting: "replication", Is: strconv.Itoa(int(is.Replication)), Want: strconv.Itoa(int(t.Replication)),
			Do: "add replicas with kafka-reassign-partitions.sh",
		})
	}
	return drift
}

func settingsDrift(t PlannedTopic, is ExistingTopic) (drift []Drift) {
	if is.Configs == nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(t.Configs)) {
		value, want := is.Configs[key], t.Configs[key]
		if !fits(key, value, want) {
			drift = append(drift, Drift{Setting: key, Is: orUnset(value), Want: want, Do: alter(t.Name, key, want), Fixable: true})
		}
	}
	return drift
}

// fits says whether a setting will do: limits may also be higher.
func fits(key, is, want string) bool {
	if is == want {
		return true
	}
	n, err := strconv.ParseInt(is, 10, 64)
	least, _ := strconv.ParseInt(want, 10, 64)
	switch key {
	case keyRetention:
		return err == nil && (n < 0 || n >= least)
	case keySize, keyMinInSync:
		return err == nil && n >= least
	}
	return false
}
