package engine

import (
	"time"

	"netclass.dev/routing"
)

// drain is how far this node is to be taken out, and how that is shown. The two
// are one value, so that a state that shows a status was made by its order.
type drain struct {
	order  routing.Draining
	status *routing.DrainStatus // nil: there is no drain
}

// SetDrain takes the node out as far as an order says, from the next pass on. The
// states of these passes have the very pointer given here as their Drain. The
// status must not be changed any more.
func (e *Engine) SetDrain(order routing.Draining, status *routing.DrainStatus) {
	e.drain.Store(&drain{order: order, status: status})
	e.Look()
}

// confirmGap is between looks at whether the speaker has carried out what a drain
// waits for: it says so to whoever gave the order, and that may have been given up.
const confirmGap = 100 * time.Millisecond

// unconfirmed reports whether the speaker has yet to carry out the newest order.
func (e *Engine) unconfirmed() bool {
	s := e.opt.Speaker.Status()
	return s.Wanted && !s.Confirmed
}
