package scheduler

import "delay-scheduler/delay"

// Source is how the records of one topic are understood.
type Source struct {
	Rules  *delay.Rules
	Policy Policy // nil: not a retry source
	// Fingerprint covers whatever in the configuration decides dues and verdicts; a
	// completed set written under another one is not believed for such records.
	Fingerprint uint64
	// Candidate says that only a pattern matches the topic and that its records have to
	// carry our headers, so it is read for good only once some do.
	Candidate bool
}

// Judge says when and where a record goes, or why not. It is a function of the record
// and the source alone, so it gives the same answer in every process and after every
// restart.
func (s Source) Judge(p *delay.Parser, rec *delay.Record) (delay.Request, *delay.Refusal) {
	req, ref := p.Parse(rec)
	if ref != nil || s.Policy == nil {
		return req, ref
	}
	// Under another policy the budget might be used up, whatever due time is named.
	req.FromRules = true
	interval, why := s.Policy.Next(req.Attempt, delay.RetryIdentity(rec), req.Base, req.FirstFailure)
	if why != "" {
		return req, &delay.Refusal{Reason: delay.ReasonMaxRetryExceeded, Detail: why, FromRules: true}
	}
	if req.HasDue {
		return req, nil
	}
	return req, p.After(&req, interval)
}
