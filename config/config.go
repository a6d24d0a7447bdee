package config

import "time"

// Config is everything that can be configured. A range or a choice is in the tags
// of a field; what depends on more than one field is in Validate.
type Config struct {
	// Kafka is how the cluster is reached.
	Kafka Kafka `mapstructure:"kafka"`
	// Group is the membership in the consumer group that decides which process
	// serves which partitions. All processes of one fleet have the same settings here.
	Group Group `mapstructure:"group"`
	// Sources are the topics that are read, and what their records may ask for. The
	// first source with a matching pattern counts; a topic that no pattern matches is
	// not read, and one that only a pattern matches not before a record of it carries a
	// header of ours. A dead-letter topic (*-dlq, or the dead_letter_topic of a source) and
	// an internal one (__*) is never a source. A list in the file replaces the default
	// sources as a whole. Sources can be set in the file only.
	Sources []Source `mapstructure:"sources"`
	// Targets are the topics that records may be sent to, for all sources without
	// rules of their own.
	Targets Targets `mapstructure:"targets"`
	// Memory bounds what pending records take.
	Memory Memory `mapstructure:"memory"`
	// Forward is how records are sent when they are due.
	Forward Forward `mapstructure:"forward"`
	// Commit is how progress is stored in the consumer group.
	Commit Commit `mapstructure:"commit"`
	// Clock is what happens when this machine's clock cannot be trusted.
	Clock Clock `mapstructure:"clock"`
	// HTTP serves health, metrics and status.
	HTTP HTTP `mapstructure:"http"`
	// Log is what the process writes to standard error.
	Log Log `mapstructure:"log"`
	// Shutdown is how the process stops.
	Shutdown Shutdown `mapstructure:"shutdown"`

	warnings []string // found by Load beside those that Warnings can find
}

// Kafka is how the cluster is reached.
type Kafka struct {
	// Brokers are the addresses to start from, as host:port. One that answers is
	// enough to learn of all others; two or three let a start succeed while one is down.
	// Default: [localhost:9092].
	Brokers []string `mapstructure:"brokers"`
	// ClientID is the name that brokers see in their logs and quotas. Each role of the
	// process (group, fetch, produce) appends its own suffix.
	// Default: delay-scheduler.
	ClientID string `mapstructure:"client_id"`
	// Version is the protocol version to speak, such as 3.9, at least 2.8. Empty means
	// 3.9. Each request is lowered to what the broker offers, so there is hardly ever
	// a reason to set it.
	// Default: empty.
	Version string `mapstructure:"version"`
	// MetadataRefresh is how often the cluster is asked for topics and partitions, and
	// so within what time new ones are seen. Less sees them sooner; more asks less.
	// A find makes the group rejoin, at most once for each refresh.
	// Default: 30s.
	MetadataRefresh time.Duration `mapstructure:"metadata_refresh" range:"1s..1h"`
	// TLS encrypts the connections to brokers.
	TLS KafkaTLS `mapstructure:"tls"`
	// SASL is how the process logs in to brokers.
	SASL SASL `mapstructure:"sasl"`
}

