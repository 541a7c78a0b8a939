package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"netclass.dev/routing"
)

const (
	// settleTime is how long who puts a configuration in force waits for what that
	// drops. netclassctl waits for 5 s unless told otherwise.
	settleTime = 3 * time.Second
	settlePoll = 20 * time.Millisecond
)

// Settle waits until a configuration that Configure was given is in force and what
// it drops is gone: rules and routes from the kernel, sessions and the addresses that
// were listened on from the speaker. It waits for three seconds at most, and not at
// all while Run does not run; what may not be taken out yet, as its inputs have not
// been read, it does not wait for. It returns what was still to come then, for
// people; empty: nothing, or another configuration has been put in force meanwhile.
func (e *Engine) Settle(ctx context.Context, c *routing.Config) (toCome string) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	for e.running.Load() {
		if toCome = e.unsettled(c); toCome == "" || !pause(ctx, settlePoll) {
			return toCome
		}
	}
	return ""
}

// unsettled says what is yet to come of a configuration.
func (e *Engine) unsettled(c *routing.Config) string {
	s, sp := e.State(), e.opt.Speaker.Status()
	left := func(op routing.Op) bool { return op.Verb == routing.Delete }
	switch {
	case e.config.Load().config != c:
		return ""
	case s.Config.Config != c:
		return "it has not been taken up yet"
	case s.Pass.Error != "":
		return s.Pass.Error
	case slices.ContainsFunc(s.Pending, left):
		return "still to be done: " + s.Pending[slices.IndexFunc(s.Pending, left)].String()
	case sp.PID != 0 && !sp.Wanted:
		return fmt.Sprintf("the speaker (pid %d) has not ended yet", sp.PID)
	case sp.PID != 0 && !sp.Confirmed:
		return fmt.Sprintf("the speaker (pid %d) has not carried it out yet", sp.PID)
	}
	return ""
}
