package preflight

import (
	"fmt"
	"strings"
)

// Kafka's names of the operations that matter.
const (
	opRead            = "READ"
	opWrite           = "WRITE"
	opDescribeConfigs = "DESCRIBE_CONFIGS"
	opIdempotentWrite = "IDEMPOTENT_WRITE"
)

// access judges whether we may do what we have to.
func (j *judge) access() {
	for _, s := range j.Sources {
		if s.Err == "" {
			j.right(s.Rights, "topic", s.Name, opRead, "it cannot be read")
		}
	}
	for _, d := range j.DeadLetters {
		if d.Err == "" && !d.Missing {
			j.right(d.Rights, "topic", d.Name, opWrite, "dead letters cannot be written")
		}
	}
	for _, t := range j.Targets {
		if t.Err == "" && !t.Missing {
			j.right(t.Rights, "topic", t.Name, opWrite, "what is due for it cannot be written")
		}
	}
	switch {
	case j.Group.Forbidden: // READ would include DESCRIBE
		j.right(Rights{Known: true}, "group", j.Settings.Group, opRead, "the group cannot be joined")
	case j.Group.Err == "":
		j.right(j.Group.Rights, "group", j.Settings.Group, opRead, "the group cannot be joined")
	}
	j.idempotence()
	j.unprovable()
}

func (j *judge) right(r Rights, kind, name, operation, without string) {
	subject := kind + " " + name
	switch {
	case !r.Known:
		why := r.Err
		if why == "" {
			why = "the broker does not say what is allowed"
		}
		j.add(IDAccess, Unknown, subject, fmt.Sprintf("whether %s is allowed cannot be proven: %s", operation, why), fmt.Sprintf("see that %s on it is granted (scheduler topics acls)", operation))
	case r.Has(operation):
		j.add(IDAccess, Pass, subject, operation+" is allowed", "")
	default:
		j.add(IDAccess, Fail, subject, fmt.Sprintf("%s is not allowed: %s", operation, without), fmt.Sprintf("grant %s on it (scheduler topics acls prints the commands)", operation))
	}
}

// idempotence is a right of its own only for brokers older than 3.0, which are known by
// the versions of a request that they offer.
func (j *judge) idempotence() {
	old := false
	for _, b := range j.Brokers {
		for _, r := range b.Requests {
			old = old || r.Name == "FindCoordinator" && r.Offered && r.Most < 4
		}
	}
	if old && j.Security.Known && j.Security.Secured {
		j.right(j.Cluster, "cluster", "", opIdempotentWrite, "brokers older than 3.0 refuse our sends")
	}
}

// unprovable says which rights nobody can ask for in advance.
func (j *judge) unprovable() {
	var open []string
	for _, pattern := range j.Settings.Allow {
		if strings.ContainsAny(pattern, "*?") {
			open = append(open, pattern)
		}
	}
	if len(open) > 0 && j.Security.Known && j.Security.Secured {
		j.add(IDAccess, Unknown, "targets", fmt.Sprintf("whether WRITE is allowed on every topic that %s matches cannot be proven before a record names it", some(open)), "name targets in full where you can, and see that WRITE on them is granted")
	}
}