// Group is the membership in the consumer group.
type Group struct {
	// ID is the consumer group. Its commits hold what is done, so another id starts
	// from the beginning of every source, as a new installation does.
	// Default: delay-scheduler.
	ID string `mapstructure:"id"`
	// InstanceID makes the membership static: a process that comes back under the same
	// id within session_timeout takes its partitions back within seconds and without a
	// rebalance, also after a kill. The price is that the partitions of one stopped for
	// good are unread for session_timeout. Every process needs an id of its own, such as
	// the name of its pod. Empty means a dynamic member.
	// Default: empty.
	InstanceID string `mapstructure:"instance_id"`
	// SessionTimeout is how long the group waits for a member that is silent. Less
	// moves the partitions of a crashed process sooner; more outlasts longer pauses of
	// the network or the machine. With instance_id it has to outlast a restart. Brokers
	// take 6s to 30m unless they are set otherwise.
	// Default: 10s.
	SessionTimeout time.Duration `mapstructure:"session_timeout" range:"1s..30m"`
	// RebalanceTimeout is how long the group waits for its members to join anew when
	// one comes or goes. Less goes on sooner without a member that hangs; more spares
	// one that is slow.
	// Default: 1m.
	RebalanceTimeout time.Duration `mapstructure:"rebalance_timeout" range:"1s..1h"`
	// RebalanceDrain is how long a rebalance waits for sends that are not answered yet.
	// What is unanswered after it is in doubt: the partition's next owner may send it
	// again. Less lets a group with a slow target go on sooner; more leaves less in
	// doubt. It must be below rebalance_timeout.
	// Default: 5s.
	RebalanceDrain time.Duration `mapstructure:"rebalance_drain" range:"0s..1h"`
}

// Source is a set of topics that are read, and what their records may ask for.
type Source struct {
	// Topics are names, or patterns in which * stands for any number of characters and
	// ? for one.
	// Default: none.
	Topics []string `mapstructure:"topics"`
	// Delay is the delay of records that name neither a delay nor a due time, as those
	// on a ladder topic (payments.retry.30s) do not. Empty means that such a record is
	// malformed, or on a retry source that the policy decides.
	// Default: empty.
	Delay time.Duration `mapstructure:"delay" range:"1ms..36500d" optional:"true"`
	// Base is what a delay counts from: timestamp is the record's, origin-time the
	// header of that name.
	// Default: timestamp.
	Base string `mapstructure:"base" oneof:"timestamp origin-time"`
	// Targets replace the global rules for this source unless both lists are empty.
	// They apply to derived targets, such as the topic that a retry goes back to, too.
	Targets TargetRules `mapstructure:"targets"`
	// MaxDelay is how far ahead of its base time a record may be due. One that asks for
	// more goes to the dead-letter topic at once. More needs more memory, and a topic
	// whose retention is longer than it.
	// Default: 90d.
	MaxDelay time.Duration `mapstructure:"max_delay" range:"1s..36500d"`
	// DeadLetterTopic is where refused records go. Empty means the source topic with its
	// suffix replaced by -dlq. The topic has to exist.
	// Default: empty.
	DeadLetterTopic string `mapstructure:"dead_letter_topic"`
	// Retry makes this a retry source by its presence, an empty one ({}) included: its
	// policy decides when a record comes back that names no due time itself. A ladder
	// topic has both delay, which then says when, and retry, which says how often.
	Retry *Retry `mapstructure:"retry"`
}

// Retry is the policy of a retry source.
type Retry struct {
	// AcceptBare takes records that carry none of our headers, as a consumer that just
	// republishes what failed writes them. They then have no budget but max_attempts by
	// retry-attempt, which is lost when the consumer drops all headers.
	// Default: false.
	AcceptBare bool `mapstructure:"accept_bare"`
	// Steps are the intervals before the first, second and later retries, such as
	// [30s, 5m, 1h]. The last one repeats. Not empty, it is used instead of initial,
	// multiplier and max_interval.
	// Default: none.
	Steps []time.Duration `mapstructure:"steps" range:"0s..36500d"`
	// Initial is the interval before the first retry.
	// Default: 1s.
	Initial time.Duration `mapstructure:"initial" range:"1ms..36500d"`
	// Multiplier is by how much each interval is longer than the one before. 1 keeps
	// them equal; more backs off faster.
	// Default: 2.
	Multiplier float64 `mapstructure:"multiplier" range:"1..1000"`
	// MaxInterval caps the interval before jitter is added. 0s means no cap but max_delay.
	// Default: 5m.
	MaxInterval time.Duration `mapstructure:"max_interval" range:"0s..36500d"`
	// Jitter is the most that is added to an interval, as a part of it; nothing is ever
	// taken off. It spreads records that failed together: 0 sends them all back at once,
	// 1 spreads them over twice the interval. A record's jitter comes from its identity,
	// so a restart does not change it.
	// Default: 1.
	Jitter float64 `mapstructure:"jitter" range:"0..1"`
	// MaxAttempts is the number of retries; the next failure goes to the dead-letter
	// topic. With steps and no value here it is their number.
	// Default: 5.
	MaxAttempts int `mapstructure:"max_attempts" range:"0..2147483647"`
	// MaxAge ends retries when the first failure is longer ago. 0s means no limit.
	// Default: 0s.
	MaxAge time.Duration `mapstructure:"max_age" range:"0s..36500d"`
}

