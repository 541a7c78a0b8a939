package drain_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

// TestTwentyAtOnce: one wins, whichever lock it is and however close they are, and
// the others are told who.
func TestTwentyAtOnce(t *testing.T) {
	for _, kube := range []bool{false, true} {
		for _, stagger := range []time.Duration{0, time.Millisecond, 7 * time.Millisecond, 40 * time.Millisecond, 400 * time.Millisecond} {
			for _, backwards := range []bool{false, true} {
				bubble(t, 20, kube, func(t *testing.T, w *world) { contend(t, w, stagger, backwards) })
			}
		}
	}
}

func contend(t *testing.T, w *world, stagger time.Duration, backwards bool) {
	calls := make([]*call, len(w.nodes))
	for i := range w.nodes {
		if backwards {
			i = len(w.nodes) - 1 - i
		}
		calls[i] = w.nodes[i].drain(routing.DrainRequest{})
		time.Sleep(stagger)
	}
	// Never are two of them taken out at a time.
	for range 400 {
		time.Sleep(100 * time.Millisecond)
		var out []string
		for _, n := range w.nodes {
			if n.engine.now().Step > routing.DrainClaim {
				out = append(out, n.name)
			}
		}
		if len(out) > 1 {
			t.Fatalf("taken out at one time: %v", out)
		}
	}
	won := ""
	for i, c := range calls {
		if c.wait(t, limit) == nil {
			won += w.nodes[i].name
		}
	}
	for i, c := range calls {
		n := w.nodes[i]
		if n.name == won {
			continue
		}
		var refused *routing.Refused
		if !errors.As(c.err, &refused) || w.lease != nil && !strings.Contains(c.err.Error(), won) {
			t.Errorf("stagger %v: %s is told %v; %q has won", stagger, n.name, c.err, won)
		}
		n.free()
	}
}

// TestLeaseFails: whichever call of the API fails, before it is carried out or
// after, once or for ever: the node is drained and has the lease, or is not drained
// and has not.
func TestLeaseFails(t *testing.T) {
	for nth := 1; nth <= 12; nth++ {
		for _, mode := range []string{"once", "once after", "conflict", "for a while", "for ever"} {
			t.Run(fmt.Sprintf("call %d %s", nth, mode), func(t *testing.T) {
				bubble(t, 2, true, func(t *testing.T, w *world) { failLease(t, w, nth, mode) })
			})
		}
	}
}

func failLease(t *testing.T, w *world, nth int, mode string) {
	n := w.nodes[0]
	begin := time.Now()
	w.lease.failing(func(call int, write bool) (before, after error) {
		switch {
		case call < nth, mode == "for a while" && time.Since(begin) > time.Minute, mode != "for ever" && mode != "for a while" && call > nth:
			return nil, nil
		case mode == "once after" && write:
			return nil, errAway
		case mode == "conflict" && write:
			return routing.ErrDrainConflict, nil
		}
		return errAway, nil
	})
	err := n.drain(routing.DrainRequest{}).wait(t, limit)
	time.Sleep(time.Minute)
	held := strings.HasPrefix(w.lease.seen().Holder, "uid-k8s-1/")
	if err == nil {
		if !held || n.engine.now().Step != routing.DrainPaths {
			t.Fatalf("drained, the lease is held: %v; %+v", held, n.engine.now())
		}
		err = n.undrain("").wait(t, time.Minute)
		if err != nil {
			t.Errorf("undrain: %v", err)
		}
	} else if refused := new(*routing.Refused); !errors.As(err, refused) {
		t.Errorf("it ended with %v", err)
	}
	if n.engine.now().Step != routing.DrainNone {
		t.Errorf("left with %+v", n.engine.now())
	}
	w.lease.failing(nil)
	time.Sleep(time.Minute)
	n.free()
	if err := w.nodes[1].drain(routing.DrainRequest{}).wait(t, limit); err != nil {
		t.Errorf("the next one: %v", err)
	}
}

