package drain_test

import (
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

// sessions has a node's sessions be up or not, over links that are up or not.
func (n *node) sessions(mesh, router, link bool) {
	n.engine.alter(func(s *routing.State) {
		for _, name := range []string{"pod0", "ingress0"} {
			s.Kernel.Links = append(s.Kernel.Links, routing.Link{Name: name, Up: true, Carrier: link})
		}
		for i := range s.Peers {
			if p := &s.Peers[i]; p.Neighbor.Upstream && !router || !p.Neighbor.Upstream && !mesh {
				p.Session.State = routing.Active
			}
		}
	})
}

// TestUndrainWaitsForSessions: an undrain is over once the sessions that were there are
// there again and have been told, or after a while; then it says which are not.
func TestUndrainWaitsForSessions(t *testing.T) {
	for name, tc := range map[string]struct {
		mesh, router time.Duration // until the sessions are back; 0: at once, less: never
		cut          bool          // the links are down
		least, most  time.Duration
		want         string
	}{
		"there":       {0, 0, false, 0, time.Second, "everything is as before"},
		"soon there":  {3 * time.Second, 6 * time.Second, false, 6 * time.Second, 7 * time.Second, "everything is as before"},
		"no router":   {0, -1, false, 15 * time.Second, 16 * time.Second, "everything is put back, but there is no session with udm/ipv6 yet: "},
		"no mesh":     {-1, 0, false, 15 * time.Second, 16 * time.Second, "everything is put back, but there is no session with k8s-2/ipv4 yet: "},
		"none at all": {-1, -1, false, 15 * time.Second, 16 * time.Second, "everything is put back, but there is no session with udm/ipv6, k8s-2/ipv4 yet: "},
		"links down":  {-1, -1, true, 0, time.Second, "everything is put back, but there is no session with udm/ipv6, k8s-2/ipv4 yet: they are told once there is"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, true, func(t *testing.T, w *world) {
				n := w.nodes[0]
				n.mustDrain(routing.DrainRequest{})
				n.sessions(tc.mesh == 0, tc.router == 0, !tc.cut)
				time.Sleep(time.Minute)
				begin := time.Now()
				c := n.undrain("")
				if tc.mesh > 0 {
					time.Sleep(tc.mesh)
					n.sessions(true, false, true)
					time.Sleep(tc.router - tc.mesh)
					n.sessions(true, true, true)
				}
				err := c.wait(t, time.Minute)
				if took := time.Since(begin); err != nil || took < tc.least || took > tc.most {
					t.Errorf("after %v: %v", took, err)
				}
				if last := c.last().Progress; last.Phase != routing.DrainEnded || last.Error != "" || !strings.HasPrefix(last.Message, tc.want) {
					t.Errorf("it ends with %+v", last)
				}
				n.sessions(true, true, true)
				n.free()
			})
		})
	}
}

// TestUndrainPeersBeforeRouters: routers are told again once the mesh has been, and not
// before what it is told has arrived there.
func TestUndrainPeersBeforeRouters(t *testing.T) {
	bubble(t, 2, true, func(t *testing.T, w *world) {
		n := w.nodes[0]
		n.mustDrain(routing.DrainRequest{})
		n.engine.alter(func(s *routing.State) {
			if s.Drain != nil && s.Drain.Progress.Step < routing.DrainMesh {
				s.Peers[0].Session.Unsent = 7
			}
		})
		told := time.Duration(0)
		begin := time.Now()
		n.engine.hook(func(order routing.Draining) {
			if order.Step < routing.DrainUpstream && told == 0 {
				told = time.Since(begin)
			}
		})
		time.AfterFunc(3*time.Second, func() { n.engine.alter(nil) })
		if err := n.undrain("").wait(t, time.Minute); err != nil {
			t.Error(err)
		}
		if told < 3*time.Second || told > 4*time.Second {
			t.Errorf("routers are told after %v, peers have heard after 3s", told)
		}
	})
}

// TestUndrainConfirmsEachStep: no step is taken, and the end not told, before the engine
// has carried out the one before, however long that takes.
func TestUndrainConfirmsEachStep(t *testing.T) {
	for _, step := range []routing.DrainStep{routing.DrainMesh, routing.DrainUpstream, routing.DrainClaim} {
		for what, undone := range map[string]func(*routing.State){
			"a route":     func(s *routing.State) { s.Pending = []routing.Op{{Verb: routing.Add}} },
			"the speaker": func(s *routing.State) { s.Speaker.Confirmed = false },
		} {
			bubble(t, 2, true, func(t *testing.T, w *world) {
				n := w.nodes[0]
				n.mustDrain(routing.DrainRequest{})
				n.engine.alter(func(s *routing.State) {
					if s.Drain != nil && s.Drain.Progress.Step == step {
						undone(s)
					}
				})
				time.AfterFunc(20*time.Second, func() { n.engine.alter(nil) })
				begin, next := time.Now(), time.Duration(0)
				n.engine.hook(func(order routing.Draining) {
					if order.Step < step && next == 0 {
						next = time.Since(begin)
					}
				})
				if err := n.undrain("").wait(t, time.Minute); err != nil {
					t.Error(err)
				}
				if ended := time.Since(begin); next < 20*time.Second || ended < 20*time.Second {
					t.Errorf("%s of step %q is missing for 20s: the next is taken after %v, and it has ended after %v", what, step, next, ended)
				}
			})
		}
	}
}

// TestUndrainedUnchanged: a drain that is refused before anything has changed waits for
// no session.
func TestUndrainedUnchanged(t *testing.T) {
	bubble(t, 2, true, func(t *testing.T, w *world) {
		n := w.nodes[0]
		n.engine.hook(func(order routing.Draining) {
			if order.Step == routing.DrainClaim {
				n.engine.alter(func(s *routing.State) {
					s.Inventory.Node("k8s-2").NotReady = true
					s.Kernel.Links = []routing.Link{{Name: "pod0", Up: true, Carrier: true}}
					s.Peers[0].Session.State = routing.Active
				})
			}
		})
		begin := time.Now()
		if err := n.drain(routing.DrainRequest{}).wait(t, time.Minute); err == nil || time.Since(begin) > 5*time.Second {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
	})
}
