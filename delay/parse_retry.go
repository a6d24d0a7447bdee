package delay

import "math"

// readRetry reads what a failed record says of its failures. Everything refused
// here would pass on a source without a retry policy.
func (p *Parser) readRetry(f *fields, q *Request) *Refusal {
	if !f.ours && !p.rules.AcceptBare {
		return malformedHere("the record carries none of our headers and the source does not accept bare records (retry.accept_bare)")
	}
	if ref := readAttempt(f, q); ref != nil {
		ref.FromRules = true
		return ref
	}
	if ref := readFirstFailure(f, q); ref != nil {
		ref.FromRules = true
		return ref
	}
	if f.group != nil && !legalNameBytes(f.group.Value) {
		return malformedHere(HeaderTargetGroup + " " + show(f.group.Value) + " cannot be part of a topic name")
	}
	return nil
}

// readAttempt gives the number of this retry: one more than the last one we
// forwarded, or as many as the consumer counted, whichever is more. So neither a
// consumer that merely copies headers nor one that does not count can go on for ever.
func readAttempt(f *fields, q *Request) *Refusal {
	n := int64(1)
	if f.count != nil {
		c, ref := readSaturated(HeaderRetryCount, f.count.Value)
		if ref != nil {
			return ref
		}
		n = max(n, c)
	}
	if f.attempt != nil {
		a, ref := readSaturated(HeaderRetryAttempt, f.attempt.Value)
		if ref != nil {
			return ref
		}
		n = max(n, a+1)
	}
	q.Attempt = int32(min(n, math.MaxInt32))
	return nil
}

// readSaturated reads a count; one beyond 2^31-1 is a number all the same, above
// any limit, so it is not malformed.
func readSaturated(name string, v []byte) (int64, *Refusal) {
	n, kind, ref := readCount(name, v)
	if ref != nil {
		return 0, ref
	}
	if kind == overflow || n > math.MaxInt32 {
		return math.MaxInt32, nil
	}
	return n, nil
}

func readFirstFailure(f *fields, q *Request) *Refusal {
	if f.firstFailure == nil {
		return nil
	}
	at, kind, ref := readTime(HeaderFirstFailureTime, f.firstFailure.Value)
	if ref != nil {
		return ref
	}
	if kind == overflow {
		return malformed(HeaderFirstFailureTime + " " + show(f.firstFailure.Value) + " is beyond 2^63-1")
	}
	q.FirstFailure = at
	return nil
}
