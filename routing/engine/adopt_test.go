package engine_test

import (
	"testing"
	"time"

	"netclass.dev/routing"
)

// TestAdoption: after a restart what the kernel has of a peer stands in for it
// until it has said all, or the restart time is over, or it is found dead.
func TestAdoption(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		r.end()
		r.speaker = &fakeSpeaker{}
		r.make()
		r.kernel.die(hopOf("k8s-3", v4), true)
		r.kernel.taken()
		r.start(seedConfig(t))
		if got := r.kernel.taken(); len(got) > 0 {
			t.Errorf("a restart changed\n%s", textOf(opsOf(got)))
		}
		orders := r.speaker.taken()
		if len(orders) != 1 || !orders[0].Restarting || len(orders[0].Announce) < 4 {
			t.Errorf("orders after a restart: %+v", orders)
		}
		r.session("k8s-2", v6, func(s *routing.Session) { r.up(s, true); s.Paths = nil })
		r.wait(100 * time.Millisecond)
		r.wantPath("k8s-2", v6, false, "it says it has none")
		r.wait(3700 * time.Millisecond)
		r.wantPath("k8s-3", v4, false, "dead")
		r.wantPath("k8s-3", v6, true, "alive")
		r.wantPath("k8s-2", v4, true, "alive")
		r.wait(5800 * time.Millisecond) // 9.8 s after the start
		r.wantPath("k8s-2", v4, true, "within the restart time")
		if r.state().Pass.Synced {
			t.Error("synced before the peers are")
		}
		r.wait(500 * time.Millisecond)
		r.wantPath("k8s-2", v4, false, "after the restart time")
		if !r.state().Pass.Synced {
			t.Error("not synced")
		}
	})
}

// TestFirstStart: no R bit when the kernel had nothing of ours.
func TestFirstStart(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		for _, o := range r.speaker.taken() {
			if o.Restarting {
				t.Error("a first start says that it has restarted")
			}
		}
	})
}

// TestFirstOrderNamesPeers: only a speaker's first order says that we have
// restarted, so that it waits for the nodes, but not for ever.
func TestFirstOrderNamesPeers(t *testing.T) {
	for _, after := range []time.Duration{time.Second, time.Minute} {
		bubble(t, func(t *testing.T, r *rig) {
			r.converge()
			r.end()
			r.speaker = &fakeSpeaker{}
			r.make()
			r.nodes.Store(&routing.Inventory{Source: "nodes file nodes.yaml", Stale: "not read yet"})
			r.start(seedConfig(t))
			r.wait(after)
			early := r.speaker.taken()
			if late := after > 10*time.Second; len(early) > 0 != late {
				t.Errorf("%s after the start: %d orders", after, len(early))
			} else if !late {
				r.setNodes(seedNodes(t)...)
				r.engine.Look()
				r.wait(time.Second)
				if o := r.speaker.taken(); len(o) != 1 || !o[0].Restarting || len(o[0].Neighbors) != 6 {
					t.Errorf("orders %+v", o)
				}
			}
			r.wantPath("k8s-2", v4, true, "kept")
		})
	}
}

// TestNewPeerIsNotHeld: nothing is held of a peer that never said anything.
func TestNewPeerIsNotHeld(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start(seedConfig(t))
		if p := r.peer("k8s-2", v4); p.Held || !p.HeldTill.IsZero() {
			t.Errorf("held: %+v", p)
		}
	})
}

// TestRestartOff: with graceful restart off nothing is taken up at the start.
func TestRestartOff(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		r.end()
		r.speaker = &fakeSpeaker{}
		r.make()
		r.start(seedConfig(t, "asn: 64512", "asn: 64512\n  gracefulRestart: {restartTime: 0s}"))
		r.wantPath("k8s-2", v4, false, "after the start")
	})
}
