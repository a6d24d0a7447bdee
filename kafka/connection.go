package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/IBM/sarama"
)

// connection is a way to one broker that outlives its links: one is opened when a
// request needs it and closed after any trouble. It is used by one goroutine.
type connection struct {
	config *sarama.Config
	addr   string
	link   *link // nil: none
}

// do makes one request; within bounds the answer, not the connecting. call returns
// what the library returns: what the answer says stays with the caller.
func (c *connection) do(ctx context.Context, within time.Duration, call func(*sarama.Broker) error) error {
	if err := c.open(ctx); err != nil {
		return err
	}
	err := c.link.do(ctx, within, call)
	if err == nil {
		return nil
	}
	c.close()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return fmt.Errorf("broker %s: %w", c.addr, plain(err))
}

func (c *connection) open(ctx context.Context) error {
	if c.link != nil && c.link.ok() {
		return nil
	}
	c.close()
	l := newLink(c.config, c.addr)
	stop := context.AfterFunc(ctx, l.wire.cut)
	defer stop()
	if err := l.open(connectTimeout); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	c.link = l
	return nil
}

func (c *connection) close() {
	if c.link != nil {
		c.link.close()
		c.link = nil
	}
}

// transportError is a network error in few words: without the ports and addresses
// that would make every occurrence of the same trouble a new one.
type transportError struct {
	text  string
	named bool // the text names the key of the configuration to look at
	err   error
}

// Error implements error.
func (e *transportError) Error() string { return e.text }

// Unwrap gives the original.
func (e *transportError) Unwrap() error { return e.err }

// plain reduces a network error to its cause.
func plain(err error) error {
	var errno syscall.Errno
	var dns *net.DNSError
	var explained *transportError
	switch {
	case errors.Is(err, context.Canceled), errors.As(err, &explained):
		return err
	case errors.As(err, &dns) && dns.IsNotFound:
		return &transportError{text: "no such host", err: err}
	case errors.As(err, &errno):
		return &transportError{text: errno.Error(), err: err}
	case isTimeout(err):
		return &transportError{text: "no answer in time", err: err}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return &transportError{text: "connection closed", err: err}
	}
	return err
}

// isTimeout says that an answer did not come in time.
func isTimeout(err error) bool {
	var netErr net.Error
	return errors.Is(err, errCut) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.Is(err, context.DeadlineExceeded) || errors.As(err, &netErr) && netErr.Timeout()
}

// isTransport tells an error of the connection from one of what came over it, such
// as an answer that cannot be decoded.
func isTransport(err error) bool {
	var netErr net.Error
	var errno syscall.Errno
	return errors.As(err, &netErr) || errors.As(err, &errno) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, errCut) || errors.Is(err, sarama.ErrNotConnected) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// kafkaError makes a broker's code an error, and its zero none.
func kafkaError(code sarama.KError) error {
	if errors.Is(code, sarama.ErrNoError) {
		return nil
	}
	return code
}

// pause waits, or returns false when ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
