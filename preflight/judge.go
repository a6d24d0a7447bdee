package preflight

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Judge gives everything that can be said of the facts, the worst first.
func Judge(f Facts) []Finding {
	j := &judge{Facts: f}
	if f.Unreachable != "" {
		j.add(IDBrokers, Fail, "kafka.brokers", "no broker answers: "+f.Unreachable, "check kafka.brokers, the network, and that the brokers are up")
		j.memory()
		return sorted(j.findings)
	}
	j.brokers()
	j.versions()
	j.patterns()
	for i := range j.Sources {
		j.source(&j.Sources[i])
	}
	j.deadLetters()
	j.targets()
	j.offsets()
	j.access()
	j.allowed()
	j.clock()
	j.group()
	j.commits()
	j.memory()
	return sorted(j.findings)
}

// judge collects the findings.
type judge struct {
	Facts
	findings []Finding
}

func (j *judge) add(id string, s Severity, subject, found, do string) {
	j.findings = append(j.findings, Finding{ID: id, Severity: s, Subject: subject, Found: found, Do: do})
}

func (j *judge) brokers() {
	for _, b := range j.Brokers {
		subject := b.name()
		if b.Err == "" {
			j.add(IDBrokers, Pass, subject, "it can be reached by the address that the cluster gives for it", "")
			continue
		}
		j.add(IDBrokers, Fail, subject, "it cannot be reached by the address that the cluster gives for it: "+b.Err,
			"start it, or set its advertised.listeners to an address that works from here; kafka.brokers alone is not enough")
	}
}

func (b Broker) name() string { return fmt.Sprintf("broker %d (%s)", b.ID, b.Addr) }

func (j *judge) versions() {
	for _, b := range j.Brokers {
		switch {
		case b.Err != "": // said above
		case b.RequestsErr != "":
			j.add(IDVersions, Unknown, b.name(), "which requests it takes cannot be read: "+b.RequestsErr, "see that it is Kafka 2.8 or later")
		default:
			j.requests(b)
		}
	}
}

func (j *judge) requests(b Broker) {
	var bad []string
	for _, r := range b.Requests {
		switch {
		case !r.Offered:
			bad = append(bad, r.Name+" is not offered")
		case r.Most < r.Need:
			bad = append(bad, fmt.Sprintf("%s is offered up to version %d and needed from %d on", r.Name, r.Most, r.Need))
		case r.Lowest > r.Speak:
			bad = append(bad, fmt.Sprintf("%s is offered from version %d on and spoken up to %d", r.Name, r.Lowest, r.Speak))
		}
	}
	if len(bad) > 0 {
		j.add(IDVersions, Fail, b.name(), strings.Join(bad, ", "), "use Kafka 2.8 or later, and a scheduler that knows it")
		return
	}
	j.add(IDVersions, Pass, b.name(), fmt.Sprintf("all %d kinds of requests are offered in a version that fits", len(b.Requests)), "")
}

func (j *judge) patterns() {
	total := 0
	for _, p := range j.Patterns {
		total += len(p.Topics)
		switch {
		case len(p.Topics) > 0:
			j.add(IDSources, Pass, p.Path, fmt.Sprintf("%s matches %s", p.Pattern, some(p.Topics)), "")
		case !strings.ContainsAny(p.Pattern, "*?"):
			j.add(IDSources, Warn, p.Path, fmt.Sprintf("there is no topic %s, or we may not see it", p.Pattern), "create it (scheduler topics create), or grant DESCRIBE on it")
		}
	}
	if total == 0 {
		j.add(IDSources, Warn, "sources", "no topic matches: nothing is read until there is one",
			"create one (scheduler topics create --topic orders --partitions 12 --replication 3), or grant READ on it: a topic that may not be described is not seen")
	}
}

// offsets compares how long a group's commits are kept with how often we commit.
func (j *judge) offsets() {
	const key = "offsets.retention.minutes"
	for _, b := range j.Brokers {
		if b.Err != "" {
			continue
		}
		minutes, err := strconv.ParseInt(b.Configs[key], 10, 64)
		switch {
		case b.ConfigsErr != "":
			j.add(IDOffsets, Unknown, b.name(), key+" cannot be read: "+b.ConfigsErr, "grant DESCRIBE_CONFIGS on the cluster, or see that it is 7 days or more")
			continue
		case err != nil:
			j.add(IDOffsets, Unknown, b.name(), "it does not tell "+key, "see that it is 7 days or more")
			continue
		}
		j.keptFor(b, key, time.Duration(minutes)*time.Minute)
	}
}

