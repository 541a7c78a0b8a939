package drain_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

// TestFailure: whatever fails half-way, everything is put back in the reverse
// order, and the caller is told why.
func TestFailure(t *testing.T) {
	wait := 40 * time.Second
	for _, tc := range []struct {
		name string
		do   func(n *node)
		want string
		late bool
	}{
		{"not quiet", func(n *node) { n.traffic("pod0", 50) }, "pod0 has received 50.0 and sent 50.0 packets per second, at most 12.0 may pass", true},
		{"not sent", func(n *node) {
			n.engine.alter(func(s *routing.State) { s.Peers[0].Session.Unsent = 120 })
		}, "has not all reached k8s-2/ipv4", true},
		{"kernel", func(n *node) {
			n.engine.alter(func(s *routing.State) {
				if s.Drain != nil && n.engine.order.Step == routing.DrainDefault {
					s.Pass.Error, s.Pending = "delete route default: operation not permitted", []routing.Op{{}}
				}
			})
		}, "operation not permitted", false},
		{"speaker", func(n *node) {
			n.engine.alter(func(s *routing.State) { s.Speaker.Confirmed = n.engine.order.Step != routing.DrainMesh })
		}, "the speaker has not confirmed it", true},
		{"held", func(n *node) {
			n.engine.alter(func(s *routing.State) {
				if n.engine.order.Step == routing.DrainPaths {
					s.Plan.Hold = "the inventory is away"
				}
			})
		}, "nothing may be taken out: the inventory is away", true},
		{"counters", func(n *node) { n.readErr = errors.New("no buffer") }, "no buffer", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, kube := range []bool{false, true} {
				bubble(t, 2, kube, func(t *testing.T, w *world) {
					n := w.nodes[0]
					tc.do(n)
					c := n.drain(routing.DrainRequest{Wait: &wait})
					err := c.wait(t, 2*time.Minute)
					if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "put back") {
						t.Errorf("it ended with %v", err)
					}
					if errors.Is(err, context.DeadlineExceeded) != tc.late {
						t.Errorf("too late is %v: %v", !tc.late, err)
					}
					if p := c.last().Progress; p.Phase != routing.DrainEnded || !strings.Contains(p.Error, tc.want) {
						t.Errorf("the last report is %+v", p)
					}
					got := n.engine.steps()
					top := slices.Index(got, slices.Max(got))
					if !slices.IsSorted(got[:top+1]) || !slices.IsSortedFunc(got[top:], func(a, b routing.DrainStep) int { return int(b) - int(a) }) {
						t.Errorf("steps %v", got)
					}
					n.free()
					n.engine.alter(nil)
					n.traffic("pod0", 0)
					n.mu.Lock()
					n.readErr = nil
					n.mu.Unlock()
					time.Sleep(time.Second)
					if err := w.nodes[1].drain(routing.DrainRequest{}).wait(t, limit); err != nil {
						t.Errorf("the next one: %v", err)
					}
				})
			}
		})
	}
}

// TestPassingTrouble: what is over soon is no failure.
func TestPassingTrouble(t *testing.T) {
	bubble(t, 2, true, func(t *testing.T, w *world) {
		n := w.nodes[0]
		begin := time.Now()
		n.engine.alter(func(s *routing.State) {
			if d := time.Since(begin); d > 10*time.Second && d < 13*time.Second {
				s.Pass.Error = "dump kernel: interrupted"
			}
			s.Speaker.Confirmed = time.Since(begin) > 8*time.Second
		})
		n.traffic("ingress0", 500)
		c := n.drain(routing.DrainRequest{})
		for range 30 {
			time.Sleep(time.Second)
			n.engine.look()
		}
		n.traffic("ingress0", 3)
		if err := c.wait(t, limit); err != nil {
			t.Error(err)
		}
	})
}

// TestUndrainWaits: each step back is confirmed before the next, however long that
// takes; and it is said what is waited for.
func TestUndrainWaits(t *testing.T) {
	bubble(t, 2, false, func(t *testing.T, w *world) {
		n := w.nodes[0]
		if err := n.drain(routing.DrainRequest{}).wait(t, limit); err != nil {
			t.Fatal(err)
		}
		n.engine.alter(func(s *routing.State) {
			if n.engine.order.Step == routing.DrainMesh {
				s.Pending = []routing.Op{{Verb: routing.Add}}
			}
		})
		c := n.undrain("")
		time.Sleep(time.Minute)
		if got := n.engine.now().Step; got != routing.DrainMesh || !strings.Contains(c.last().Progress.Message, "1 changes are still to be made") {
			t.Errorf("ordered %s, told %+v", got, c.last().Progress)
		}
		n.engine.alter(nil)
		if err := c.wait(t, time.Minute); err != nil {
			t.Error(err)
		}
		n.free()
	})
}

