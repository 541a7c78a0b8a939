package drain_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

// killAt has the process of a node die at its nth order: before the engine has
// taken it, which is between disk and order, or just after.
func (n *node) killAt(nth int, before bool) {
	n.engine.hook(func(o routing.Draining) {
		if nth--; nth != 0 {
			return
		}
		if !before {
			n.engine.mu.Lock()
			n.engine.order = o
			n.engine.mu.Unlock()
		}
		kill()
	})
}

// TestCrash: killed at every order of drain and undrain, before it is given or
// after, the next process goes on with what was begun. That is ordered before the
// engine's first pass, also on a kernel that has been booted anew.
func TestCrash(t *testing.T) {
	for _, kube := range []bool{false, true} {
		orders := len(up) + len(down)
		for nth := 1; nth <= orders; nth++ {
			for _, before := range []bool{true, false} {
				t.Run(fmt.Sprintf("kube %v, order %d, before %v", kube, nth, before), func(t *testing.T) {
					bubble(t, 2, kube, func(t *testing.T, w *world) { crash(t, w.nodes[0], nth, before) })
				})
			}
		}
	}
}

func crash(t *testing.T, n *node, nth int, before bool) {
	undrains := nth > len(up)
	if undrains {
		if err := n.drain(routing.DrainRequest{}).wait(t, limit); err != nil {
			t.Fatal(err)
		}
		n.killAt(nth-len(up), before)
		n.undrain("")
	} else {
		n.killAt(nth, before)
		n.drain(routing.DrainRequest{})
	}
	time.Sleep(time.Minute)
	phase, step, there := n.onDisk()
	if !there && nth < len(up)+len(down) {
		t.Fatal("nothing is on disk")
	}
	n.engine.hook(nil)
	n.end()
	n.boot()
	first := routing.DrainStep(255)
	n.engine.hook(func(o routing.Draining) {
		if first == 255 {
			first = o.Step
		}
	})
	n.start()
	if there && first != step {
		t.Errorf("on disk is %s, %s, and before the first pass %s is ordered", phase, step, first)
	}
	time.Sleep(time.Minute)
	if undrains {
		n.free()
		return
	}
	if got := n.engine.now(); got.Step != routing.DrainPaths || n.engine.State().Drain.Progress.Phase != routing.DrainDone {
		t.Errorf("after the crash at %s, %s it is left with %+v, %+v", phase, step, got, n.engine.State().Drain)
	}
	if err := n.undrain("").wait(t, limit); err != nil {
		t.Error(err)
	}
	n.free()
}

// TestRestarts: SIGTERM at any time, and a reboot, change nothing of what is under
// way.
func TestRestarts(t *testing.T) {
	for after := time.Second; after < 25*time.Second; after += 1100 * time.Millisecond {
		bubble(t, 2, after/time.Second%2 == 0, func(t *testing.T, w *world) {
			n := w.nodes[0]
			c := n.drain(routing.DrainRequest{})
			time.Sleep(after)
			n.reboot()
			if err := c.wait(t, time.Second); err != nil && !strings.Contains(err.Error(), "goes on once it runs again") {
				t.Errorf("the caller was told %v", err)
			}
			time.Sleep(time.Minute)
			if st := n.engine.State().Drain; st == nil || st.Progress.Phase != routing.DrainDone {
				t.Errorf("restarted after %v it is left with %+v", after, st)
			}
			n.undrain("")
			time.Sleep(30 * time.Millisecond)
			n.reboot()
			time.Sleep(time.Minute)
			n.free()
		})
	}
}

// TestRollBackSurvives: a drain that failed, and crashed while it was put back.
func TestRollBackSurvives(t *testing.T) {
	bubble(t, 2, true, func(t *testing.T, w *world) {
		n := w.nodes[0]
		n.traffic("pod0", 1000)
		orders := 0
		n.engine.hook(func(o routing.Draining) {
			if orders++; orders == len(up)+2 {
				kill()
			}
		})
		wait := 30 * time.Second
		n.drain(routing.DrainRequest{Wait: &wait})
		time.Sleep(time.Minute)
		if phase, step, _ := n.onDisk(); phase != routing.DrainBack || step != routing.DrainUpstream {
			t.Fatalf("on disk %s, %s", phase, step)
		}
		n.reboot()
		time.Sleep(time.Second)
		n.free()
		if st := n.engine.State().Drain; st == nil || !strings.Contains(st.Progress.Error, "pod0") {
			t.Errorf("why it failed is not shown: %+v", st)
		}
	})
}

// TestUnreadable: a record that makes no sense is put aside. Without a lease that
// says more the node stays drained, until somebody undrains it.
func TestUnreadable(t *testing.T) {
	for _, text := range []string{"", "{", `{"version": 2}`, `{"version": 1, "phase": "Draining", "step": 77}`, `{"version": 1, "phase": "Waiting"}`} {
		for _, kube := range []bool{false, true} {
			bubble(t, 2, kube, func(t *testing.T, w *world) {
				n := w.nodes[0]
				n.end()
				if err := os.WriteFile(filepath.Join(n.dir, "drain.json"), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				n.boot()
				n.start()
				time.Sleep(time.Second)
				if aside, err := os.ReadFile(filepath.Join(n.dir, "drain.json.unreadable")); err != nil || string(aside) != text {
					t.Errorf("put aside: %q, %v", aside, err)
				}
				if !strings.Contains(n.log.String(), "level=ERROR") {
					t.Errorf("log:\n%s", n.log)
				}
				want := routing.Draining{Step: routing.DrainPaths, Marker: true}
				if kube {
					want = routing.Draining{}
				}
				if got := n.engine.now(); got.Step != want.Step || got.Marker != want.Marker {
					t.Errorf("%q: ordered %+v", text, got)
				}
				if err := n.undrain("").wait(t, time.Minute); err != nil {
					t.Error(err)
				}
				n.free()
			})
		}
	}
}

// TestStateLost: what only the lease remembers is taken up: a drain is made again,
// an undrain ended.
func TestStateLost(t *testing.T) {
	for _, undraining := range []bool{false, true} {
		bubble(t, 2, true, func(t *testing.T, w *world) {
			n := w.nodes[0]
			if err := n.drain(routing.DrainRequest{Classes: []string{"world-pod"}, Reason: "cable"}).wait(t, limit); err != nil {
				t.Fatal(err)
			}
			if undraining {
				n.killAt(2, true)
				n.undrain("")
				time.Sleep(5 * time.Second)
				n.engine.hook(nil)
			}
			n.end()
			if err := os.Remove(filepath.Join(n.dir, "drain.json")); err != nil {
				t.Fatal(err)
			}
			n.boot()
			n.start()
			time.Sleep(time.Minute)
			if undraining {
				n.free()
				return
			}
			if st := n.engine.State().Drain; st == nil || st.Progress.Phase != routing.DrainDone || st.Request.Reason != "cable" || len(n.engine.now().Classes) != 1 {
				t.Errorf("left with %+v", st)
			}
			if err := n.undrain("").wait(t, limit); err != nil {
				t.Error(err)
			}
			n.free()
			time.Sleep(time.Minute)
			n.free()
		})
	}
}
