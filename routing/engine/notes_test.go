package engine_test

import (
	"slices"
	"testing"
	"time"

	"netclass.dev/routing"
)

// TestNotesOfRouters: the mesh is told that this node announces to a router once the
// session is up, also where nothing may come from that router, and no more when it ends.
func TestNotesOfRouters(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.speaker.away = true
		r.start(seedConfig(t))
		r.establish("k8s-2", "k8s-3")
		note := routing.NoteCommunity(64512, routing.NoteRouter(routing.SessionKey{Peer: "udm", Family: v4}))
		last := &routing.Speak{}
		noted := func(want bool, when string) {
			t.Helper()
			r.wait(time.Second)
			if taken := r.speaker.taken(); len(taken) > 0 {
				last = taken[len(taken)-1]
			}
			mesh := 0
			for _, a := range last.Announce {
				if a.To == "" {
					mesh++
					if got := slices.Contains(a.Communities, note); got != want {
						t.Errorf("%s: %s is announced with %q", when, a.Prefix, a.Communities)
					}
				}
			}
			if mesh == 0 {
				t.Errorf("%s: nothing is announced to the mesh", when)
			}
		}
		noted(false, "no session yet")
		r.session("udm", v4, func(s *routing.Session) { r.up(s, true); s.RouterID = hopOf("k8s-9", v4) })
		noted(true, "session up")
		r.down("udm", v4, routing.CauseHoldTimer)
		noted(false, "session down")
	})
}

// TestNotesOfPeers: what a node says of itself is shown while its session is up.
func TestNotesOfPeers(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start(seedConfig(t))
		r.establish("k8s-2", "k8s-3")
		r.session("k8s-2", v4, func(s *routing.Session) { s.Paths[0].Notes = "0 7" })
		r.wait(time.Second)
		if n := r.peer("k8s-2", v4).Notes; n != "0 7" || !n.Has(7) || n.Has(1) || n.Has(70) {
			t.Errorf("notes %q", n)
		}
		if n := r.peer("k8s-3", v4).Notes; n != "" {
			t.Errorf("k8s-3 has said %q", n)
		}
		r.down("k8s-2", v4, routing.CauseConnection) // its paths are held
		r.wait(time.Second)
		if n := r.peer("k8s-2", v4).Notes; n != "" {
			t.Errorf("after the session %q", n)
		}
	})
}
