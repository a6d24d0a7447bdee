package preflight

import (
	"fmt"
	"strconv"
	"strings"
)

func (j *judge) deadLetters() {
	for i := range j.DeadLetters {
		d := &j.DeadLetters[i]
		switch {
		case d.Missing:
			j.add(IDDeadLetter, Fail, d.Name, fmt.Sprintf("it does not exist, or we may not see it: what is refused of %s waits for it and holds back the commit", some(d.Sources)), "create it (scheduler topics create), or grant WRITE on it")
			continue
		case d.Err != "":
			j.add(IDDeadLetter, Fail, d.Name, "it cannot be described: "+d.Err, "grant WRITE on it")
			continue
		}
		j.deadLetter(d)
	}
}

func (j *judge) deadLetter(d *DeadLetter) {
	if d.Matched != "" {
		j.add(IDDeadLetterSource, Warn, d.Name, fmt.Sprintf("%s matches it, too; as a dead-letter topic it is never read", d.Matched), "narrow the pattern, so that nobody expects it to be read")
	}
	j.leaders(&d.Topic)
	j.replication(&d.Topic)
	if d.Configs == nil {
		j.add(IDDeadLetter, Unknown, d.Name, "its settings (size limit, cleanup policy) cannot be read: "+d.ConfigsErr, "grant DESCRIBE_CONFIGS on the topic")
		return
	}
	j.add(IDDeadLetter, Pass, d.Name, fmt.Sprintf("it is there for %s", some(d.Sources)), "")
	j.cleanup(&d.Topic)
	j.deadLetterSize(d)
}

// deadLetterSize compares what the dead-letter topic takes with what its sources do.
func (j *judge) deadLetterSize(d *DeadLetter) {
	takes, err := strconv.ParseInt(d.Configs[keySize], 10, 64)
	if err != nil {
		j.add(IDDeadLetterSize, Unknown, d.Name, "the broker does not tell "+keySize, "")
		return
	}
	var largest int64
	var of string
	for _, s := range j.Sources {
		if s.DeadLetter != d.Name {
			continue
		}
		if n, err := strconv.ParseInt(s.Configs[keySize], 10, 64); err == nil && n > largest {
			largest, of = n, s.Name
		}
	}
	switch want := largest + deadLetterRoom; {
	case largest == 0:
		j.add(IDDeadLetterSize, Unknown, d.Name, fmt.Sprintf("it takes %s; what its sources take cannot be read", size(takes)), "grant DESCRIBE_CONFIGS on the sources")
	case takes < want:
		j.add(IDDeadLetterSize, Warn, d.Name, fmt.Sprintf("it takes records of %d bytes and %s of %d: with the headers of a dead letter (64 KiB) a large one does not fit, and only a pointer to it is left", takes, of, largest),
			alter(d.Name, keySize, strconv.FormatInt(want, 10)))
	default:
		j.add(IDDeadLetterSize, Pass, d.Name, fmt.Sprintf("it takes what %s takes, with the headers of a dead letter", of), "")
	}
}

// targets judges the topics that are allowed by name.
func (j *judge) targets() {
	for i := range j.Targets {
		t := &j.Targets[i]
		switch {
		case t.Missing:
			j.add(IDTarget, Warn, t.Name, "targets.allow names it and it does not exist, or we may not see it", "create it, or grant WRITE on it")
		case t.Err != "":
			j.add(IDTarget, Fail, t.Name, "it cannot be described: "+t.Err, "grant WRITE on it")
		default:
			j.leaders(t)
			j.replication(t)
		}
	}
}

// allowed judges what producers may write to through us.
func (j *judge) allowed() {
	all := false
	for _, pattern := range j.Settings.Allow {
		all = all || strings.Trim(pattern, "*") == ""
	}
	switch {
	case !all:
		j.add(IDTargets, Pass, "targets.allow", "targets are limited to "+some(j.Settings.Allow), "")
	case !j.Security.Known:
		j.add(IDTargets, Unknown, "targets.allow", "it allows every topic, and whether the cluster is secured cannot be told: "+j.Security.How, "list the topics that producers may write to through the scheduler")
	case j.Security.Secured:
		j.add(IDTargets, Fail, "targets.allow", fmt.Sprintf("it allows every topic, and the cluster is secured (%s): whoever may write to a source writes with the scheduler's rights to any topic", j.Security.How),
			"list the topics that producers may write to through the scheduler, in targets.allow or in the targets of each source")
	default:
		j.add(IDTargets, Pass, "targets.allow", "it allows every topic, as does the cluster", "")
	}
}
