package drain_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

const otherName = "netclass/drain"

// held checks which leases a node holds.
func (n *node) held(first, other bool) {
	n.w.t.Helper()
	for l, want := range map[*lease]bool{n.w.lease: first, n.w.other: other} {
		if got := n.holds(l); got != want {
			n.w.t.Errorf("%s holds lease %s: %v (%q)", n.name, l, got, l.seen().Holder)
		}
	}
}

// TestLeaseRenamed: a configuration that comes to name another lease while this node
// is drained, at any time, and with a restart afterwards or none: both are held until
// it is undrained, so that no other node is drained by either; then neither is.
func TestLeaseRenamed(t *testing.T) {
	for _, after := range []time.Duration{time.Millisecond, 5 * time.Second, 12 * time.Second, 17 * time.Second, time.Minute} {
		for _, restart := range []bool{false, true} {
			bubble(t, 3, true, func(t *testing.T, w *world) {
				n, old, new := w.nodes[0], w.nodes[1], w.nodes[2]
				n.drain(routing.DrainRequest{})
				time.Sleep(after)
				n.move(true)
				time.Sleep(time.Second)
				new.move(true)
				if restart {
					n.reboot()
				}
				time.Sleep(time.Minute)
				n.held(true, true)
				st := n.engine.State().Drain
				if st == nil || st.Progress.Phase != routing.DrainDone || !strings.HasPrefix(st.Lock, "lease netclass/drain, and kube-system/netclass-drain until") {
					t.Fatalf("moved after %v it is left with %+v", after, st)
				}
				var refused *routing.Refused
				for _, o := range []*node{old, new} {
					if err := o.drain(routing.DrainRequest{}).wait(t, time.Minute); !errors.As(err, &refused) || !strings.Contains(err.Error(), "k8s-1 is drained") {
						t.Errorf("%s is told %v", o.name, err)
					}
				}
				if restart {
					n.reboot()
				}
				if err := n.undrain("").wait(t, time.Minute); err != nil {
					t.Error(err)
				}
				n.held(false, false)
				n.free()
				n.reboot()
				time.Sleep(time.Minute)
				n.move(false)
				time.Sleep(time.Minute)
				n.free()
			})
		}
	}
}

// TestLeaseRenamedUndraining: what is not back yet keeps others from draining by the
// new lease too; and what cannot be freed at once is freed later, by each name.
func TestLeaseRenamedUndraining(t *testing.T) {
	for _, restart := range []bool{false, true} {
		bubble(t, 2, true, func(t *testing.T, w *world) {
			n := w.nodes[0]
			n.mustDrain(routing.DrainRequest{})
			n.engine.alter(func(s *routing.State) { s.Pending = []routing.Op{{Verb: routing.Add}} })
			c := n.undrain("")
			time.Sleep(time.Second)
			n.move(true)
			time.Sleep(10 * time.Second)
			n.held(true, true)
			w.lease.failing(func(int, bool) (before, after error) { return errAway, nil })
			n.engine.alter(nil)
			if err := c.wait(t, time.Minute); err != nil || !strings.Contains(c.last().Lock, "connection refused") {
				t.Errorf("%v, %+v", err, c.last())
			}
			n.held(true, false)
			if restart {
				n.reboot()
			}
			time.Sleep(time.Minute)
			w.lease.failing(nil)
			time.Sleep(10 * time.Second)
			n.held(false, false)
			n.free()
		})
	}
}

