package kafka

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"

	"delay-scheduler/forward"
)

func TestEveryErrorHasOneVerdict(t *testing.T) {
	written := verdict{fate: fateWritten}
	unsure := verdict{fate: fateResend, class: forward.Transient, ambiguous: true, stale: true}
	election := verdict{fate: fateResend, class: forward.Transient, stale: true}
	busy := verdict{fate: fateResend, class: forward.Transient}
	misfit := verdict{fate: fateRefused, class: forward.Transient}
	forbidden := verdict{fate: fateRefused, class: forward.NotAuthorized}
	fenced := verdict{fate: fateRefused, class: forward.Fatal}
	renumber := verdict{fate: fateResequence, class: forward.Transient}
	large := verdict{fate: fateSplit, class: forward.TooLarge}
	bad := verdict{fate: fateSplit, class: forward.Rejected}
	for _, c := range []struct {
		err  error
		want verdict
	}{
		{nil, written},
		{sarama.ErrNoError, written},
		{sarama.ErrDuplicateSequenceNumber, written},
		{sarama.ErrMessageSizeTooLarge, large},
		{sarama.ErrMessageSetSizeTooLarge, large},
		{sarama.PacketEncodingError{Info: "invalid request size"}, large},
		{fmt.Errorf("%w: %w", errNotSent, sarama.PacketEncodingError{}), large},
		{sarama.ErrInvalidRecord, bad},
		{fmt.Errorf("%w: no key", sarama.ErrInvalidRecord), bad},
		{sarama.ErrInvalidTimestamp, bad},
		{sarama.ErrPolicyViolation, bad},
		{sarama.ErrInvalidMessage, verdict{fate: fateResend, class: forward.Rejected}},
		{sarama.ErrOutOfOrderSequenceNumber, renumber},
		{sarama.ErrUnknownProducerID, renumber},
		{sarama.ErrInvalidProducerEpoch, renumber},
		{sarama.ErrProducerFenced, fenced},
		{sarama.ErrInvalidTxnState, fenced},
		{sarama.ErrInvalidProducerIDMapping, fenced},
		{sarama.ErrUnknownTopicOrPartition, verdict{fate: fateResend, class: forward.UnknownTopic, ambiguous: true, stale: true}},
		{sarama.ErrInvalidTopic, verdict{fate: fateRefused, class: forward.UnknownTopic}},
		{sarama.ErrTopicAuthorizationFailed, forbidden},
		{sarama.ErrClusterAuthorizationFailed, forbidden},
		{sarama.ErrNotLeaderForPartition, unsure},
		{sarama.ErrKafkaStorageError, unsure},
		{sarama.ErrFencedLeaderEpoch, unsure},
		{sarama.ErrLeaderNotAvailable, election},
		{sarama.ErrBrokerNotAvailable, election},
		{sarama.ErrNotEnoughReplicas, busy},
		{sarama.ErrOffsetsLoadInProgress, busy},
		{sarama.ErrConsumerCoordinatorNotAvailable, busy},
		{sarama.ErrNotEnoughReplicasAfterAppend, unsure},
		{sarama.ErrRequestTimedOut, unsure},
		{sarama.ErrNetworkException, unsure},
		{sarama.ErrUnknown, unsure},
		{sarama.KError(9999), unsure},
		{sarama.ErrUnsupportedCompressionType, misfit},
		{sarama.ErrSASLAuthenticationFailed, misfit},
		{sarama.ErrUnsupportedVersion, misfit},
		{io.EOF, unsure},
		{os.ErrDeadlineExceeded, unsure},
		{sarama.ErrIncompleteResponse, unsure},
		{sarama.PacketDecodingError{Info: "x"}, unsure},
		{context.Canceled, unsure},
		{sarama.ErrNotConnected, election},
		{fmt.Errorf("%w: %w", errNotSent, io.EOF), election},
	} {
		require.Equal(t, c.want, classify(c.err), "%v", c.err)
	}
}

// What may be in a log is never given back, so no verdict that ends a batch may leave
// that open.
func TestNoVerdictRefusesWhatMayBeWritten(t *testing.T) {
	for code := sarama.KError(-1); code < 200; code++ {
		v := classify(code)
		if v.fate == fateRefused || v.fate == fateSplit {
			require.False(t, v.ambiguous, "%v", code)
			require.NotZero(t, v.class, "%v", code)
		}
	}
}

func TestAnAnswerWithoutAnOffsetWasNoAppend(t *testing.T) {
	block := func(offset int64) *sarama.ProduceResponseBlock { return &sarama.ProduceResponseBlock{Offset: offset} }
	for _, c := range []struct {
		err       error
		block     *sarama.ProduceResponseBlock
		ambiguous bool
	}{
		{sarama.ErrNotLeaderForPartition, block(-1), false},
		{sarama.ErrNotLeaderForPartition, block(17), true},
		{sarama.ErrNotLeaderForPartition, block(0), true},
		{fmt.Errorf("%w: moved", sarama.ErrUnknownTopicOrPartition), block(-1), false},
		{sarama.ErrKafkaStorageError, block(-1), true},
		{sarama.ErrRequestTimedOut, block(-1), true},
		{io.EOF, nil, true},
	} {
		require.Equal(t, c.ambiguous, classifyAnswer(c.err, c.block).ambiguous, "%v", c.err)
	}
}