// TargetRules say which topics records may be sent to.
type TargetRules struct {
	// Allow are names and patterns. Empty allows what deny does not refuse.
	// Default: none.
	Allow []string `mapstructure:"allow"`
	// Deny are names and patterns that are refused even if allow has them. Internal
	// topics (__*) are always refused.
	// Default: none.
	Deny []string `mapstructure:"deny"`
}

// Targets say which topics records may be sent to.
type Targets struct {
	// Allow are names and patterns. A producer chooses its target by a header, so list
	// here what producers may write to through us.
	// Default: ["*"].
	Allow []string `mapstructure:"allow"`
	// Deny are names and patterns that are refused even if allow has them. Internal
	// topics (__*) are always refused.
	// Default: none.
	Deny []string `mapstructure:"deny"`
	// AllowSources permits targets that are themselves sources. Then max_hops bounds
	// how often a record may go from source to source.
	// Default: false.
	AllowSources bool `mapstructure:"allow_sources"`
	// MaxHops is how often a record may be sent on to a source before it goes to the
	// dead-letter topic.
	// Default: 10.
	MaxHops int `mapstructure:"max_hops" range:"1..1000"`
}

// Memory bounds what pending records take.
type Memory struct {
	// Budget is what the payloads and the index of all partitions may take together. The
	// payloads of what is due next are held as long as it lasts; of all other pending
	// records only due time and offset, in 4 to 8 bytes, and their payloads are read back
	// from Kafka before they are due. Half of it is divided among the partitions, so that
	// one with a burst cannot take the others' part. More means fewer passes over the
	// log. A partition stops reading only when the index alone takes three quarters. The
	// process takes 1.2 x budget + max_in_flight + 80 MiB in all. At least 8MiB.
	// Default: 256MiB.
	Budget Bytes `mapstructure:"budget" range:"1..1TiB"`
	// MaxInFlight is how much may be sent and not yet acknowledged. A target gets a
	// quarter of it at most, or half while nothing else is sent. Less keeps a stop short;
	// more keeps fast targets busier. It must not be above budget.
	// Default: 32MiB.
	MaxInFlight Bytes `mapstructure:"max_in_flight" range:"256KiB..1TiB"`
}

// Forward is how records are sent when they are due.
type Forward struct {
	// Timestamp is what a forwarded record has: now is the time of sending, source is
	// the source record's. With source, a target's retention counts from when the delay
	// was asked for.
	// Default: now.
	Timestamp string `mapstructure:"timestamp" oneof:"now source"`
	// KeepSchedulingHeaders passes target-topic, delay-ms, next-retry-time and deliver-at
	// on to the target. It cannot be used with a retry source, where a left-over header
	// would count as a new request.
	// Default: false.
	KeepSchedulingHeaders bool `mapstructure:"keep_scheduling_headers"`
	// GiveUpAfter is how long a target may be unknown or refuse us before its records go
	// to the dead-letter topic. Less reports a mistaken name sooner; more leaves time to
	// create the topic or grant the access.
	// Default: 10m.
	GiveUpAfter time.Duration `mapstructure:"give_up_after" range:"0s..365d"`
	// MaxLanes is how many targets can be sent to at one time. Records for others wait
	// for a lane to become idle. Each lane takes some kilobytes.
	// Default: 1000.
	MaxLanes int `mapstructure:"max_lanes" range:"1..100000"`
	// Compression is that of the batches sent to targets.
	// Default: none.
	Compression string `mapstructure:"compression" oneof:"none lz4 snappy gzip zstd"`
	// Linger is how long a batch waits to be filled. Less sends sooner; more makes
	// larger batches, which costs brokers and this process less. All records are this
	// much later at most.
	// Default: 5ms.
	Linger time.Duration `mapstructure:"linger" range:"0s..1s"`
}

