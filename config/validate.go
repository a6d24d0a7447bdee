package config

import (
	"fmt"
	"net"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"delay-scheduler/delay"
)

// Validate names everything that is wrong with the configuration, each as a
// *FieldError, joined.
func (c *Config) Validate() error { return c.check().err() }

func (c *Config) check() problems {
	var p problems
	p.checkLimits(reflect.ValueOf(c).Elem(), "")
	c.checkKafka(&p)
	c.checkSecurity(&p)
	c.checkGroup(&p)
	c.checkSources(&p)
	p.checkGlobs("targets.allow", c.Targets.Allow)
	p.checkGlobs("targets.deny", c.Targets.Deny)
	if len(c.Targets.Allow) == 0 {
		p.add("targets.allow", "[]", `want at least one pattern, ["*"] for all`)
	}
	if c.Memory.Budget < leastBudget {
		p.add("memory.budget", c.Memory.Budget.String(), fmt.Sprintf("want at least %v: with less there is no room for the payloads of what is due at the same time", Bytes(leastBudget)))
	}
	if c.Memory.MaxInFlight > c.Memory.Budget {
		p.add("memory.max_in_flight", c.Memory.MaxInFlight.String(), fmt.Sprintf("want at most memory.budget (%v)", c.Memory.Budget))
	}
	c.checkCommit(&p)
	if !validAddress(c.HTTP.Listen, true) {
		p.add("http.listen", c.HTTP.Listen, "want host:port, such as 127.0.0.1:8080")
	}
	return p
}

// leastBudget is a few of the largest records that a broker takes by default, beside an
// index.
const leastBudget = 8 << 20