func (j *judge) keptFor(b Broker, key string, kept time.Duration) {
	// Every partition is committed at least every third of the session timeout. Brokers
	// older than 2.1 count from the commit, later ones from when the group is empty.
	every := j.Settings.SessionTimeout / 3
	switch do := "raise " + key + " to 10080 (7 days) or more"; {
	case kept <= 3*every:
		j.add(IDOffsets, Fail, b.name(), fmt.Sprintf("commits are kept for %s and made every %s: they may be gone before the next one", long(kept), long(every)), do)
	case kept < 24*time.Hour:
		j.add(IDOffsets, Warn, b.name(), fmt.Sprintf("commits are kept for %s: a stop of that length loses them, and every source is read from its start again", long(kept)), do)
	default:
		j.add(IDOffsets, Pass, b.name(), fmt.Sprintf("commits are kept for %s after a stop", long(kept)), "")
	}
}

func (j *judge) clock() {
	var newest time.Time
	var of string
	for _, s := range j.Sources {
		if s.Newest.After(newest) {
			newest, of = s.Newest, s.Name
		}
	}
	const fresh = time.Minute
	ahead := newest.Sub(j.Now)
	switch {
	case newest.IsZero() || -ahead > fresh:
		j.add(IDClock, Unknown, "clock", "no broker has stamped a record within the last minute: this machine's clock cannot be compared with theirs",
			"keep the clocks synchronised (NTP); write a record to a source with LogAppendTime and check again")
	case ahead > j.Settings.MaxSkew:
		j.add(IDClock, Fail, "clock", fmt.Sprintf("this machine's clock is behind the brokers' by %s or more (newest record of %s; clock.max_skew %s): records leave late", long(ahead), of, long(j.Settings.MaxSkew)),
			"synchronise the clocks (NTP)")
	case ahead > 0:
		j.add(IDClock, Pass, "clock", fmt.Sprintf("this machine's clock is behind the brokers' by %s at least, within clock.max_skew", long(ahead)), "")
	default:
		j.add(IDClock, Pass, "clock", fmt.Sprintf("this machine's clock is not behind the brokers', and ahead of them by %s at most", long(-ahead)), "")
	}
}

func (j *judge) memory() {
	m, s := j.Machine, j.Settings
	need := s.MemoryNeed
	text := fmt.Sprintf("memory.budget, twice memory.max_in_flight and a fixed part are %s", size(need))
	if m.GoLimit > 0 && m.GoLimit < s.Budget+s.MaxInFlight {
		j.add(IDMemory, Warn, "GOMEMLIMIT", fmt.Sprintf("it is %s, less than memory.budget and memory.max_in_flight (%s): the collector will work without end when the budget is used", size(m.GoLimit), size(s.Budget+s.MaxInFlight)),
			"leave GOMEMLIMIT unset, or raise it to "+size(need))
	}
	switch {
	case m.MemoryLimit == 0:
		j.add(IDMemory, Pass, "this machine", text+"; no container limit is set here", "")
	case need > m.MemoryLimit:
		j.add(IDMemory, Fail, "this machine", fmt.Sprintf("%s, and the container may take %s (%s): it will be killed when the budget is used", text, size(m.MemoryLimit), m.LimitFrom),
			fmt.Sprintf("raise the limit to %s, or lower memory.budget to %s", size(need), size(max(m.MemoryLimit-(need-s.Budget), 1<<20))))
	case m.GoLimit > m.MemoryLimit:
		j.add(IDMemory, Warn, "GOMEMLIMIT", fmt.Sprintf("it is %s, more than the container may take (%s): the collector will not act in time", size(m.GoLimit), size(m.MemoryLimit)), "lower GOMEMLIMIT, or leave it unset")
	default:
		j.add(IDMemory, Pass, "this machine", fmt.Sprintf("%s, and the container may take %s", text, size(m.MemoryLimit)), "")
	}
}
