package preflight

import (
	"slices"
	"time"
)

// Facts are what is known of a configuration, a cluster and a machine. A text in a field
// whose name ends in Err says why what stands beside it is not known.
type Facts struct {
	Now      time.Time
	Settings Settings

	// Unreachable is why no broker could be asked at all; then nothing below Brokers is
	// known but Machine.
	Unreachable string
	Brokers     []Broker
	Cluster     Rights
	Security    Security

	Patterns    []Pattern
	Sources     []Source
	DeadLetters []DeadLetter
	Targets     []Topic // those that are allowed by name
	Group       Group
	Machine     Machine
}

// Settings are what the configuration says.
type Settings struct {
	ClientID       string // the group's members of this configuration show it, with a suffix
	Group          string
	InstanceID     string
	SessionTimeout time.Duration
	MaxSkew        time.Duration
	Allow          []string // targets.allow of all sources together
	Budget         int64    // memory.budget, bytes
	MaxInFlight    int64    // memory.max_in_flight, bytes
	MemoryNeed     int64    // what the process may take with these, bytes
	// Joined says that this process is a member of the group itself.
	Joined bool
}

// Rights are the operations that the cluster lets us do with something, by Kafka's
// names for them (READ, WRITE, DESCRIBE_CONFIGS and so on).
type Rights struct {
	Known      bool
	Operations []string
	Err        string
}

// Has says whether an operation is allowed.
func (r Rights) Has(operation string) bool { return slices.Contains(r.Operations, operation) }

// Broker is one node of the cluster.
type Broker struct {
	ID   int32
	Addr string // as the cluster advertises it
	Err  string // why it cannot be connected to

	Requests    []Request
	RequestsErr string
	Configs     map[string]string
	ConfigsErr  string
}

// Request is a kind of request that we make.
type Request struct {
	Name         string
	Need, Speak  int16 // the least version that does what we need, the newest that we know
	Offered      bool
	Lowest, Most int16 // that the broker takes
}

// Security says whether strangers are kept out of the cluster.
type Security struct {
	Known, Secured bool
	How            string // what shows it, or why it is not known
}

// Pattern is one entry of sources[].topics.
type Pattern struct {
	Path    string // sources[0].topics[1]
	Pattern string
	Topics  []string // that it decides on
}

// Topic is one topic of the cluster.
type Topic struct {
	Name       string
	Missing    bool
	Err        string // it is there and cannot be described
	Partitions []Partition
	Configs    map[string]string
	ConfigsErr string
	Rights     Rights
}

// Partition is one partition of a topic.
type Partition struct {
	ID               int32
	Leader           bool
	Replicas, InSync int
}

// Source is a topic that is read.
type Source struct {
	Topic
	Path       string // the source of the configuration that decides on it: sources[0]
	MaxDelay   time.Duration
	DeadLetter string
	Pending    []Pending
	PendingErr string
	// Newest is when a broker last appended a record, by its own clock. Zero: not known.
	Newest time.Time
	// Foreign are the partitions whose commits are not ours, and why.
	Foreign map[int32]string
}

// Pending is the oldest record of a partition that is not done.
type Pending struct {
	Partition int32
	Offset    int64
	Timestamp time.Time
	Due       time.Time // zero: it has none, or it is not known
}

// DeadLetter is a topic that refused records go to.
type DeadLetter struct {
	Topic
	Sources []string // whose records
	// Matched is the pattern of a source that matches it, too.
	Matched string
}

// Group is the consumer group.
type Group struct {
	Err string // why it cannot be described
	// Forbidden says that it may not be described, and so not be joined either.
	Forbidden bool
	State     string // Kafka's word for it; empty: there is none yet
	Type      string // consumer, or what else uses the group protocol
	Protocol  string // how partitions are shared out
	// Next says that it is a group of the protocol of KIP-848, which ours cannot join.
	Next    bool
	Members []Member
	Rights  Rights
}

// Member is one member of the group.
type Member struct{ ClientID, InstanceID, Host string }

// Machine is where the judgement is made.
type Machine struct {
	MemoryLimit int64  // bytes that the container may take; 0: no limit
	LimitFrom   string // the file that says so
	GoLimit     int64  // GOMEMLIMIT in bytes; 0: not set
}
