package bgp

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"netclass.dev/routing"
)

// TestMeet has a neighbour dial while it is dialled itself: only one of the two
// connections is used, and it is ours if that has come about.
func TestMeet(t *testing.T) {
	const addr = "192.0.2.2"
	for name, tt := range map[string]struct {
		ours  func(a *attempt) // what becomes of ours, a tenth of a second later
		enter bool
		after time.Duration
	}{
		"ours comes about": {ours: func(a *attempt) { a.settle(&net.TCPConn{}) }, after: 100 * time.Millisecond},
		"ours is refused":  {ours: func(a *attempt) { a.settle(nil) }, enter: true, after: 100 * time.Millisecond},
		"ours hangs":       {ours: func(a *attempt) { <-a.ctx.Done(); a.settle(nil) }, enter: true, after: attemptTime},
		"ours hangs, and comes about as it is given up": {
			ours: func(a *attempt) { <-a.ctx.Done(); a.settle(&net.TCPConn{}) }, after: attemptTime},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDialer(&lines{}, func(string, error) {})
				d.aim(addr, &routing.Neighbor{Remote: netip.MustParseAddr(addr)}, 179, 64512)
				c := d.callees[addr]
				a := d.begin(t.Context(), c)
				if a == nil {
					t.Fatal("none of ours is begun")
				}
				go func() {
					time.Sleep(100 * time.Millisecond)
					tt.ours(a)
					time.Sleep(100 * time.Millisecond) // until GoBGP has it
					d.end(c, a)
				}()
				begin := time.Now()
				second := make(chan bool, 1)
				go func() {
					time.Sleep(50 * time.Millisecond)
					second <- d.enter(addr)
				}()
				enter := d.enter(addr)
				if took := time.Since(begin); enter != tt.enter || took != tt.after {
					t.Errorf("the neighbour's is let in: %v after %v, want %v after %v", enter, took, tt.enter, tt.after)
				}
				if <-second {
					t.Error("a second one of the neighbour's is let in too")
				}
				if enter {
					d.entered(addr)
				}
				time.Sleep(time.Second)
				if begun := d.begin(t.Context(), c) != nil; begun == enter {
					t.Errorf("another of ours is begun: %v", begun)
				}
			})
		})
	}
}

// TestMeetAgain: once the session waits for a connection again, ours is begun at
// once, and not while the neighbour's is being handed over.
func TestMeetAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const addr = "192.0.2.2"
		d := newDialer(&lines{}, func(string, error) {})
		d.aim(addr, &routing.Neighbor{Remote: netip.MustParseAddr(addr)}, 179, 64512)
		c := d.callees[addr]
		if !d.enter(addr) {
			t.Fatal("not let in where nobody dials")
		}
		d.entered(addr)
		if d.begin(t.Context(), c) != nil {
			t.Error("ours is begun though the neighbour's is there")
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		time.Sleep(enteredTime)
		if d.begin(over, c) != nil {
			t.Error("ours is begun though the session has moved on")
		}
		a := d.begin(t.Context(), c)
		if a == nil {
			t.Fatal("ours is not begun though nothing has become of the neighbour's")
		}
		a.settle(&net.TCPConn{})
		if d.enter(addr) {
			t.Error("the neighbour's is let in though ours is on its way to GoBGP")
		}
		d.end(c, a)
		if !d.enter(addr) {
			t.Error("it is not let in after that")
		}
		if d.enter("192.0.2.9") {
			t.Error("a stranger is let in")
		}
	})
}