// TestForce: it takes the lock only from who is named, and goes past what is not
// safe, with a word about it.
func TestForce(t *testing.T) {
	bubble(t, 3, true, func(t *testing.T, w *world) {
		a, b := w.nodes[0], w.nodes[1]
		if err := a.drain(routing.DrainRequest{Reason: "disk"}).wait(t, limit); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		err := b.drain(routing.DrainRequest{Force: true}).wait(t, limit)
		var refused *routing.Refused
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), "k8s-1 is drained since 2000-") || !strings.Contains(err.Error(), "--force --holder k8s-1") || !strings.Contains(err.Error(), "disk") {
			t.Errorf("force alone: %v", err)
		}
		if err := b.drain(routing.DrainRequest{Force: true, Holder: "k8s-3"}).wait(t, limit); !errors.As(err, &refused) {
			t.Errorf("force with another's name: %v", err)
		}
		if err := b.drain(routing.DrainRequest{Force: true, Holder: "k8s-1"}).wait(t, limit); err != nil {
			t.Errorf("force: %v", err)
		}
		if log := b.log.String(); !strings.Contains(log, "level=WARN") || !strings.Contains(log, "drain lease taken over") {
			t.Errorf("log:\n%s", log)
		}
		time.Sleep(time.Minute)
		if st := a.engine.State().Drain; st.Progress.Phase != routing.DrainDone || !strings.HasPrefix(st.Lock, "nobody: ") {
			t.Errorf("the first is left with %+v", st)
		}
		if err := a.undrain("").wait(t, limit); err != nil {
			t.Error(err)
		}
		if l := w.lease.seen(); !strings.HasPrefix(l.Holder, "uid-k8s-2/") {
			t.Errorf("its undrain left the lease with %q", l.Holder)
		}
		// Whose lease goes back to being free takes it again.
		w.lease.force(func(l *routing.DrainLease) { l.Holder = "" })
		time.Sleep(time.Minute)
		if l := w.lease.seen(); !strings.HasPrefix(l.Holder, "uid-k8s-2/") {
			t.Errorf("the lease of a drained node stays with %q", l.Holder)
		}
		w.lease.force(func(l *routing.DrainLease) { *l = routing.DrainLease{Unusable: "it does not exist"} })
		time.Sleep(time.Minute)
		if l := w.lease.seen(); !strings.HasPrefix(l.Holder, "uid-k8s-2/") {
			t.Errorf("a lease that was deleted is held by %q", l.Holder)
		}
		// One that it may not make: it has it as soon as somebody has made it.
		w.lease.failing(func(int, bool) (before, after error) { return errAway, nil })
		w.lease.force(func(l *routing.DrainLease) { *l = routing.DrainLease{Unusable: "it does not exist"} })
		time.Sleep(time.Second)
		if st := b.engine.State().Drain; strings.HasPrefix(st.Lock, "nobody") {
			t.Errorf("while the lease cannot be read its lock is %q", st.Lock)
		}
		w.lease.failing(func(_ int, write bool) (before, after error) {
			if write {
				return errAway, nil
			}
			return nil, nil
		})
		time.Sleep(time.Minute)
		if st := b.engine.State().Drain; !strings.HasPrefix(st.Lock, "nobody: ") {
			t.Errorf("without a lease its lock is %q", st.Lock)
		}
		w.lease.failing(nil)
		w.lease.force(func(l *routing.DrainLease) { *l = routing.DrainLease{Version: "7"} })
		time.Sleep(time.Second)
		if l := w.lease.seen(); !strings.HasPrefix(l.Holder, "uid-k8s-2/") {
			t.Errorf("a lease that was made anew is held by %q", l.Holder)
		}
	})
}

// TestNodeGone: a Node that is deleted frees its lock; one that has only not been
// read does not.
func TestNodeGone(t *testing.T) {
	bubble(t, 2, true, func(t *testing.T, w *world) {
		w.lease.force(func(l *routing.DrainLease) { l.Holder = "uid-gone/old" })
		n := w.nodes[0]
		n.engine.alter(func(s *routing.State) { s.Inventory.Stale = "connection refused" })
		if err := n.drain(routing.DrainRequest{}).wait(t, limit); err == nil {
			t.Error("drained, though what is known of the nodes is old")
		}
		n.engine.alter(nil)
		if err := n.drain(routing.DrainRequest{}).wait(t, limit); err != nil {
			t.Error(err)
		}
	})
}

