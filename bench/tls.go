package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// secure is the second listener of a broker that was started for the run.
const secure = "SECURE"

// encrypted sends bursts over TLS and without it, in turns. It needs a broker of its
// own: one that was there already has one listener that we know of.
func (b *bench) encrypted(ctx context.Context) error {
	if b.cluster.server == nil {
		b.say("tls: left out, it needs a broker that is started for the run")
		return nil
	}
	ca := filepath.Join(b.dir, "ca.pem")
	if err := os.WriteFile(ca, b.cluster.server.AuthorityPEM(), 0o600); err != nil {
		return fmt.Errorf("write the authority's certificate: %w", err)
	}
	var plain, over []burstRun
	for n := range b.o.long() {
		for _, authority := range []string{"", ca} {
			r, err := b.encryptedOnce(ctx, n, authority)
			if err != nil {
				return err
			}
			if authority == "" {
				plain = append(plain, r)
			} else {
				over = append(over, r)
			}
		}
	}
	b.reportEncrypted(plain, over)
	return nil
}

func (b *bench) encryptedOnce(ctx context.Context, n int, ca string) (r burstRun, err error) {
	name := "plain"
	if ca != "" {
		name = "tls"
	}
	b.say("%s %d of %d", name, n+1, b.o.long())
	for lead, try := b.o.lead, 1; ; lead, try = 2*lead, try+1 {
		r, err = b.passOnce(ctx, fmt.Sprintf("%s-%d", name, n+1), ca, lead)
		if !errors.Is(err, errNotPending) || try == burstTries {
			break
		}
	}
	if err == nil {
		b.say("  forwarded in %v, %.0f/s, %.2f us of CPU each", r.burst.took.Round(time.Millisecond), r.burst.rate(b.o.records), r.burst.perCPU(b.o.records))
	}
	return r, err
}

func (b *bench) passOnce(ctx context.Context, name, ca string, lead time.Duration) (r burstRun, err error) {
	topics, remove, err := b.cluster.createAll(ctx, "delay", "target")
	if err != nil {
		return r, err
	}
	defer remove()
	return r, b.forwardBurst(ctx, &r, name, ca, topics[0], topics[1], lead)
}

func (b *bench) reportEncrypted(plain, over []burstRun) {
	n := b.o.records
	rate := func(r burstRun) float64 { return r.burst.rate(n) }
	with, without := median(per(over, rate)), median(per(plain, rate))
	b.report.judge(goalTLS, figure{
		Name: "burst over TLS, over one without", Value: with / without,
		Text: fmt.Sprintf("%.2f (%.0f/s against %.0f/s)", with/without, with, without),
		Runs: per(over, rate), Beside: per(plain, rate),
		Note: "The burst of above with every connection of the scheduler over TLS 1.3, against one without, in turns. Medians. " +
			"Client and broker share the processors, so both ends of the encryption count.",
	})
}
