package delay

// Header is one record header. A nil Value is a null, which differs from an empty one.
type Header struct {
	Key   []byte
	Value []byte
}

// Record is a record as it was read from a source. Its slices may alias a fetch
// buffer: whoever keeps a record longer than the call packs it (see Pack).
type Record struct {
	Topic     string
	Partition int32
	Offset    int64
	// Timestamp is in epoch ms: the broker's append time when AppendTime is set,
	// else the producer's. -1 says that there is none.
	Timestamp  int64
	AppendTime bool
	Key        []byte // nil is null
	Value      []byte // nil is null
	Headers    []Header
}

// Outgoing is a record as it is produced. Its slices alias the message it was made of.
type Outgoing struct {
	Topic     string
	Key       []byte // nil is null
	Value     []byte // nil is null
	Headers   []Header
	Timestamp int64 // epoch ms; 0 means the time of sending
	Tag       any   // the sender's own; it comes back with the acknowledgement
}

// Outcome is what became of a record that was handed over to be sent.
type Outcome uint8

// The outcomes.
const (
	// Sent says that every in-sync replica of the target has the record.
	Sent Outcome = iota + 1
	// DeadLettered says the same of the dead-letter topic.
	DeadLettered
	// Returned says that the record is certainly in no log; it may be sent again.
	Returned
	// InDoubt says that no answer came before the end; the record may be in the log.
	InDoubt
)
