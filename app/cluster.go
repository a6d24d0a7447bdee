package app

import (
	"go.uber.org/zap"

	"delay-scheduler/config"
	"delay-scheduler/kafka"
)

// clusterOptions are how the configured cluster is reached.
func clusterOptions(c *config.Config) kafka.Options {
	return kafka.Options{
		Brokers: c.Kafka.Brokers, ClientID: c.Kafka.ClientID, Version: c.Kafka.Version,
		MetadataRefresh: c.Kafka.MetadataRefresh, Security: clusterSecurity(c, zap.NewNop()),
	}
}

// clusterSecurity is how its connections are secured, nil if they are not.
func clusterSecurity(c *config.Config, log *zap.Logger) *kafka.Security {
	t, s := c.Kafka.TLS, c.Kafka.SASL
	o := kafka.SecurityOptions{
		TLS: t.Enabled, CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile, ServerName: t.ServerName,
		Mechanism: s.Mechanism, Username: s.Username, PasswordFile: s.PasswordFile,
	}
	if s.PasswordFile == "" {
		o.Password = s.Password.Reveal
	}
	return kafka.NewSecurity(o, log)
}
