package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

// TestUnsynced: while the inventory has not been read everything may be added
// and nothing deleted.
func TestUnsynced(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		r.end()
		before := r.kernel.text()
		r.make()
		r.nodes.Store(&routing.Inventory{Source: "nodes file nodes.yaml", Stale: "not read yet"})
		r.kernel.taken()
		r.start(seedConfig(t))
		lines := strings.Count(r.log.String(), "level=WARN")
		r.wait(500 * time.Millisecond)
		if n := strings.Count(r.log.String(), "level=WARN"); n > lines {
			t.Errorf("at once:\n%s", r.log.String())
		}
		r.wait(time.Second)
		if !strings.Contains(r.log.String(), "reason=NotSynced") {
			t.Errorf("never logged:\n%s", r.log.String())
		}
		r.wait(time.Minute)
		if r.kernel.text() != before {
			t.Errorf("changed:\n%s", textOf(opsOf(r.kernel.taken())))
		}
		if s := r.state(); s.Pass.Synced || s.Health != routing.Degraded || r.condition("inventory", "NotSynced") == nil {
			t.Errorf("health %s, conditions %v", s.Health, s.Conditions)
		}
		r.setNodes(seedNodes(t)...)
		r.engine.Look()
		r.wait(100 * time.Millisecond)
		r.establish("k8s-2", "k8s-3")
		r.wait(100 * time.Millisecond)
		if r.kernel.text() != before || !r.state().Pass.Synced {
			t.Error("not as before")
		}
	})
}

// TestOtherSource: a new source that has not been read yet, as after a reload
// that names another file, ends no session.
func TestOtherSource(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		r.kernel.taken()
		r.speaker.taken()
		r.nodes.Store(&routing.Inventory{Source: "nodes file other.yaml", Stale: "not read yet"})
		r.engine.Look()
		r.wait(time.Second)
		if ops, orders := r.kernel.taken(), r.speaker.taken(); len(ops) > 0 || len(orders) > 0 {
			t.Errorf("%d orders, ops:\n%s", len(orders), textOf(opsOf(ops)))
		}
		if r.state().Pass.Synced {
			t.Error("synced")
		}
		r.setNodes(seedNodes(t)[:2]...)
		r.engine.Look()
		r.wait(time.Second)
		r.wantPath("k8s-2", v4, true, "in the new file")
		r.wantPath("k8s-3", v4, false, "not in the new file")
	})
}

func TestOwnNodeVanishes(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		before := r.kernel.text()
		r.kernel.taken()
		r.speaker.taken()
		r.setNodes(seedNodes(t)[1:]...)
		r.engine.Look()
		r.wait(time.Minute)
		if r.kernel.text() != before || len(r.speaker.taken()) > 0 {
			t.Errorf("changed:\n%s", textOf(opsOf(r.kernel.taken())))
		}
		if r.condition("inventory", "OwnNodeGone") == nil || r.state().Health != routing.Degraded {
			t.Errorf("conditions %v", r.state().Conditions)
		}
		// Others still come and go.
		r.setNodes(seedNodes(t)[1:2]...)
		r.engine.Look()
		r.wait(time.Second)
		r.wantPath("k8s-3", v4, false, "removed")
		r.wantPath("k8s-2", v4, true, "stays")
		r.setNodes(seedNodes(t)...)
		r.engine.Look()
		r.wait(time.Second)
		if r.condition("inventory", "") != nil {
			t.Errorf("conditions %v", r.state().Conditions)
		}
	})
}

// TestNoCluster: a configuration without nodes misses none.
func TestNoCluster(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		c := seedConfig(t)
		c.Cluster, c.BGP, c.Tables[0].Routes.Peers, c.Tables[0].Routes.Own, c.Tables[0].Routes.Default = nil, nil, nil, nil, nil
		r.nodes.Store(&routing.Inventory{Synced: true, Source: "none configured"})
		r.engine.Configure(c, routing.ConfigStatus{}, nil)
		r.wait(time.Second)
		if c := r.condition("inventory", ""); c != nil {
			t.Errorf("condition %v", c)
		}
		r.wantPath("k8s-2", v4, false, "no cluster")
	})
}

func TestMalformedAnnotations(t *testing.T) {
	for _, bad := range []string{"", "nonsense", "10.48.0", "fd00:48::2", "224.0.0.1", "::ffff:10.48.0.2", strings.Repeat("x", 100000)} {
		bubble(t, func(t *testing.T, r *rig) {
			r.converge()
			before := r.kernel.text()
			r.kernel.taken()
			r.speaker.taken()
			nodes := seedNodes(t)
			nodes[1].Annotations["net.renner.uno/pod0-v4"] = bad
			nodes[0].Annotations["net.renner.uno/egress-gw-v4"] = bad
			r.setNodes(nodes...)
			r.engine.Look()
			r.wait(time.Minute)
			if r.kernel.text() != before || len(r.speaker.taken()) > 0 {
				t.Errorf("%.20q changed:\n%s", bad, textOf(opsOf(r.kernel.taken())))
			}
			c := r.condition("node/k8s-2", "")
			if c == nil || len(c.Message) > 500 || !strings.Contains(c.Message, "10.48.0.2") {
				t.Errorf("%.20q: conditions %v", bad, r.state().Conditions)
			}
			if got := strings.Count(r.log.String(), "object=node/k8s-2"); got != 1 {
				t.Errorf("%.20q: reported %d times", bad, got)
			}
			// A good one counts at once.
			nodes = seedNodes(t)
			nodes[1].Annotations["net.renner.uno/pod0-v4"] = "10.48.0.22"
			r.setNodes(nodes...)
			r.engine.Look()
			r.wait(100 * time.Millisecond)
			orders := r.speaker.taken()
			if len(orders) == 0 || !slices.ContainsFunc(orders[len(orders)-1].Neighbors, func(n routing.Neighbor) bool { return n.Remote.String() == "10.48.0.22" }) {
				t.Errorf("%.20q: the mended value is not in use", bad)
			}
		})
	}
}

// TestStale: a nodes file that cannot be read any more keeps its nodes.
func TestStale(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		before := r.kernel.text()
		inv := *r.nodes.Load()
		inv.Stale = "nodes.yaml:3:1: error: nonsense"
		r.nodes.Store(&inv)
		r.engine.Look()
		r.wait(time.Second)
		if c := r.condition("inventory", "Stale"); r.kernel.text() != before || c == nil || !strings.Contains(c.Message, inv.Stale) || r.state().Health != routing.Degraded {
			t.Errorf("conditions %v", r.state().Conditions)
		}
	})
}
