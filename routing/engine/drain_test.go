package engine_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/engine"
)

// TestDrainOrder: an order is carried out at once, and the states that it made
// show the very status that came with it.
func TestDrainOrder(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		before := &routing.DrainStatus{Progress: routing.DrainProgress{Phase: routing.DrainGoing}}
		r.engine.SetDrain(routing.Draining{Step: routing.DrainPaths, Phase: routing.DrainGoing}, before)
		r.start(seedConfig(t))
		r.establish("k8s-2", "k8s-3")
		r.wait(200 * time.Millisecond)
		if s := r.state(); s.Drain != before || s.Health != routing.DrainingState || !s.Pass.Synced || len(s.Pending) > 0 {
			t.Errorf("the first states show %+v, %s, %+v", s.Drain, s.Health, s.Pass)
		}
		r.wantPath("k8s-2", v4, false, "drained")
		after := &routing.DrainStatus{Progress: routing.DrainProgress{Phase: routing.DrainDone}}
		passes := r.state().Pass.Passes
		r.engine.SetDrain(routing.Draining{Step: routing.DrainPaths, Phase: routing.DrainDone}, after)
		r.wait(20 * time.Millisecond)
		if s := r.state(); s.Drain != after || s.Health != routing.Drained || s.Pass.Passes == passes {
			t.Errorf("after 20 ms the state shows %+v, %d passes later", s.Drain, s.Pass.Passes-passes)
		}
		// A kernel that cannot be read is no proof of anything.
		r.kernel.set(func(k *fakeKernel) { k.dumpErr = os.ErrPermission })
		r.engine.LookAndDump()
		r.engine.SetDrain(routing.Draining{}, nil)
		r.wait(200 * time.Millisecond)
		if s := r.state(); s.Drain != nil || s.Pass.Error == "" {
			t.Errorf("the kernel cannot be read, and the state shows %+v, %q", s.Drain, s.Pass.Error)
		}
		r.kernel.set(func(k *fakeKernel) { k.dumpErr = nil })
		r.wait(time.Second)
	})
}

// TestDrainConfirmed: while a drain waits for the speaker, it is asked again and
// again whether it has carried out its order.
func TestDrainConfirmed(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		r.speaker.hang(true)
		r.engine.SetDrain(routing.Draining{Step: routing.DrainMesh}, &routing.DrainStatus{})
		r.setNodes(seedNodes(t)[:2]...) // an order that the speaker does not confirm
		r.engine.Look()
		r.wait(3 * time.Second)
		if r.state().Speaker.Confirmed {
			t.Fatal("confirmed by a speaker that hangs")
		}
		r.speaker.hang(false)
		r.wait(300 * time.Millisecond)
		if !r.state().Speaker.Confirmed {
			t.Error("the state does not show that the speaker has confirmed")
		}
	})
}

// TestDrainedRemembered: a start knows whose marker was seen.
func TestDrainedRemembered(t *testing.T) {
	dir := t.TempDir()
	text := `{"version": 1, "protocols": [148], "tables": [47], "priorities": [1000], "links": {}, "drained": ["k8s-2"]}`
	if err := os.WriteFile(filepath.Join(dir, "ledger.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := engine.LoadLedger(dir)
	if err != nil || len(l.Drained) != 1 || l.Drained[0] != "k8s-2" {
		t.Errorf("ledger %+v, %v", l, err)
	}
}

// TestMarkerRemembered: a node whose marker was heard is drained until it is
// withdrawn, also while its session is away and through a restart of ours.
func TestMarkerRemembered(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		id := routeAddr("10.48.0.2")
		say := func(marked bool, notes routing.Notes) {
			for _, f := range routing.Families {
				r.session("k8s-2", f, func(s *routing.Session) {
					r.up(s, true)
					s.RouterID = id
					if marked {
						s.Paths = append(s.Paths, routing.Path{Prefix: routing.DrainMarker(id, f), NextHop: hopOf("k8s-2", f), NoAdvertise: true, Notes: notes})
					}
				})
			}
			r.wait(300 * time.Millisecond)
		}
		drained := func(want routing.DrainPhase, when string) {
			t.Helper()
			got := routing.DrainPhase("")
			if p := r.state().Plan; slices.Contains(p.Drained, "k8s-2") {
				got = p.DrainPhase("k8s-2")
			}
			if got != want {
				t.Errorf("%s: it is %q, want %q", when, got, want)
			}
		}
		r.converge()
		say(true, "")
		drained(routing.DrainDone, "marked")
		say(true, "2")
		drained(routing.DrainGoing, "not drained yet")
		for _, f := range routing.Families {
			r.down("k8s-2", f, routing.CauseConnection)
		}
		r.wait(time.Minute)
		drained(routing.DrainGoing, "its session is away")
		r.end()
		r.make()
		r.start(seedConfig(t))
		r.wait(time.Minute)
		drained(routing.DrainGoing, "we have been restarted")
		say(false, "")
		drained("", "back without a marker")
		r.end()
		r.make()
		r.start(seedConfig(t))
		drained("", "restarted again")
	})
}
