package kafka

import (
	"fmt"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

var scramHashes = map[sarama.SASLMechanism]scram.HashGeneratorFcn{
	sarama.SASLTypeSCRAMSHA256: scram.SHA256,
	sarama.SASLTypeSCRAMSHA512: scram.SHA512,
}

// scramClient is one login by SCRAM.
type scramClient struct {
	hash         scram.HashGeneratorFcn
	password     func() string
	conversation *scram.ClientConversation
}

// Begin implements sarama.SCRAMClient. The password is the one that is right now, not
// the one of the configuration: the library logs in again when a session expires.
func (c *scramClient) Begin(user, _, authzID string) error {
	client, err := c.hash.NewClient(user, c.password(), authzID)
	if err != nil {
		return fmt.Errorf("the user name or password cannot be used: check kafka.sasl.username and the password: %w", err)
	}
	c.conversation = client.NewConversation()
	return nil
}

// Step implements sarama.SCRAMClient.
func (c *scramClient) Step(challenge string) (string, error) {
	answer, err := c.conversation.Step(challenge)
	if err != nil {
		return "", &loginError{err}
	}
	return answer, nil
}

// Done implements sarama.SCRAMClient.
func (c *scramClient) Done() bool { return c.conversation.Done() }

// loginError is a login that we ended: the broker has not shown that it knows the
// password.
type loginError struct{ err error }

// Error implements error.
func (e *loginError) Error() string { return fmt.Sprintf("log in by SCRAM: %v", e.err) }

// Unwrap gives the original.
func (e *loginError) Unwrap() error { return e.err }
