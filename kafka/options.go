package kafka

import (
	"errors"
	"fmt"
	"log"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
	"go.uber.org/zap"
)

// DefaultClientID is the client id when none is given.
const DefaultClientID = "delay-scheduler"

// DefaultMetadataRefresh is the refresh interval when none is given.
const DefaultMetadataRefresh = 30 * time.Second

// defaultVersion is the protocol we speak when none is configured. Every request is
// lowered to what the broker offers, so it also works with older brokers.
var defaultVersion = sarama.V3_9_0_0

const (
	// dialTimeout bounds a connection attempt: a broker that is gone answers with a
	// refusal at once, one behind a dropping firewall not at all.
	dialTimeout = 5 * time.Second
	// requestTimeout bounds a request that the broker is not allowed to delay. Roles
	// whose requests may rightly take longer (joining a group) raise it.
	requestTimeout = 10 * time.Second
	// maxDecompressed is the most that one compressed batch may unpack to. Brokers take
	// 1 MiB compressed by default, and some codecs pack zeros ten thousand to one, so
	// without a limit one hostile batch would take all memory.
	maxDecompressed = 256 << 20
)

func init() {
	// The library has these in package variables only. They are set here, once, before
	// any connection can exist.
	sarama.MaxDecompressedBatchSize = maxDecompressed
	sarama.Logger = log.New(&libraryLog, "", 0)
}

// libraryLog is where the client library's log goes.
var libraryLog librarySink

// librarySink can be given another logger while connections use it: a process may
// have more than one app in it, one after the other or at a time.
type librarySink struct{ to atomic.Pointer[zap.Logger] }

// Write implements io.Writer.
func (s *librarySink) Write(line []byte) (int, error) {
	if to := s.to.Load(); to != nil {
		to.Debug(strings.TrimSpace(string(line)))
	}
	return len(line), nil
}

// Dialer opens connections to brokers. Tests use it to stand between us and a broker.
type Dialer interface {
	Dial(network, address string) (net.Conn, error)
}

// Options are how a cluster is reached. Every role's own options embed them.
type Options struct {
	// Brokers are the addresses (host:port) to start from; the others are learned.
	Brokers []string
	// ClientID is the first part of the client id that brokers see; the role is
	// appended. Empty: DefaultClientID.
	ClientID string
	// Version is the Kafka protocol version, such as 3.9 or 3.9.0. Empty: 3.9.
	Version string
	// MetadataRefresh is within how long new topics and partitions are seen.
	// Zero: DefaultMetadataRefresh.
	MetadataRefresh time.Duration
	// Dialer opens connections. Nil: plain TCP with a timeout.
	Dialer Dialer
	// Security encrypts them and logs in. Nil: neither.
	Security *Security
}

// validate names everything that is wrong with the options.
func (o Options) validate() error {
	var errs []error
	if len(o.Brokers) == 0 {
		errs = append(errs, errors.New("no broker address is given: set kafka.brokers"))
	}
	for _, addr := range o.Brokers {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			errs = append(errs, fmt.Errorf("broker address %q is not host:port: check kafka.brokers", addr))
		}
	}
	if o.MetadataRefresh < 0 {
		errs = append(errs, fmt.Errorf("metadata refresh %v is negative: check kafka.metadata_refresh", o.MetadataRefresh))
	}
	if _, err := o.version(); err != nil {
		errs = append(errs, err)
	}
	if o.Security != nil && o.Security.err != nil {
		errs = append(errs, o.Security.err)
	}
	return errors.Join(errs...)
}

// version is the protocol version to speak.
func (o Options) version() (sarama.KafkaVersion, error) {
	if o.Version == "" {
		return defaultVersion, nil
	}
	text := o.Version
	if strings.Count(text, ".") == 1 {
		text += ".0"
	}
	v, err := sarama.ParseKafkaVersion(text)
	if err != nil {
		return defaultVersion, fmt.Errorf("protocol version %q is none that is known: check kafka.version", o.Version)
	}
	return v, nil
}

// refresh is the metadata refresh interval with its default.
func (o Options) refresh() time.Duration {
	if o.MetadataRefresh == 0 {
		return DefaultMetadataRefresh
	}
	return o.MetadataRefresh
}

// config makes a fresh client configuration for one role. Roles share nothing: closing
// a client also drops its metrics from the registry, whoever else still uses them, and
// what a role changes in its copy must not reach another. The caller has validated the
// options and sets what its role needs on top.
func (o Options) config(role string) *sarama.Config {
	c := sarama.NewConfig()
	c.ClientID = o.ClientID
	if c.ClientID == "" {
		c.ClientID = DefaultClientID
	}
	c.ClientID += "-" + role
	// An unknown version was refused by validate.
	c.Version, _ = o.version()
	c.MetricRegistry = noMetrics{}

	c.Net.DialTimeout = dialTimeout
	c.Net.ReadTimeout = requestTimeout
	c.Net.WriteTimeout = requestTimeout
	if o.Dialer != nil {
		c.Net.Proxy.Enable = true
		c.Net.Proxy.Dialer = o.Dialer
	}
	if o.Security != nil {
		o.Security.apply(c, o.Dialer)
	}

	c.Metadata.AllowAutoTopicCreation = false
	c.Metadata.Full = false
	c.Metadata.RefreshFrequency = o.refresh()
	c.Metadata.Retry.Max = 3
	c.Metadata.Retry.BackoffFunc = sarama.NewExponentialBackoff(100*time.Millisecond, 2*time.Second)

	// Nothing may be committed or reset behind our back.
	c.Consumer.Offsets.AutoCommit.Enable = false
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	return c
}

// SetLogger sends what the client library says to a log, at debug level: whatever of it
// matters we say ourselves, with the topic and partition it is about. The library has
// one logger for the whole process, so the last call decides.
func SetLogger(to *zap.Logger) { libraryLog.to.Store(to.Named("sarama")) }
