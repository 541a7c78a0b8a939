package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"netclass.dev/routing/engine"
)

// frugal keeps the daemon on one processor at a time, unless GOMAXPROCS says
// otherwise. One goroutine does nearly all there is to do; with more processors
// each of its rare wakes would wake threads that look for work and find none.
func frugal() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
}

// A burst of changes, as when a large mesh comes up, leaves behind more memory
// than what it made takes.
const (
	burst     = 200 // changes
	giveAfter = 3 * time.Second
)

// giveBack returns to the system what bursts of changes have left, until ctx
// ends. It sleeps while there are none.
func giveBack(ctx context.Context, e *engine.Engine) {
	var sequence, applied uint64
	for {
		s, err := e.Wait(ctx, sequence)
		if err != nil {
			return
		}
		sequence = s.Sequence
		if s.Pass.Applied-applied < burst {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(giveAfter):
		}
		applied = e.State().Pass.Applied
		debug.FreeOSMemory()
	}
}
