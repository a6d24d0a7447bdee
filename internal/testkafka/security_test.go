package testkafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func TestSecuredBrokerLetsInWhomItKnowsAndAllowsWhatWasGranted(t *testing.T) {
	c := Start(t,
		WithTLS(), WithSASL(Plain, ScramSHA256, ScramSHA512), WithUser("alice", "wonder"), WithACLs(),
		WithListener("MUTUAL", Listener{TLS: true, ClientCert: true}),
		WithListener("OLD", Listener{TLS: true, Server: []Validity{Expired()}}))
	topic := UniqueName(t)
	c.CreateTopic(topic, 1, nil)
	Produce(t, c, &kgo.Record{Topic: topic}) // The harness may do everything.
	require.Len(t, ReadAll(t, c, topic, 1, clientPatience), 1)
	require.Empty(t, Committed(t, c, topic, topic))
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(c.Authority().PEM()))
	trust := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	owner := func(name string, as ...Validity) kgo.Opt {
		issued := c.Authority().Issue(t, name, as...)
		pair, err := tls.X509KeyPair(issued.Cert, issued.Key)
		require.NoError(t, err)
		config := trust.Clone()
		config.Certificates = []tls.Certificate{pair}
		return kgo.DialTLSConfig(config)
	}
	attempt := func(addrs []string, opts ...kgo.Opt) error {
		client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(addrs...), kgo.RequestRetries(0), kgo.RecordRetries(0))...)
		require.NoError(t, err)
		defer client.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := client.Ping(ctx); err != nil {
			return err
		}
		return client.ProduceSync(ctx, &kgo.Record{Topic: topic}).FirstErr()
	}
	mechanisms := map[string]kgo.Opt{
		"plain":         kgo.SASL(plain.Auth{User: "alice", Pass: "wonder"}.AsMechanism()),
		"scram-sha-256": kgo.SASL(scram.Auth{User: "alice", Pass: "wonder"}.AsSha256Mechanism()),
		"scram-sha-512": kgo.SASL(scram.Auth{User: "alice", Pass: "wonder"}.AsSha512Mechanism()),
	}
	write := Access{User: "alice", Topic: topic, Operation: kadm.OpWrite}
	for name, login := range mechanisms {
		err := attempt(c.Addrs(), kgo.DialTLSConfig(trust), login)
		require.ErrorIs(t, err, kerr.TopicAuthorizationFailed, name)
	}

	c.Grant(write)

	for name, login := range mechanisms {
		require.NoError(t, attempt(c.Addrs(), kgo.DialTLSConfig(trust), login), name)
	}
	mutual := c.ListenerAddrs("MUTUAL")
	require.NoError(t, attempt(mutual, owner("alice")))
	require.ErrorIs(t, attempt(mutual, owner("bob")), kerr.TopicAuthorizationFailed)
	require.Error(t, attempt(mutual, owner("alice", Expired())))
	require.Error(t, attempt(mutual, kgo.DialTLSConfig(trust)), "without a certificate")
	require.Error(t, attempt(c.Addrs(), kgo.DialTLSConfig(trust)), "without a login")
	require.Error(t, attempt(c.Addrs(), mechanisms["plain"]), "without TLS")
	require.ErrorContains(t, attempt(c.ListenerAddrs("OLD"), kgo.DialTLSConfig(trust)), "expired")
	c.SetPassword("alice", "other")
	require.Error(t, attempt(c.Addrs(), kgo.DialTLSConfig(trust), mechanisms["scram-sha-512"]), "the old password")

	c.Revoke(write)

	require.ErrorIs(t, attempt(mutual, owner("alice")), kerr.TopicAuthorizationFailed)
}