// TestReleasedLater: an undrain is done also while the API is away, which then
// frees the lease; also when the daemon is restarted in between.
func TestReleasedLater(t *testing.T) {
	for _, restart := range []bool{false, true} {
		bubble(t, 2, true, func(t *testing.T, w *world) {
			n := w.nodes[0]
			if err := n.drain(routing.DrainRequest{}).wait(t, limit); err != nil {
				t.Fatal(err)
			}
			w.lease.failing(func(int, bool) (error, error) { return errAway, nil })
			n.engine.alter(func(s *routing.State) {
				s.Inventory.Stale, s.Plan.Hold = "connection refused", "the inventory is old"
				s.Peers = nil
			})
			c := n.undrain("")
			if err := c.wait(t, 20*time.Second); err != nil || !strings.Contains(c.last().Progress.Message, "freed once") || !strings.Contains(c.last().Lock, "connection refused") {
				t.Errorf("%v, %+v", err, c.last())
			}
			if n.engine.now().Step != routing.DrainNone {
				t.Errorf("left with %+v", n.engine.now())
			}
			if restart {
				n.reboot()
			}
			time.Sleep(time.Minute)
			if st := n.engine.State().Drain; st == nil || st.Progress.Phase != routing.DrainEnded || !strings.Contains(st.Lock, "still names this node") {
				t.Errorf("what is still to be freed is not shown: %+v", st)
			}
			w.lease.failing(nil)
			time.Sleep(10 * time.Second)
			n.free()
			if st := n.engine.State().Drain; st != nil {
				t.Errorf("still shown is %+v", st)
			}
		})
	}
}

// TestMarkerWaitsForSessions: a peer whose session has just come up may have claimed
// while it was away: it is given the same time to say so.
func TestMarkerWaitsForSessions(t *testing.T) {
	bubble(t, 2, false, func(t *testing.T, w *world) {
		n := w.nodes[0]
		begin := time.Now()
		n.engine.alter(func(s *routing.State) {
			if time.Since(begin) >= 4*time.Second {
				s.Peers[0].Session.Since = begin.Add(4 * time.Second)
			}
		})
		n.drain(routing.DrainRequest{})
		time.Sleep(4 * time.Second)
		n.engine.look()
		time.Sleep(5 * time.Second)
		if got := n.engine.now().Step; got != routing.DrainClaim {
			t.Errorf("5 s after a session came up it is at %s", got)
		}
		time.Sleep(2 * time.Second)
		if got := n.engine.now().Step; got == routing.DrainClaim {
			t.Errorf("7 s after a session came up it is at %s", got)
		}
	})
}

// TestFailureShown: how a drain failed is shown until somebody undrains.
func TestFailureShown(t *testing.T) {
	bubble(t, 2, true, func(t *testing.T, w *world) {
		n := w.nodes[0]
		n.traffic("pod0", 1000)
		wait := 30 * time.Second
		if err := n.drain(routing.DrainRequest{Wait: &wait}).wait(t, limit); err == nil {
			t.Fatal("drained, though pod0 is in use")
		}
		time.Sleep(time.Minute)
		if st := n.engine.State().Drain; st == nil || st.Progress.Phase != routing.DrainEnded || !strings.Contains(st.Progress.Error, "pod0") {
			t.Errorf("shown is %+v", st)
		}
		if err := n.undrain("").wait(t, time.Second); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if st := n.engine.State().Drain; st != nil {
			t.Errorf("still shown is %+v", st)
		}
	})
}

// TestMarkerHeardLate: a node that has been drained all along, of which that is heard
// only after the claim, keeps also one with a lower identifier from it.
func TestMarkerHeardLate(t *testing.T) {
	bubble(t, 3, false, func(t *testing.T, w *world) {
		low, high := w.nodes[0], w.nodes[2]
		if err := high.drain(routing.DrainRequest{}).wait(t, limit); err != nil {
			t.Fatal(err)
		}
		low.engine.heard(high.name, false)
		low.engine.look()
		c := low.drain(routing.DrainRequest{})
		time.Sleep(time.Second)
		low.engine.heard(high.name, true)
		low.engine.look()
		for range 60 {
			time.Sleep(time.Second)
			if o := low.engine.now(); o.Step > routing.DrainClaim {
				t.Fatalf("both are taken out: %+v", o)
			}
		}
		var refused *routing.Refused
		if err := c.wait(t, time.Second); !errors.As(err, &refused) || !strings.Contains(err.Error(), high.name) {
			t.Errorf("it ended with %v", err)
		}
		low.free()
	})
}
