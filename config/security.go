package config

import (
	"fmt"
	"net"
	"strings"

	"delay-scheduler/credential"
)

// KafkaTLS encrypts the connections to brokers.
type KafkaTLS struct {
	// Enabled turns TLS on, version 1.2 at least.
	// Default: false.
	Enabled bool `mapstructure:"enabled"`
	// CAFile has the certificates of the authorities, as PEM, of which one must have
	// signed the brokers'. Empty means those that the system trusts. All files here are
	// read again for every connection, so renewed ones need no restart.
	// Default: empty.
	CAFile string `mapstructure:"ca_file"`
	// CertFile is our own certificate, as PEM, with those that lead to its authority:
	// for brokers that demand one (mutual TLS). It needs key_file.
	// Default: empty.
	CertFile string `mapstructure:"cert_file"`
	// KeyFile is the private key of cert_file, as PEM without a passphrase.
	// Default: empty.
	KeyFile string `mapstructure:"key_file"`
	// ServerName is the name that the brokers' certificates must be good for. Empty
	// means the host that each broker is reached by, which is right unless brokers are
	// reached by another name than their certificates have.
	// Default: empty.
	ServerName string `mapstructure:"server_name"`
}

// SASL is how the process logs in to brokers.
type SASL struct {
	// Mechanism is the way of logging in. plain sends the password as it is, so it needs
	// tls; none does not log in, as with a certificate of our own.
	// Default: none.
	Mechanism string `mapstructure:"mechanism" oneof:"none plain scram-sha-256 scram-sha-512"`
	// Username is whom the access lists of the cluster are about.
	// Default: empty.
	Username string `mapstructure:"username"`
	// Password is the user's. Rather use password_file: an environment or a file with
	// other settings is seen by more people.
	// Default: empty.
	Password Secret `mapstructure:"password"`
	// PasswordFile is a file with the password. It is read again for every connection, so
	// a new password needs no restart.
	// Default: empty.
	PasswordFile string `mapstructure:"password_file"`
}

// HTTPTLS makes HTTP HTTPS when both files are given.
type HTTPTLS struct {
	// CertFile is the certificate that is shown, as PEM, with those that lead to its
	// authority. It and key_file are read again for every connection, so renewed ones
	// need no restart.
	// Default: empty.
	CertFile string `mapstructure:"cert_file"`
	// KeyFile is the private key of cert_file, as PEM without a passphrase.
	// Default: empty.
	KeyFile string `mapstructure:"key_file"`
}

func (c *Config) checkSecurity(p *problems) {
	c.checkKafkaTLS(p)
	c.checkSASL(p)
	h := c.HTTP
	p.checkPair("http.tls", h.TLS.CertFile, h.TLS.KeyFile)
	p.checkSecret("http.token", h.Token, h.TokenFile)
	if strings.ContainsFunc(h.Token.Reveal(), func(c rune) bool { return c <= ' ' || c > '~' }) {
		p.add("http.token", "", "want printable ASCII characters without spaces")
	}
}

func (c *Config) checkKafkaTLS(p *problems) {
	t := c.Kafka.TLS
	if !t.Enabled {
		for _, key := range []struct{ name, value string }{
			{"ca_file", t.CAFile}, {"cert_file", t.CertFile}, {"key_file", t.KeyFile}, {"server_name", t.ServerName},
		} {
			if key.value != "" {
				p.add("kafka.tls."+key.name, key.value, "want nothing while kafka.tls.enabled is false, or true there")
			}
		}
		return
	}
	if t.CAFile != "" {
		if _, err := credential.OpenAuthorities(t.CAFile, nil); err != nil {
			p.add("kafka.tls.ca_file", t.CAFile, "want a file with PEM certificates: "+err.Error())
		}
	}
	p.checkPair("kafka.tls", t.CertFile, t.KeyFile)
	if strings.ContainsAny(t.ServerName, " /:@") {
		p.add("kafka.tls.server_name", t.ServerName, "want a host name, or nothing")
	}
}

func (c *Config) checkSASL(p *problems) {
	s := c.Kafka.SASL
	p.checkSecret("kafka.sasl.password", s.Password, s.PasswordFile)
	if s.Mechanism == "none" {
		const want = "want nothing while kafka.sasl.mechanism is none, or a mechanism there"
		for _, key := range []struct{ name, value string }{
			{"username", s.Username}, {"password", s.Password.String()}, {"password_file", s.PasswordFile},
		} {
			if key.value != "" {
				p.add("kafka.sasl."+key.name, key.value, want)
			}
		}
		return
	}
	if s.Username == "" || strings.ContainsFunc(s.Username, unprintable) {
		p.add("kafka.sasl.username", s.Username, "want the name of a user, since kafka.sasl.mechanism is "+s.Mechanism)
	}
	if s.Password == "" && s.PasswordFile == "" {
		p.add("kafka.sasl.password_file", "", "want a file with the password, since kafka.sasl.mechanism is "+s.Mechanism+" (or kafka.sasl.password)")
	}
}

// checkPair checks a certificate and its key, which need each other.
func (p *problems) checkPair(section, cert, key string) {
	switch {
	case cert == "" && key == "":
	case key == "":
		p.add(section+".key_file", "", "want the private key of "+section+".cert_file")
	case cert == "":
		p.add(section+".cert_file", "", "want the certificate of "+section+".key_file")
	default:
		if _, err := credential.OpenPair(cert, key, nil); err != nil {
			p.add(section+".cert_file", cert, "want a PEM certificate whose key is in key_file: "+err.Error())
		}
	}
}

// checkSecret checks a secret that may be in a file instead.
func (p *problems) checkSecret(path string, secret Secret, file string) {
	if file == "" {
		return
	}
	if secret != "" {
		p.add(path+"_file", file, "want one of "+path+" and "+path+"_file, not both")
	}
	if _, err := credential.OpenSecret(file, nil); err != nil {
		p.add(path+"_file", file, "want a readable file with nothing but the secret: "+err.Error())
	}
}

// insecure warns of what is legal and gives something away.
func (c *Config) insecure() []string {
	var w []string
	if c.Kafka.SASL.Mechanism == "plain" && !c.Kafka.TLS.Enabled {
		w = append(w, "kafka.sasl.mechanism is plain without kafka.tls.enabled: the password can be read on the network")
	}
	if c.HTTP.Loopback() {
		return w
	}
	switch {
	case !c.HTTP.Guarded():
		w = append(w, fmt.Sprintf("http.listen (%s) can be reached from other machines, and without http.token_file everybody there can read status and metrics", c.HTTP.Listen))
	case !c.HTTP.TLS.Enabled():
		w = append(w, fmt.Sprintf("http.listen (%s) can be reached from other machines, and without http.tls the token can be read on the network", c.HTTP.Listen))
	}
	return w
}

// Enabled says whether HTTP is encrypted.
func (t HTTPTLS) Enabled() bool { return t.CertFile != "" }

// Guarded says whether a token is asked for.
func (h HTTP) Guarded() bool { return h.Token != "" || h.TokenFile != "" }

// Loopback says whether only this machine can reach the address.
func (h HTTP) Loopback() bool {
	host, _, err := net.SplitHostPort(h.Listen)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
