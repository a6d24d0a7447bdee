package kafka

import (
	"errors"

	"github.com/IBM/sarama"

	"delay-scheduler/forward"
)

// produceFate is what becomes of a batch after an answer.
type produceFate uint8

const (
	// fateWritten: all in-sync replicas have it.
	fateWritten produceFate = iota
	// fateResend: the same batch is sent again with the same sequence.
	fateResend
	// fateResequence: the broker does not know our sequence; the batch is sent again
	// under a new identity.
	fateResequence
	// fateSplit: the batch holds something that is refused for good; it is divided
	// until the record that is to blame stands alone.
	fateSplit
	// fateRefused: whatever we send there is refused until somebody acts.
	fateRefused
)

// verdict is what an answer to a produce or metadata request means.
type verdict struct {
	fate produceFate
	// class is what the lane is told when the batch has to be given back.
	class forward.Class
	// ambiguous says that the batch may nevertheless be in a log, or get there. It must
	// then be sent until the answer is definite, and never be given back.
	ambiguous bool
	// stale says that what we know about the leaders is out of date.
	stale bool
}

// classify decides what an error means. It is the only place that does; what follows
// from a class is decided in package forward.
func classify(err error) verdict {
	var code sarama.KError
	if err == nil {
		return verdict{fate: fateWritten}
	}
	if !errors.As(err, &code) {
		return classifyClient(err)
	}
	switch code {
	case sarama.ErrNoError,
		// The broker has this batch from an earlier attempt whose answer we did not get.
		sarama.ErrDuplicateSequenceNumber:
		return verdict{fate: fateWritten}
	case sarama.ErrMessageSizeTooLarge, sarama.ErrMessageSetSizeTooLarge:
		// Larger than the topic or a segment takes. Checked before the append.
		return verdict{fate: fateSplit, class: forward.TooLarge}
	case sarama.ErrInvalidRecord, sarama.ErrInvalidTimestamp, sarama.ErrPolicyViolation:
		// A compacted topic wants a key, a topic bounds timestamps: the record's fault.
		// Checked before the append.
		return verdict{fate: fateSplit, class: forward.Rejected}
	case sarama.ErrInvalidMessage:
		// A checksum that does not hold. The wire may be to blame, so the batch is sent
		// again before the records are (see produceLoop.corrupt).
		return verdict{fate: fateResend, class: forward.Rejected}
	case sarama.ErrOutOfOrderSequenceNumber, sarama.ErrUnknownProducerID, sarama.ErrInvalidProducerEpoch:
		// The broker lost or never had what it knew of us (expired, truncated, unclean
		// election), or we gave a sequence back wrongly. Not appended now.
		return verdict{fate: fateResequence, class: forward.Transient}
	case sarama.ErrProducerFenced, sarama.ErrInvalidTxnState, sarama.ErrInvalidProducerIDMapping:
		// Only a transactional producer hears these: it has been replaced.
		return verdict{fate: fateRefused, class: forward.Fatal}
	default:
		return classifyRefusal(code)
	}
}

// classifyAnswer decides what a broker's answer for a partition means. Beside the code it
// looks at the offset of the append, which Kafka also gives when the append succeeded and
// something went wrong after it. So a broker that does not lead and gives none has
// refused the batch before it wrote anything. (A failing disk proves nothing.)
func classifyAnswer(err error, block *sarama.ProduceResponseBlock) verdict {
	v := classify(err)
	refusable := errors.Is(err, sarama.ErrNotLeaderForPartition) || errors.Is(err, sarama.ErrUnknownTopicOrPartition)
	if block != nil && block.Offset == noOffset && refusable {
		v.ambiguous = false
	}
	return v
}

// noOffset is what an answer says when nothing was appended.
const noOffset = -1

// classifyRefusal covers what concerns the topic, the broker or our rights.
func classifyRefusal(code sarama.KError) verdict {
	switch code {
	case sarama.ErrUnknownTopicOrPartition:
		// Not (yet, or any more) there. A broker also says so of a partition that was
		// taken from it while the batch waited for replicas, so the batch may be in the
		// log. Only the metadata tells the two apart.
		return verdict{fate: fateResend, class: forward.UnknownTopic, ambiguous: true, stale: true}
	case sarama.ErrInvalidTopic:
		// No topic can have this name, or it is the brokers' own.
		return verdict{fate: fateRefused, class: forward.UnknownTopic}
	case sarama.ErrTopicAuthorizationFailed, sarama.ErrClusterAuthorizationFailed,
		sarama.ErrTransactionalIDAuthorizationFailed:
		// Checked before anything else is done.
		return verdict{fate: fateRefused, class: forward.NotAuthorized}
	case sarama.ErrNotLeaderForPartition, sarama.ErrFencedLeaderEpoch, sarama.ErrUnknownLeaderEpoch,
		sarama.ErrKafkaStorageError, sarama.ErrReplicaNotAvailable:
		// Said at once by a broker that does not lead, but also by one that appended the
		// batch and lost the partition or its disk while it waited for the replicas. The
		// new leader may have the batch.
		return verdict{fate: fateResend, class: forward.Transient, ambiguous: true, stale: true}
	case sarama.ErrLeaderNotAvailable, sarama.ErrBrokerNotAvailable, sarama.ErrListenerNotFound:
		// An election is going on: there is nobody who could have written.
		return verdict{fate: fateResend, class: forward.Transient, stale: true}
	case sarama.ErrNotEnoughReplicas:
		// Refused before the append. (After it: NOT_ENOUGH_REPLICAS_AFTER_APPEND.)
		return verdict{fate: fateResend, class: forward.Transient}
	case sarama.ErrThrottlingQuotaExceeded, sarama.ErrOffsetsLoadInProgress,
		sarama.ErrConsumerCoordinatorNotAvailable, sarama.ErrNotCoordinatorForConsumer,
		sarama.ErrConcurrentTransactions:
		// A coordinator that is busy or moving: answers to InitProducerID, nothing written.
		return verdict{fate: fateResend, class: forward.Transient}
	case sarama.ErrSASLAuthenticationFailed, sarama.ErrUnsupportedSASLMechanism, sarama.ErrIllegalSASLState,
		sarama.ErrUnsupportedVersion, sarama.ErrUnsupportedForMessageFormat, sarama.ErrInvalidRequiredAcks,
		sarama.ErrUnsupportedCompressionType, sarama.ErrInvalidRequest:
		// Our configuration and the cluster do not fit. No record is to blame, so nothing
		// may be dead-lettered for it; it passes when an operator changes either.
		return verdict{fate: fateRefused, class: forward.Transient}
	default:
		// REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND, NETWORK_EXCEPTION,
		// UNKNOWN_SERVER_ERROR and whatever is invented later: the batch may be in the log.
		return verdict{fate: fateResend, class: forward.Transient, ambiguous: true, stale: true}
	}
}

// classifyClient covers what our side of the connection says.
func classifyClient(err error) verdict {
	var unencodable sarama.PacketEncodingError
	switch {
	case errors.As(err, &unencodable):
		// The request cannot be put into bytes: it exceeds sarama.MaxRequestSize.
		return verdict{fate: fateSplit, class: forward.TooLarge}
	case errors.Is(err, sarama.ErrNotConnected), errors.Is(err, errNotSent):
		// Nothing went out.
		return verdict{fate: fateResend, class: forward.Transient, stale: true}
	default:
		// EOF, timeout, an answer that cannot be read: the request may have arrived.
		return verdict{fate: fateResend, class: forward.Transient, ambiguous: true, stale: true}
	}
}
