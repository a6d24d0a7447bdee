package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// signals gives two contexts: the first ends with the first SIGINT or SIGTERM, which
// asks for a stop; the second ends with the next one, which skips the waits.
func signals() (ctx, hurry context.Context, release func()) {
	ctx, stop := context.WithCancel(context.Background())
	hurry, skip := context.WithCancel(context.Background())
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, f := range []context.CancelFunc{stop, skip} {
			select {
			case <-ch:
				f()
			case <-done:
				return
			}
		}
	}()
	return ctx, hurry, func() {
		signal.Stop(ch)
		close(done)
		<-ended
		stop()
		skip()
	}
}
