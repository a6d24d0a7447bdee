package kafka

import "github.com/IBM/sarama"

// commitSize is about what a commit takes in a request, and in the broker's log.
func commitSize(p pendingCommit) int {
	const fixed = 4 + 8 + 4 + 2 + 2 // partition, offset, epoch, lengths
	return fixed + len(p.Topic) + len(p.Metadata)
}

// request puts commits of one session into a request.
func (c *committer) request(s *session, batch []pendingCommit) *sarama.OffsetCommitRequest {
	req := &sarama.OffsetCommitRequest{
		Version:                 7, // with the instance id, and the last one that is not "flexible"
		ConsumerGroup:           c.group,
		ConsumerGroupGeneration: s.generation,
		ConsumerID:              s.member,
		GroupInstanceId:         c.instance,
	}
	for _, p := range batch {
		// The library's default epoch is 0, which other clients of the group would take for
		// a truncated log.
		req.AddBlockWithLeaderEpoch(p.Topic, p.Partition, p.Offset, -1, 0, p.Metadata)
	}
	return req
}

// commitVerdict is what an answer means for one partition's commit.
type commitVerdict uint8

const (
	commitStored   commitVerdict = iota
	commitFenced                 // the generation is over
	commitGone                   // the topic was deleted
	commitTooLarge               // its metadata is
	commitSplit                  // the request is
	commitAgain                  // try again; it may have been stored
	commitDenied                 // it is not stored, and trying again is of no use
)

// judgeCommit decides what a broker's code means for a commit.
func judgeCommit(code sarama.KError) commitVerdict {
	switch code {
	case sarama.ErrNoError:
		return commitStored
	case sarama.ErrIllegalGeneration, sarama.ErrUnknownMemberId, sarama.ErrFencedInstancedId,
		// Commits of the old generation are taken while a rebalance is prepared. This code
		// is for members that have joined the next one already, which an eager member has
		// only after it is done with the old.
		sarama.ErrRebalanceInProgress:
		return commitFenced
	case sarama.ErrUnknownTopicOrPartition:
		return commitGone
	case sarama.ErrOffsetMetadataTooLarge:
		return commitTooLarge
	case sarama.ErrInvalidCommitOffsetSize:
		return commitSplit
	case sarama.ErrTopicAuthorizationFailed, sarama.ErrGroupAuthorizationFailed, sarama.ErrInvalidGroupId:
		return commitDenied
	default:
		// Among them the coordinator's codes. A broker gives COORDINATOR_NOT_AVAILABLE also
		// when it has appended the offsets and the replicas did not follow in time.
		return commitAgain
	}
}

// commitOutcome finds a commit's answer. An answer without it says nothing.
func commitOutcome(resp *sarama.OffsetCommitResponse, p pendingCommit) (commitVerdict, error) {
	code, ok := resp.Errors[p.Topic][p.Partition]
	if !ok {
		return commitAgain, sarama.ErrIncompleteResponse
	}
	return judgeCommit(code), code
}
