package config

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.yaml.in/yaml/v3"

	"delay-scheduler/internal/testkafka"
)

// files are what secured settings name.
type files struct{ ca, cert, key, password, noise string }

func newFiles(t *testing.T) files {
	t.Helper()
	t.Chdir(t.TempDir()) // Short names: long ones are cut in errors.
	authority := testkafka.NewAuthority(t)
	f := files{"ca.pem", "cert.pem", "key.pem", "password", "noise"}
	authority.Issue(t, "me").Write(t, f.cert, f.key)
	for path, text := range map[string]string{f.ca: string(authority.PEM()), f.password: "geheim\n", f.noise: "two\nlines\n"} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return f
}

// fill puts the names of the files where they are named.
func (f files) fill(text string) string {
	return strings.NewReplacer("CA", f.ca, "CERT", f.cert, "KEY", f.key, "PASSWORD", f.password, "NOISE", f.noise).Replace(text)
}

func TestEveryRuleOfSecuredSettingsNamesPathAndWhatWouldBeRight(t *testing.T) {
	f := newFiles(t)
	for text, want := range map[string][]string{
		"kafka: {tls: {ca_file: CA}}":                                                               {`kafka.tls.ca_file is "CA" (scheduler.yaml:1): want nothing while kafka.tls.enabled is false, or true there`},
		"kafka: {tls: {server_name: a}}":                                                            {`kafka.tls.server_name is "a" (scheduler.yaml:1): want nothing while`},
		"kafka: {tls: {enabled: true, ca_file: /none}}":                                             {`kafka.tls.ca_file is "/none" (scheduler.yaml:1): want a file with PEM certificates: read /none: no such file or directory`},
		"kafka: {tls: {enabled: true, ca_file: NOISE}}":                                             {`: want a file with PEM certificates: read NOISE: there is no PEM certificate in it`},
		"kafka: {tls: {enabled: true, cert_file: CERT}}":                                            {`kafka.tls.key_file (scheduler.yaml:1): want the private key of kafka.tls.cert_file`},
		"kafka: {tls: {enabled: true, key_file: KEY}}":                                              {`kafka.tls.cert_file (scheduler.yaml:1): want the certificate of kafka.tls.key_file`},
		"kafka: {tls: {enabled: true, cert_file: CERT, key_file: CERT}}":                            {`kafka.tls.cert_file is "CERT" (scheduler.yaml:1): want a PEM certificate whose key is in key_file: read CERT: certificate and key: `},
		"kafka: {tls: {enabled: true, server_name: 'a:1'}}":                                         {`kafka.tls.server_name is "a:1" (scheduler.yaml:1): want a host name, or nothing`},
		"kafka: {sasl: {mechanism: gssapi, username: a, password: geheim}}":                         {`kafka.sasl.mechanism is "gssapi" (scheduler.yaml:1): want none, plain, scram-sha-256 or scram-sha-512`},
		"kafka: {sasl: {mechanism: plain}}":                                                         {`kafka.sasl.username (scheduler.yaml:1): want the name of a user, since kafka.sasl.mechanism is plain`, `kafka.sasl.password_file (scheduler.yaml:1): want a file with the password, since`},
		"kafka: {sasl: {username: a, password: geheim}}":                                            {`kafka.sasl.username is "a" (scheduler.yaml:1): want nothing while kafka.sasl.mechanism is none`, `kafka.sasl.password is "***" (scheduler.yaml:1): want nothing while`},
		"kafka: {sasl: {mechanism: plain, username: a, password: geheim, password_file: PASSWORD}}": {`kafka.sasl.password_file is "PASSWORD" (scheduler.yaml:1): want one of kafka.sasl.password and kafka.sasl.password_file, not both`},
		"kafka: {sasl: {mechanism: plain, username: a, password_file: NOISE}}":                      {`: want a readable file with nothing but the secret: read NOISE: it has more than one line`},
		"kafka: {sasl: geheim}":                                                                     {`kafka.sasl (scheduler.yaml:1): want a mapping of keys to values`},
		"http: {tls: {cert_file: CERT}}":                                                            {`http.tls.key_file (scheduler.yaml:1): want the private key of http.tls.cert_file`},
		"http: {token: geheim, token_file: PASSWORD}":                                               {`http.token_file is "PASSWORD" (scheduler.yaml:1): want one of http.token and http.token_file, not both`},
		"http: {token: 'geheim geheim'}":                                                            {`http.token (scheduler.yaml:1): want printable ASCII characters without spaces`},
		"http: {token_file: /none}":                                                                 {`http.token_file is "/none" (scheduler.yaml:1): want a readable file with nothing but the secret: read /none: no such file`},
	} {
		said := refused(t, f.fill(text), nil)
		require.Len(t, said, len(want), "%s: %v", text, said)
		for i := range want {
			require.Contains(t, said[i], f.fill(want[i]), text)
		}
		require.NotContains(t, strings.Join(said, "\n"), "geheim", text)
	}
}