var (
	clientIDPattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,200}$`)
	versionPattern  = regexp.MustCompile(`^([0-9]{1,4})\.([0-9]{1,4})(\.[0-9]{1,4})?$`)
)

func (c *Config) checkKafka(p *problems) {
	if len(c.Kafka.Brokers) == 0 {
		p.add("kafka.brokers", "[]", "want at least one address, such as localhost:9092")
	}
	for i, b := range c.Kafka.Brokers {
		if !validAddress(b, false) {
			p.add(indexed("kafka.brokers", i), b, "want host:port, such as localhost:9092")
		}
	}
	if !clientIDPattern.MatchString(c.Kafka.ClientID) {
		p.add("kafka.client_id", c.Kafka.ClientID, "want 1 to 200 letters, digits, dots, underscores or hyphens")
	}
	if v := c.Kafka.Version; v != "" && !knownVersion(v) {
		p.add("kafka.version", v, "want a version of Kafka from 2.8 on, such as 3.9, or nothing")
	}
}

// knownVersion is false for what cannot serve: topic ids came with 2.8.
func knownVersion(v string) bool {
	m := versionPattern.FindStringSubmatch(v)
	if m == nil {
		return false
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	return major > 2 || major == 2 && minor >= 8
}

// validAddress takes host:port. To listen, the host may be missing and the port 0.
func validAddress(s string, listen bool) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil || strings.ContainsAny(host, " /@") {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if listen {
		return err == nil
	}
	return err == nil && n > 0 && host != ""
}

func (c *Config) checkGroup(p *problems) {
	g := c.Group
	if g.ID == "" || len(g.ID) > 255 || strings.ContainsFunc(g.ID, unprintable) {
		p.add("group.id", g.ID, "want 1 to 255 printable characters")
	}
	if g.InstanceID != "" && !delay.ValidTopic(g.InstanceID) { // Kafka has one rule for both
		p.add("group.instance_id", g.InstanceID, "want up to 249 letters, digits, dots, underscores or hyphens, or nothing")
	}
	if g.RebalanceDrain >= g.RebalanceTimeout {
		p.add("group.rebalance_drain", formatDuration(g.RebalanceDrain),
			"want less than group.rebalance_timeout ("+formatDuration(g.RebalanceTimeout)+")")
	}
}

func unprintable(c rune) bool { return c < ' ' || c == 0x7f }

// checkCommit: a process may send only while the group surely counts it as a member,
// which the broker's answer to a commit is the proof of.
func (c *Config) checkCommit(p *problems) {
	least, name := c.Group.SessionTimeout, "group.session_timeout"
	if c.Group.RebalanceTimeout < least {
		least, name = c.Group.RebalanceTimeout, "group.rebalance_timeout"
	}
	if c.Commit.Interval > least/3 {
		p.add("commit.interval", formatDuration(c.Commit.Interval),
			fmt.Sprintf("want at most a third of %s (%s)", name, formatDuration(least)))
	}
}

func (c *Config) checkSources(p *problems) {
	if len(c.Sources) == 0 {
		p.add("sources", "[]", "want at least one source")
	}
	for i := range c.Sources {
		c.checkSource(p, &c.Sources[i], indexed("sources", i))
	}
	if i := c.retrySource(); i >= 0 && c.Forward.KeepSchedulingHeaders {
		p.add("forward.keep_scheduling_headers", "true",
			fmt.Sprintf("want false, since sources[%d] is a retry source, where left-over headers would count as new requests", i))
	}
}

func (c *Config) retrySource() int {
	for i := range c.Sources {
		if c.Sources[i].Retry != nil {
			return i
		}
	}
	return -1
}

func (c *Config) checkSource(p *problems, s *Source, path string) {
	if len(s.Topics) == 0 {
		p.add(path+".topics", "[]", "want at least one name or pattern")
	}
	p.checkGlobs(path+".topics", s.Topics)
	for i, pattern := range s.Topics {
		switch {
		case strings.HasSuffix(pattern, deadLetterSuffix):
			p.add(indexed(path+".topics", i), pattern, "a dead-letter topic (*-dlq) is never a source")
		case strings.HasPrefix(pattern, internalPrefix):
			p.add(indexed(path+".topics", i), pattern, "an internal topic (__*) is never a source")
		}
	}
	p.checkGlobs(path+".targets.allow", s.Targets.Allow)
	p.checkGlobs(path+".targets.deny", s.Targets.Deny)
	p.atMostMaxDelay(path+".delay", s.Delay, s)
	c.checkDeadLetterTopic(p, s.DeadLetterTopic, path+".dead_letter_topic")
	if s.Retry != nil {
		checkRetry(p, s, path+".retry")
	}
}

func (c *Config) checkDeadLetterTopic(p *problems, topic, path string) {
	if topic == "" {
		return
	}
	if !delay.ValidTopic(topic) || strings.HasPrefix(topic, internalPrefix) {
		p.add(path, topic, "want a legal topic name that does not begin with __, or nothing")
		return
	}
	for i := range c.Sources {
		for j, pattern := range c.Sources[i].Topics {
			if !strings.HasSuffix(topic, deadLetterSuffix) && delay.MatchGlob(pattern, topic) {
				p.add(path, topic, fmt.Sprintf("want a topic that is no source, sources[%d].topics[%d] (%s) matches it", i, j, pattern))
				return
			}
		}
	}
}

func checkRetry(p *problems, s *Source, path string) {
	r := s.Retry
	for i, step := range r.Steps {
		p.atMostMaxDelay(indexed(path+".steps", i), step, s)
	}
	if len(r.Steps) > 0 {
		if s.Delay > 0 {
			p.add(path+".steps", format(reflect.ValueOf(r.Steps)), "want none, since the source's delay already says when a record comes back")
		}
		return // the rest of the intervals is not used
	}
	p.atMostMaxDelay(path+".initial", r.Initial, s)
	p.atMostMaxDelay(path+".max_interval", r.MaxInterval, s)
	if r.MaxInterval > 0 && r.MaxInterval < r.Initial {
		p.add(path+".max_interval", formatDuration(r.MaxInterval), "want at least initial ("+formatDuration(r.Initial)+"), or 0s for no cap")
	}
}

func (p *problems) atMostMaxDelay(path string, d time.Duration, s *Source) {
	if d > s.MaxDelay {
		p.add(path, formatDuration(d), "want at most the source's max_delay ("+formatDuration(s.MaxDelay)+")")
	}
}

func (p *problems) checkGlobs(path string, patterns []string) {
	for i, pattern := range patterns {
		if !delay.ValidGlob(pattern) {
			p.add(indexed(path, i), pattern, "want a legal topic name, in which * stands for any number of characters and ? for one")
		}
	}
}

func indexed(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
