package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/engine"
)

// garbage may come to this many percent of what is kept before it is collected.
const garbage = 50

// frugal keeps the daemon on one processor at a time, unless GOMAXPROCS says
// otherwise. One goroutine does nearly all there is to do; with more processors
// each of its rare wakes would wake threads that look for work and find none.
func frugal() {
	// What it keeps is little beside what a pass makes and drops.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
}

// A burst of changes or of news, as when a large mesh comes up, leaves behind more
// memory than what it made takes.
const (
	burst     = 200 // changes
	flurry    = 50  // passes
	giveAfter = 3 * time.Second
)

// giveBack returns to the system what bursts have left, until ctx ends. It sleeps
// while there are none.
func giveBack(ctx context.Context, e *engine.Engine) {
	var sequence uint64
	var given routing.PassStatus
	for {
		s, err := e.Wait(ctx, sequence)
		if err != nil {
			return
		}
		sequence = s.Sequence
		if s.Pass.Applied-given.Applied < burst && s.Pass.Passes-given.Passes < flurry {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(giveAfter):
		}
		given = e.State().Pass
		debug.FreeOSMemory()
	}
}
