package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// signals gives two contexts: the first ends with the first SIGINT or SIGTERM, or with
// its parent, and asks for a stop; the second ends with the next signal, which skips
// the waits.
func signals(parent context.Context) (ctx, hurry context.Context, release func()) {
	ctx, stop := context.WithCancel(parent)
	hurry, skip := context.WithCancel(context.WithoutCancel(parent))
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