// TestUndrainedHasLeft: an undrain is over once all that it said has reached every
// peer, so that the next node can be drained at once; a peer that takes nothing holds
// it up for a while only, and is named.
func TestUndrainedHasLeft(t *testing.T) {
	for _, kube := range []bool{false, true} {
		for _, never := range []bool{false, true} {
			bubble(t, 3, kube, func(t *testing.T, w *world) {
				n := w.nodes[0]
				n.mustDrain(routing.DrainRequest{})
				var said time.Time
				n.engine.alter(func(s *routing.State) {
					if s.Drain == nil || s.Drain.Progress.Phase != routing.DrainUndoing || n.engine.order.Step > routing.DrainClaim {
						return
					}
					// What a pass shows of the sessions is older than its orders.
					if !said.IsZero() && (never || time.Since(said) < 3*time.Second) {
						s.Peers[1].Session.Unsent = 7
					}
					if said.IsZero() {
						said = time.Now()
						time.AfterFunc(3*time.Second, n.engine.look)
					}
				})
				begin := time.Now()
				c := n.undrain("")
				err := c.wait(t, time.Minute)
				took := time.Since(begin)
				if p := c.last().Progress; err != nil || strings.Contains(p.Message, "has not all reached k8s-3/ipv4 yet (7)") != never || took < 3*time.Second || took > 7*time.Second {
					t.Errorf("kube %v: after %v: %v, %+v", kube, took, err, p)
				}
				n.engine.alter(nil)
				n.free()
			})
		}
	}
}

// TestNextAtOnce: as soon as a node is undrained another may be drained, which has
// been told, but has yet to hear of it.
func TestNextAtOnce(t *testing.T) {
	for _, late := range []time.Duration{500 * time.Millisecond, 2 * time.Second} {
		bubble(t, 2, false, func(t *testing.T, w *world) {
			a, b := w.nodes[0], w.nodes[1]
			b.engine.heard(a.name, true)
			b.engine.look()
			time.AfterFunc(late, func() { b.engine.heard(a.name, false); b.engine.look() })
			ask := &call{}
			asked := b.drainer.Drain(t.Context(), routing.DrainRequest{}, true, ask.report)
			time.Sleep(5 * time.Second)
			b.engine.heard(a.name, true)
			b.engine.look()
			time.AfterFunc(late, func() { b.engine.heard(a.name, false); b.engine.look() })
			err := b.drain(routing.DrainRequest{}).wait(t, limit)
			if refused := new(*routing.Refused); errors.As(err, refused) != (late > time.Second) || errors.As(asked, refused) != (late > time.Second) {
				t.Errorf("heard %v late: asked %v, drained %v", late, asked, err)
			}
		})
	}
}

// TestDiskFails: what cannot be remembered is not begun, and what has begun is put
// back, also where that cannot be remembered.
func TestDiskFails(t *testing.T) {
	for _, after := range []time.Duration{0, 3 * time.Second, 8 * time.Second, 16*time.Second + 65*time.Millisecond} {
		bubble(t, 2, true, func(t *testing.T, w *world) {
			n := w.nodes[0]
			spoil := func() {
				// A file in the folder's place refuses also root.
				if err := errors.Join(os.RemoveAll(n.dir), os.WriteFile(n.dir, nil, 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			if after == 0 {
				spoil()
			}
			c := n.drain(routing.DrainRequest{})
			if after > 0 {
				time.Sleep(after)
				spoil()
			}
			err := c.wait(t, limit)
			if after < 16*time.Second && (err == nil || !strings.Contains(err.Error(), "save drain")) {
				t.Errorf("after %v: %v", after, err)
			}
			if err == nil {
				c = n.undrain("")
				err = c.wait(t, limit)
				if err != nil {
					t.Error(err)
				}
			}
			if after > 0 && !strings.Contains(c.last().Progress.Message, "a restart would take it out again") {
				t.Errorf("after %v nobody is told that it could not be saved: %+v", after, c.last().Progress)
			}
			if err := errors.Join(os.Remove(n.dir), os.Mkdir(n.dir, 0o700)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			n.free()
			if after > 0 && !strings.Contains(n.log.String(), "drain not forgotten") {
				t.Errorf("log:\n%s", n.log)
			}
		})
	}
}
