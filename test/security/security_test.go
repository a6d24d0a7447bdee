package security

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"delay-scheduler/config"
	"delay-scheduler/internal/testkafka"
)

func TestSecuredCluster(t *testing.T) {
	b := start(t)
	for _, mechanism := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
		t.Run("delivers by TLS and "+mechanism, func(t *testing.T) {
			w := newWorld(t, b, user)
			c := w.settings(logins)
			c.Kafka.SASL.Mechanism = mechanism
			w.run(c)
			w.delivers(1)
		})
	}
	t.Run("delivers by mutual TLS", func(t *testing.T) { deliversByMutualTLS(t, b) })
	t.Run("password and certificate are renewed while it runs", func(t *testing.T) { renewals(t, b) })
	t.Run("what is wrong at the start is said and can be mended", func(t *testing.T) { mended(t, b) })
	t.Run("what is wrong with a port is said", func(t *testing.T) { wrongPorts(t, b) })
	t.Run("the printed access is sufficient and necessary", func(t *testing.T) { printedAccess(t, b) })
	t.Run("the page about operations leads from nothing to a delivered record", func(t *testing.T) { followsThePage(t, b) })
	t.Run("a measurement needs what the page says", func(t *testing.T) { measures(t, b) })
	t.Run("a missing permission is said and can be granted", func(t *testing.T) { permissions(t, b) })
}

func deliversByMutualTLS(t *testing.T, b *testkafka.Cluster) {
	w := newWorld(t, b, "sidecar")
	c := w.settings(mutual)
	c.Kafka.SASL = config.SASL{Mechanism: "none"}
	c.Kafka.TLS.CertFile, c.Kafka.TLS.KeyFile = b.Authority().Issue(t, "sidecar").Files(t)
	w.run(c)
	w.delivers(1)
}

func renewals(t *testing.T, b *testkafka.Cluster) {
	const rotating = "rotating"
	w := newWorld(t, b, rotating)
	c := w.settings("")
	cert, key := b.Authority().Issue(t, "first").Files(t)
	c.Kafka.TLS.CertFile, c.Kafka.TLS.KeyFile = cert, key
	c.Kafka.SASL.Username = rotating
	p := w.run(c)
	w.ask(5000) // Longer than a login is good for there.
	w.arrived(1)
	require.NotContains(t, p.log.String(), "give trouble", "logins are repeated in time")

	// The broker has a new password and the file has not: that is what new connections meet.
	b.SetPassword(rotating, changed)
	b.Proxy(0).Drop()
	p.unready(`the broker refuses the login of "rotating": check kafka.sasl.username and kafka.sasl.password_file`)
	w.file("password", changed+"\n")
	p.ready()
	w.delivers(2)

	b.Authority().Issue(t, "second", testkafka.Expired()).Write(t, cert, key)
	b.Proxy(0).Drop()
	p.unready("our own certificate expired at ")
	b.Authority().Issue(t, "third").Write(t, cert, key)
	p.ready()
	w.delivers(3)

	// A file that is broken changes nothing, and is said once.
	w.file("ca.pem", "")
	b.Proxy(0).Drop()
	w.delivers(4)
	require.Contains(t, p.log.String(), `"key":"kafka.tls.ca_file"`)
	w.file("ca.pem", string(testkafka.NewAuthority(t).PEM()))
	b.Proxy(0).Drop()
	p.unready("no authority in kafka.tls.ca_file has signed the broker's certificate")
	w.file("ca.pem", string(b.Authority().PEM()))
	p.ready()
	w.delivers(5)
}

func mended(t *testing.T, b *testkafka.Cluster) {
	w := newWorld(t, b, user)
	for _, mechanism := range []string{"plain", "scram-sha-256"} {
		c := w.settings(logins)
		c.Kafka.SASL.Mechanism = mechanism
		w.file("password", "Geheim-wrong")
		p := w.run(c)
		p.unready(`the broker refuses the login of "delayer": check kafka.sasl.username and kafka.sasl.password_file`)
		w.file("password", password)
		p.ready()
		p.end()
	}
	c := w.settings(logins)
	w.file("ca.pem", string(testkafka.NewAuthority(t).PEM()))
	p := w.run(c)
	p.unready("no authority in kafka.tls.ca_file has signed the broker's certificate")
	w.file("ca.pem", string(b.Authority().PEM()))
	w.delivers(1)
}

func wrongPorts(t *testing.T, b *testkafka.Cluster) {
	w := newWorld(t, b, user)
	for name, tt := range map[string]struct {
		listener string
		change   func(*config.Config)
		why      string
	}{
		"expired certificate of the broker": {outdated, func(*config.Config) {}, "the broker's certificate is good from "},
		"another name":                      {logins, func(c *config.Config) { c.Kafka.TLS.ServerName = "kafka.example" }, `and not for "kafka.example": set kafka.tls.server_name`},
		"TLS to a plaintext port":           {plaintext, func(*config.Config) {}, "does not speak TLS at that port: check kafka.tls.enabled"},
		"plaintext to a TLS port":           {logins, func(c *config.Config) { c.Kafka.TLS = config.KafkaTLS{} }, "if it speaks TLS at that port, set kafka.tls.enabled"},
		"no login where one is wanted": {unsafe, func(c *config.Config) {
			c.Kafka.TLS, c.Kafka.SASL = config.KafkaTLS{}, config.SASL{Mechanism: "none"}
		}, "if it wants a login at that port, set kafka.sasl.mechanism"},
		"a login where none is taken": {plaintext, func(c *config.Config) { c.Kafka.TLS = config.KafkaTLS{} }, "takes no login at that port: set kafka.sasl.mechanism to none"},
		"a mechanism that is not taken": {"", func(c *config.Config) {
			c.Kafka.SASL.Mechanism = "plain"
			c.Kafka.TLS.CertFile, c.Kafka.TLS.KeyFile = b.Authority().Issue(t, "me").Files(t)
		}, "does not take logins by plain at that port: check kafka.sasl.mechanism"},
		"no certificate where one is wanted": {mutual, func(c *config.Config) { c.Kafka.SASL = config.SASL{Mechanism: "none"} }, "kafka.tls.cert_file"},
		"a certificate of a stranger": {mutual, func(c *config.Config) {
			c.Kafka.SASL = config.SASL{Mechanism: "none"}
			c.Kafka.TLS.CertFile, c.Kafka.TLS.KeyFile = testkafka.NewAuthority(t).Issue(t, "me").Files(t)
		}, "kafka.tls.cert_file"},
	} {
		t.Run(name, func(t *testing.T) {
			own := *w
			own.t = t
			c := own.settings(tt.listener)
			tt.change(c)
			own.run(c).unready(tt.why)
		})
	}
}

func permissions(t *testing.T, b *testkafka.Cluster) {
	w := newWorld(t, b, user)
	group := testkafka.Access{User: user, Group: w.name, Operation: kadm.OpRead}
	source := testkafka.Access{User: user, Topic: w.source(), Operation: kadm.OpRead}
	target := testkafka.Access{User: user, Topic: w.target(), Operation: kadm.OpWrite}
	b.Revoke(group)
	p := w.run(w.settings(logins))
	p.unready("group.id")
	b.Grant(group)
	p.ready()
	w.delivers(1)

	b.Revoke(target)
	w.ask(1)
	p.degraded(w.target(), "authoriz")
	require.True(t, p.health().Ready, "one target is not the whole process")
	b.Grant(target)
	w.arrived(2)

	b.Revoke(source)
	p.degraded(w.source(), "authoriz")
	b.Grant(source)
	w.delivers(3)
}