// Commit is how progress is stored in the consumer group.
type Commit struct {
	// Interval is how often progress is stored. What was sent since the last commit may
	// be sent again after a crash, so less means fewer duplicates and more commits. It
	// must not be above a third of group.session_timeout, nor of group.rebalance_timeout:
	// a process that commits more rarely would have to stop sending, not knowing
	// whether its partitions are still its own.
	// Default: 1s.
	Interval time.Duration `mapstructure:"interval" range:"10ms..10m"`
	// MetadataLimit is the longest commit metadata that is sent, in characters. It says
	// what above the committed offset is done; what does not fit may be sent again after
	// a restart. It is lowered to the broker's own limit (offset.metadata.max.bytes)
	// where that can be read.
	// Default: 4096.
	MetadataLimit int `mapstructure:"metadata_limit" range:"256..32767"`
}

// Clock is what happens when this machine's clock cannot be trusted.
type Clock struct {
	// MaxSkew is how far the clock may be behind the brokers', or jump ahead, before the
	// process reports itself degraded. Less notices smaller errors; more tolerates an
	// unruly clock.
	// Default: 1m.
	MaxSkew time.Duration `mapstructure:"max_skew" range:"1s..1d"`
	// OnJump is what happens after the clock has jumped ahead by more than max_skew: hold
	// sends nothing until fresh records confirm the new time, send believes it.
	// Default: hold.
	OnJump string `mapstructure:"on_jump" oneof:"hold send"`
}

// HTTP serves health, metrics and status.
type HTTP struct {
	// Listen is the address, as host:port. Port 0 takes a free one. Serve other machines
	// with 0.0.0.0:8080, and then with a token.
	// Default: 127.0.0.1:8080.
	Listen string `mapstructure:"listen"`
	// TLS makes it HTTPS, if a certificate is given.
	TLS HTTPTLS `mapstructure:"tls"`
	// Token is what whoever asks for anything but /livez and /readyz has to send, as
	// "Authorization: Bearer TOKEN". Without it /readyz says no more than whether the
	// process is ready, why not, and how many parts are in trouble. Rather use
	// token_file. Empty means that everybody may ask for everything.
	// Default: empty.
	Token Secret `mapstructure:"token"`
	// TokenFile is a file with the token. It is read again for every request, so a new
	// token needs no restart.
	// Default: empty.
	TokenFile string `mapstructure:"token_file"`
	// PProf serves Go's profiles under /debug/pprof. They show what is in memory, so
	// leave it off where strangers can reach the address.
	// Default: false.
	PProf bool `mapstructure:"pprof"`
}

// Log is what the process writes to standard error.
type Log struct {
	// Level is the least level that is written. Keys and payloads are never logged.
	// Default: info.
	Level string `mapstructure:"level" oneof:"debug info warn error"`
	// Format is json for machines, console for people.
	// Default: json.
	Format string `mapstructure:"format" oneof:"json console"`
}

// Shutdown is how the process stops.
type Shutdown struct {
	// DrainTimeout is how long a stop waits for sends that are not answered yet. What is
	// unanswered after it is in doubt and may be sent again after the next start. It
	// should be below what ends the process by force (30s in Kubernetes).
	// Default: 20s.
	DrainTimeout time.Duration `mapstructure:"drain_timeout" range:"0s..1h"`
}