// TestNewLeaseTaken: where another node has the lease that is named now, a drain that
// is under way goes back, and one that is done says so and keeps what it has.
func TestNewLeaseTaken(t *testing.T) {
	bubble(t, 2, true, func(t *testing.T, w *world) {
		n := w.nodes[0]
		theirs := func(l *routing.DrainLease) { l.Holder = "uid-k8s-2/theirs" }
		c := n.drain(routing.DrainRequest{})
		time.Sleep(5 * time.Second)
		w.other.force(theirs)
		n.move(true)
		if err := c.wait(t, time.Minute); err == nil || !strings.Contains(err.Error(), "the configuration names another lease now, "+otherName) || !strings.Contains(err.Error(), "k8s-2 holds") {
			t.Errorf("under way it ended with %v", err)
		}
		n.held(false, false)
		n.free()

		n.move(false)
		w.other.force(func(l *routing.DrainLease) { l.Holder = "" })
		n.mustDrain(routing.DrainRequest{})
		w.other.force(theirs)
		n.move(true)
		time.Sleep(time.Minute)
		if st := n.engine.State().Drain; !strings.HasPrefix(st.Lock, "lease kube-system/netclass-drain only: "+otherName) || !strings.Contains(st.Lock, "k8s-2 holds") {
			t.Errorf("its lock is %q", st.Lock)
		}
		n.held(true, false)
		// Both are free again: it has both.
		w.other.force(func(l *routing.DrainLease) { l.Holder = "" })
		time.Sleep(time.Minute)
		n.held(true, true)
		// The old one is taken from it: it says so.
		w.lease.force(theirs)
		time.Sleep(time.Minute)
		if st := n.engine.State().Drain; st.Lock != "lease "+otherName {
			t.Errorf("its lock is %q", st.Lock)
		}
		if err := n.undrain("").wait(t, time.Minute); err != nil {
			t.Error(err)
		}
		n.held(false, false)
		if l := w.lease.seen(); l.Holder != "uid-k8s-2/theirs" {
			t.Errorf("it has freed another's lease: %q", l.Holder)
		}
	})
}

// TestLockRenamed: where the configuration comes to name a nodes file instead of the
// API while this node is drained, or the API instead of a nodes file, others are kept
// from draining by both, and by neither once it is undrained.
func TestLockRenamed(t *testing.T) {
	for _, kube := range []bool{false, true} {
		for _, after := range []time.Duration{5 * time.Second, time.Minute} {
			bubble(t, 3, true, func(t *testing.T, w *world) {
				n := w.nodes[0]
				for _, o := range []*node{n, w.nodes[1]} {
					o.file(kube)
				}
				w.nodes[2].file(!kube)
				n.drain(routing.DrainRequest{})
				time.Sleep(after)
				n.file(!kube)
				time.Sleep(time.Minute)
				n.held(true, false)
				if st := n.engine.State().Drain; st.Progress.Phase != routing.DrainDone || !strings.HasPrefix(st.Lock, "lease kube-system/netclass-drain") || !strings.HasSuffix(st.Lock, "; marker 10.48.0.1/32 in BGP") {
					t.Errorf("kube %v, after %v it is left with %+v", kube, after, st)
				}
				var refused *routing.Refused
				for _, o := range w.nodes[1:] {
					if err := o.drain(routing.DrainRequest{}).wait(t, time.Minute); !errors.As(err, &refused) || !strings.Contains(err.Error(), "k8s-1 is ") {
						t.Errorf("%s is told %v", o.name, err)
					}
				}
				n.reboot()
				time.Sleep(time.Minute)
				if err := n.undrain("").wait(t, time.Minute); err != nil {
					t.Error(err)
				}
				n.file(false)
				time.Sleep(time.Minute)
				n.held(false, false)
				n.free()
			})
		}
	}
}

// TestDrainedAgainBeforeFreed: a lease that an undrain could not free is freed by the
// next one, also when another was taken in between.
func TestDrainedAgainBeforeFreed(t *testing.T) {
	bubble(t, 2, true, func(t *testing.T, w *world) {
		n := w.nodes[0]
		n.mustDrain(routing.DrainRequest{})
		w.lease.failing(func(int, bool) (before, after error) { return errAway, nil })
		if err := n.undrain("").wait(t, time.Minute); err != nil {
			t.Error(err)
		}
		n.move(true)
		n.mustDrain(routing.DrainRequest{})
		n.held(true, true)
		n.reboot()
		w.lease.failing(nil)
		time.Sleep(time.Minute)
		if err := n.undrain("").wait(t, time.Minute); err != nil {
			t.Error(err)
		}
		n.held(false, false)
		n.free()
	})
}
