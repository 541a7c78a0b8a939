package bgp

import (
	"context"
	"net"
	"time"
)

// Two who dial each other at the same time must not both be heard. A peer that knows
// graceful restart and gets another connection once its session is up takes it for
// our restart (RFC 4724 §4.2, §5): it ends the session, and if that one has come up
// after a restart itself, drops what it had kept until then. GoBGP takes the first
// connection that it is handed and ends the other, whatever the peer made of it.
//
// So one of ours that is on its way goes first, as the peer is going to see it in
// any case; and while one of the peer's has been let in, none is begun.

const (
	// attemptTime is how long the peer's connection waits for ours: it is there, so
	// that ours comes about or is refused within a round trip.
	attemptTime = time.Second
	// enteredTime is how long none of ours is begun after one of the peer's has been
	// let in, unless the session goes back to where it waits for one.
	enteredTime = 2 * time.Second
)

// attempt is a connection of ours, from the time it is begun until GoBGP has it.
type attempt struct {
	ctx  context.Context
	stop context.CancelFunc
	over chan struct{} // closed when it has come about, or failed
	made bool          // once over: it has come about
}

// settle says how it went.
func (a *attempt) settle(conn *net.TCPConn) {
	a.made = conn != nil
	close(a.over)
}

// begin returns an attempt, or nil where one of the peer's own has been let in.
func (d *dialer) begin(ctx context.Context, t *callee) *attempt {
	d.mu.Lock()
	defer d.mu.Unlock()
	if ctx.Err() != nil || time.Since(t.entered) < enteredTime {
		return nil
	}
	a := &attempt{over: make(chan struct{})}
	a.ctx, a.stop = context.WithCancel(ctx)
	t.attempt = a
	return a
}

// end says that GoBGP has the connection of the attempt, or nobody has.
func (d *dialer) end(t *callee, a *attempt) {
	a.stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	if t.attempt == a {
		t.attempt = nil
	}
}

// enter waits until a connection of the neighbour's own can be let in, and reports
// whether it is to be: not if one of ours has come about, nor if another is waiting.
// When it has been handed over or closed, call entered.
func (d *dialer) enter(addr string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.callees[addr]
	if t == nil || t.waiting {
		return false
	}
	t.waiting = true
	for t.attempt != nil {
		a := t.attempt
		d.mu.Unlock()
		made := a.wait()
		d.mu.Lock()
		if made {
			t.waiting = false
			return false
		}
		if t.attempt == a {
			t.attempt = nil
		}
	}
	t.entered = time.Now()
	return true
}

// wait reports whether the attempt has come about. One that takes too long is given
// up.
func (a *attempt) wait() bool {
	limit := time.NewTimer(attemptTime)
	defer limit.Stop()
	select {
	case <-a.over:
	case <-limit.C:
		a.stop()
		<-a.over
	}
	return a.made
}

// entered says that what enter has let in has been handed over.
func (d *dialer) entered(addr string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.callees[addr]; t != nil {
		t.waiting = false
	}
}