func TestSecuredSettingsCanComeFromTheEnvironment(t *testing.T) {
	f := newFiles(t)
	for name, value := range map[string]string{
		"KAFKA_TLS_ENABLED": "true", "KAFKA_TLS_CA_FILE": f.ca, "KAFKA_TLS_CERT_FILE": f.cert, "KAFKA_TLS_KEY_FILE": f.key, "KAFKA_TLS_SERVER_NAME": "broker",
		"KAFKA_SASL_MECHANISM": "scram-sha-512", "KAFKA_SASL_USERNAME": "me", "KAFKA_SASL_PASSWORD_FILE": f.password,
		"HTTP_TLS_CERT_FILE": f.cert, "HTTP_TLS_KEY_FILE": f.key, "HTTP_TOKEN_FILE": f.password,
	} {
		t.Setenv("SCHEDULER_"+name, value)
	}
	c, err := Load("", nil)
	require.NoError(t, err)
	require.Empty(t, c.Warnings())
	require.Equal(t, KafkaTLS{Enabled: true, CAFile: f.ca, CertFile: f.cert, KeyFile: f.key, ServerName: "broker"}, c.Kafka.TLS)
	require.Equal(t, SASL{Mechanism: "scram-sha-512", Username: "me", PasswordFile: f.password}, c.Kafka.SASL)
	require.Equal(t, HTTP{Listen: "127.0.0.1:8080", TLS: HTTPTLS{CertFile: f.cert, KeyFile: f.key}, TokenFile: f.password}, c.HTTP)

	t.Setenv("SCHEDULER_KAFKA_SASL_PASSWORD_FILE", "")
	t.Setenv("SCHEDULER_KAFKA_SASL_PASSWORD", "geheim")
	c, err = Load("", nil)
	require.NoError(t, err)
	require.Equal(t, "geheim", c.Kafka.SASL.Password.Reveal())
	require.NotContains(t, c.Show(), "geheim")
	require.Contains(t, c.Show(), `password: "***"`)
}

func TestSecretsAreInNoErrorWhereverTheyStand(t *testing.T) {
	for _, overrides := range []map[string]string{
		{"kafka.sasl.password": "geheim"},                                  // without a mechanism
		{"kafka.sasl.pasword": "geheim"},                                   // a slip
		{"http.toke": "geheim"},                                            //
		{"kafka.sasl.password": "geheim", "kafka.sasl.mechanism": "plain"}, // without a user
		{"http.token": "geheim\x00", "kafka.sasl.mechanism": "plain"},      // not a token
		{"kafka.sasl": "geheim"},                                           // a level too high
	} {
		require.NotContains(t, strings.Join(refused(t, "", overrides), "\n"), "geheim", "%v", overrides)
	}
}

func TestASecretIsHiddenFromEverythingThatPrints(t *testing.T) {
	secret := Secret("geheim")
	c := Default()
	c.Kafka.SASL.Password, c.HTTP.Token = secret, secret
	var printed strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%10s", "%e"} {
		fmt.Fprintf(&printed, verb+verb+verb+verb, secret, &secret, *c, []Secret{secret})
	}
	j, err := json.Marshal(map[string]any{"config": c, "secret": secret})
	require.NoError(t, err)
	y, err := yaml.Marshal(map[string]any{"config": c, "secret": secret})
	require.NoError(t, err)
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{}), zapcore.AddSync(&printed), zap.DebugLevel))
	log.Info("x", zap.Any("c", c), zap.Stringer("s", secret), zap.Any("s", secret), zap.Reflect("r", c.HTTP), zap.Error(fmt.Errorf("with %v", secret)))
	printed.Write(j)
	printed.Write(y)
	printed.WriteString(c.Show())
	text := printed.String()
	require.NotContains(t, text, "geheim")
	require.NotContains(t, strings.ToLower(text), "67656865696d", "in hexadecimal")
}

func TestWhatGivesSomethingAwayIsWarnedOf(t *testing.T) {
	f := newFiles(t)
	for text, want := range map[string][]string{
		"": nil,
		"kafka: {sasl: {mechanism: plain, username: a, password_file: PASSWORD}}":                       {"kafka.sasl.mechanism is plain without kafka.tls.enabled"},
		"kafka: {tls: {enabled: true}, sasl: {mechanism: plain, username: a, password_file: PASSWORD}}": nil,
		"kafka: {sasl: {mechanism: scram-sha-256, username: a, password_file: PASSWORD}}":               nil,
		"http: {listen: '0.0.0.0:8080'}":                {"without http.token_file everybody there can read"},
		"http: {listen: ':8080'}":                       {"without http.token_file everybody there can read"},
		"http: {listen: '[::1]:8080'}":                  nil,
		"http: {listen: 'localhost:8080'}":              nil,
		"http: {listen: ':8080', token_file: PASSWORD}": {"without http.tls the token can be read"},
		"http: {listen: ':8080', token_file: PASSWORD, tls: {cert_file: CERT, key_file: KEY}}": nil,
	} {
		warnings := load(t, f.fill(text)).Warnings()
		require.Len(t, warnings, len(want), "%s: %v", text, warnings)
		for i := range want {
			require.Contains(t, warnings[i], want[i], text)
		}
	}
}
