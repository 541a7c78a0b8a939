package drain_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

// cordon has the API say which nodes are cordoned, and every daemon follow and say so.
func (w *world) cordon(names ...string) {
	for _, n := range w.nodes {
		n.engine.alter(func(s *routing.State) {
			cfg := *s.Config.Config
			cfg.Drain.FollowCordon = true
			s.Config.Config = &cfg
			for _, name := range names {
				s.Inventory.Node(name).Cordoned = true
			}
			for i := range s.Peers {
				p := &s.Peers[i]
				name := p.Neighbor.Key.Peer
				if slices.Contains(names, name) && p.Session.State == routing.Established && !w.node(name).engine.unheeded.Load() {
					p.Notes = "0 1"
				}
			}
		})
	}
}

func (w *world) node(name string) *node {
	return w.nodes[slices.IndexFunc(w.nodes, func(n *node) bool { return n.name == name })]
}

func (n *node) phase() routing.DrainPhase {
	if st := n.engine.State().Drain; st != nil {
		return st.Progress.Phase
	}
	return ""
}

// TestCordon: a node that is cordoned drains itself, and comes back with its Node.
func TestCordon(t *testing.T) {
	bubble(t, 3, true, func(t *testing.T, w *world) {
		n := w.nodes[0]
		w.cordon("k8s-1")
		time.Sleep(time.Minute)
		if st := n.engine.State().Drain; st == nil || st.Progress.Phase != routing.DrainDone || !st.Request.Cordon || st.Request.Reason != "cordoned" {
			t.Fatalf("left with %+v", st)
		}
		n.reboot()
		w.cordon("k8s-1")
		time.Sleep(time.Minute)
		if n.phase() != routing.DrainDone {
			t.Errorf("after a reboot it is %q", n.phase())
		}
		// An API that is away does not say that it is uncordoned.
		n.engine.alter(func(s *routing.State) { s.Inventory.Stale = "connection refused" })
		time.Sleep(time.Minute)
		if n.phase() != routing.DrainDone {
			t.Errorf("without the API it is %q", n.phase())
		}
		w.cordon()
		time.Sleep(time.Minute)
		n.free()
	})
}

// TestTwoCordoned: one goes, the other says why it waits and follows.
func TestTwoCordoned(t *testing.T) {
	bubble(t, 3, true, func(t *testing.T, w *world) {
		w.cordon("k8s-1", "k8s-2")
		time.Sleep(time.Minute)
		first, second := w.nodes[0], w.nodes[1]
		if first.phase() != routing.DrainDone {
			first, second = second, first
		}
		if st := second.engine.State().Drain; first.phase() != routing.DrainDone || st == nil || st.Progress.Phase != routing.DrainWaiting ||
			!strings.Contains(st.Progress.Message, first.name+" is ") || second.engine.now().Step != routing.DrainNone {
			t.Fatalf("%s is %q, and %s %+v", first.name, first.phase(), second.name, st)
		}
		if n := strings.Count(second.log.String(), "phase=Waiting"); n == 0 || n > 8 {
			t.Errorf("%d lines say that it waits:\n%s", n, second.log)
		}
		w.cordon(second.name)
		time.Sleep(time.Minute)
		first.free()
		if second.phase() != routing.DrainDone {
			t.Errorf("the second is left %q", second.phase())
		}
		w.cordon()
		time.Sleep(time.Minute)
		second.free()
	})
}

// TestCordonedButNotDrained: a protected node that is cordoned and was undrained by
// hand, or has no daemon any more, keeps one that is cordoned after it from being
// drained; until it is uncordoned.
func TestCordonedButNotDrained(t *testing.T) {
	for _, dead := range []bool{false, true} {
		bubble(t, 2, true, func(t *testing.T, w *world) {
			a, b := w.nodes[0], w.nodes[1]
			w.cordon(a.name)
			time.Sleep(time.Minute)
			if err := a.undrain("").wait(t, time.Minute); err != nil {
				t.Fatal(err)
			}
			a.end() // and its daemon, if it runs again, still knows
			if !dead {
				a.start()
			}
			time.Sleep(time.Second)
			w.cordon(a.name, b.name)
			time.Sleep(5 * time.Minute)
			if st := b.engine.State().Drain; st == nil || st.Progress.Phase != routing.DrainWaiting || !strings.Contains(st.Progress.Message, a.name+" is protected") {
				t.Errorf("dead %v: the other is left with %+v", dead, st)
			}
			b.held(false, false)
			w.cordon(b.name)
			time.Sleep(time.Minute)
			if b.phase() != routing.DrainDone {
				t.Errorf("dead %v: with the first uncordoned the other is %q", dead, b.phase())
			}
		})
	}
}

// TestCordonOverridden: somebody who undrains a cordoned node means it, until it is
// cordoned anew; also after a restart.
func TestCordonOverridden(t *testing.T) {
	bubble(t, 2, true, func(t *testing.T, w *world) {
		n := w.nodes[0]
		w.cordon("k8s-1")
		time.Sleep(time.Minute)
		if err := n.undrain("").wait(t, time.Minute); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		n.end()
		n.start()
		time.Sleep(time.Minute)
		if n.phase() != "" || n.engine.now().Step != routing.DrainNone {
			t.Fatalf("drained again: %q", n.phase())
		}
		w.cordon()
		time.Sleep(time.Second)
		n.free()
		w.cordon("k8s-1")
		time.Sleep(time.Minute)
		if n.phase() != routing.DrainDone {
			t.Errorf("cordoned anew it is %q", n.phase())
		}
	})
}

// TestCordonNotSafe: it waits for the node that is not Ready, and goes when that is.
func TestCordonNotSafe(t *testing.T) {
	bubble(t, 2, true, func(t *testing.T, w *world) {
		n := w.nodes[0]
		follow := config()
		follow.Drain.FollowCordon, follow.Cluster = true, &routing.Cluster{Kubernetes: &routing.Kubernetes{}}
		cordoned := func(s *routing.State) {
			s.Config.Config = follow
			s.Inventory.Node("k8s-1").Cordoned = true
		}
		n.engine.alter(func(s *routing.State) { cordoned(s); s.Inventory.Node("k8s-2").NotReady = true })
		time.Sleep(30 * time.Second)
		if st := n.engine.State().Drain; st == nil || st.Progress.Phase != routing.DrainWaiting || !strings.Contains(st.Progress.Message, "k8s-2") {
			t.Errorf("it does not wait: %+v", st)
		}
		n.engine.alter(cordoned)
		time.Sleep(time.Minute)
		if n.phase() != routing.DrainDone {
			t.Errorf("it is %q", n.phase())
		}
	})
}

// TestCordonFails: a drain that fails half-way is not tried again at once.
func TestCordonFails(t *testing.T) {
	bubble(t, 2, true, func(t *testing.T, w *world) {
		n := w.nodes[0]
		n.traffic("pod0", 1000)
		w.cordon("k8s-1")
		time.Sleep(9 * time.Minute)
		if got := strings.Count(n.log.String(), "phase=RollingBack step=none") + strings.Count(n.log.String(), "phase=Undrained"); got != 1 {
			t.Errorf("in 9 minutes it was tried %d times:\n%s", got, n.log)
		}
		n.traffic("pod0", 0)
		time.Sleep(5 * time.Minute)
		if n.phase() != routing.DrainDone {
			t.Errorf("it is %q", n.phase())
		}
	})
}
