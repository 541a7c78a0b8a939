package drain_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

var (
	up   = []routing.DrainStep{routing.DrainClaim, routing.DrainShutdown, routing.DrainUpstream, routing.DrainMesh, routing.DrainDefault, routing.DrainPaths}
	down = []routing.DrainStep{routing.DrainMesh, routing.DrainUpstream, routing.DrainClaim, routing.DrainNone}
)

const limit = 10 * time.Minute

// onDisk is what the state directory says.
func (n *node) onDisk() (phase routing.DrainPhase, step routing.DrainStep, there bool) {
	n.w.t.Helper()
	data, err := os.ReadFile(filepath.Join(n.dir, "drain.json"))
	if errors.Is(err, os.ErrNotExist) {
		return "", 0, false
	}
	var r struct {
		Phase routing.DrainPhase
		Step  routing.DrainStep
	}
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		n.w.t.Fatal(err)
	}
	return r.Phase, r.Step, true
}

// free checks that nothing is left of a drain.
func (n *node) free() {
	n.w.t.Helper()
	if o := n.engine.now(); o.Step != routing.DrainNone || o.Marker {
		n.w.t.Errorf("%s is left with the order %+v", n.name, o)
	}
	if phase, step, there := n.onDisk(); there {
		n.w.t.Errorf("%s has %s, %s on disk", n.name, phase, step)
	}
	if l := n.w.lease; l != nil && n.holds(l) {
		n.w.t.Errorf("%s still holds the lease", n.name)
	}
}

// TestDrain: the steps in order, each on disk before it is ordered, with the grace
// time only for routers; and back.
func TestDrain(t *testing.T) {
	for _, kube := range []bool{false, true} {
		bubble(t, 3, kube, func(t *testing.T, w *world) {
			n := w.nodes[0]
			n.engine.hook(func(o routing.Draining) {
				if phase, step, _ := n.onDisk(); step != o.Step || phase == "" {
					t.Errorf("step %s is ordered, and on disk is %s", o.Step, step)
				}
				if o.Marker == kube && o.Step > routing.DrainNone || o.Phase != routing.DrainGoing {
					t.Errorf("step %s is ordered with the marker %v, as %s", o.Step, o.Marker, o.Phase)
				}
			})
			begin := time.Now()
			c := n.drain(routing.DrainRequest{Reason: "new cable"})
			if err := c.wait(t, limit); err != nil {
				t.Fatal(err)
			}
			took := time.Since(begin)
			if want := 15 * time.Second; took < want || took > want+8*time.Second {
				t.Errorf("it took %v", took)
			}
			if got := n.engine.steps(); !slices.Equal(got, up) {
				t.Errorf("steps %v", got)
			}
			last := c.last()
			if last.Progress.Phase != routing.DrainDone || !last.Progress.Final() || len(last.Progress.Rates) != 2 || len(last.Progress.Costs) != 4 ||
				!strings.Contains(last.Progress.Message, "quiet for 5s") {
				t.Errorf("the last report is %+v", last)
			}
			if got := n.engine.now().Phase; got != routing.DrainDone {
				t.Errorf("the last order is of one that is %s", got)
			}
			if phase, step, _ := n.onDisk(); phase != routing.DrainDone || step != routing.DrainPaths {
				t.Errorf("on disk %s, %s", phase, step)
			}
			n.engine.hook(func(o routing.Draining) {
				if o.Step > routing.DrainNone && o.Phase != routing.DrainUndoing {
					t.Errorf("step %s is ordered as %s", o.Step, o.Phase)
				}
				if phase, step, there := n.onDisk(); step != o.Step && (there || o.Step != routing.DrainNone) {
					t.Errorf("step %s is ordered, and on disk is %s, %s", o.Step, phase, step)
				}
			})
			if kube {
				if l := w.lease.seen(); !strings.HasPrefix(l.Holder, "uid-k8s-1/") || l.Status == nil || l.Status.Progress.Phase == "" {
					t.Errorf("lease %+v", l)
				}
			}
			c = n.undrain("")
			if err := c.wait(t, limit); err != nil {
				t.Fatal(err)
			}
			want := append(slices.Clone(up), down...)
			if got := n.engine.steps(); !slices.Equal(got, want) {
				t.Errorf("steps %v, want %v", got, want)
			}
			if p := c.last().Progress; p.Phase != routing.DrainEnded || !p.Final() {
				t.Errorf("the last report is %+v", p)
			}
			n.free()
			time.Sleep(2 * passTime)
			if n.engine.State().Drain != nil {
				t.Errorf("still shown: %+v", n.engine.State().Drain)
			}
			for _, said := range []string{"by=\"uid 0 (test)\"", "phase=Drained", "step=\"graceful shutdown\""} {
				if strings.Count(n.log.String(), said) == 0 {
					t.Errorf("the log lacks %s:\n%s", said, n.log)
				}
			}
		})
	}
}

// TestNoGrace: where routers are told nothing, there is nothing to wait for.
func TestNoGrace(t *testing.T) {
	bubble(t, 2, true, func(t *testing.T, w *world) {
		n := w.nodes[0]
		n.engine.alter(func(s *routing.State) { s.Plan.Announce = nil })
		begin := time.Now()
		if err := n.drain(routing.DrainRequest{}).wait(t, limit); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > 7*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestJoin: a second drain joins, a third finds it done, and each undrain likewise.
func TestJoin(t *testing.T) {
	bubble(t, 2, true, func(t *testing.T, w *world) {
		n := w.nodes[0]
		if err := n.undrain("").wait(t, time.Second); err != nil {
			t.Errorf("undrain of a node that is not drained: %v", err)
		}
		first := n.drain(routing.DrainRequest{})
		time.Sleep(2 * time.Second)
		second := n.drain(routing.DrainRequest{})
		less := n.drain(routing.DrainRequest{Classes: []string{"world-pod"}})
		for _, c := range []*call{first, second, less} {
			if err := c.wait(t, limit); err != nil || c.last().Progress.Phase != routing.DrainDone {
				t.Errorf("%v, %+v", err, c.last())
			}
		}
		if c := n.drain(routing.DrainRequest{}); c.wait(t, time.Second) != nil || c.last().Progress.Phase != routing.DrainDone {
			t.Errorf("a drain of a drained node: %v, %+v", c.err, c.last())
		}
		one, two := n.undrain(""), n.undrain("")
		if err := errors.Join(one.wait(t, limit), two.wait(t, limit)); err != nil {
			t.Error(err)
		}
		n.free()
		// Of some classes, and then of all.
		if err := n.drain(routing.DrainRequest{Classes: []string{"world-pod"}}).wait(t, limit); err != nil {
			t.Fatal(err)
		}
		// No force helps there.
		var refused *routing.Refused
		err := n.drain(routing.DrainRequest{}).wait(t, time.Second)
		if err == nil || errors.As(err, &refused) || !strings.Contains(err.Error(), "undrain it first") {
			t.Fatalf("a drain of more than is drained: %v", err)
		}
		// A question is answered as the drain would be.
		ask := &call{}
		if said := n.drainer.Drain(t.Context(), routing.DrainRequest{Force: true}, true, ask.report); said == nil || said.Error() != err.Error() || len(ask.reports) > 0 {
			t.Errorf("asked, it says %v, not %v", said, err)
		}
		if err := n.drainer.Drain(t.Context(), routing.DrainRequest{Classes: []string{"world-pod"}}, true, ask.report); err != nil ||
			!slices.Equal(ask.last().Progress.Costs, []string{"nothing: a drain of all that is done already"}) {
			t.Errorf("asked for what is drained: %v, %+v", err, ask.last())
		}
		n.engine.alter(func(s *routing.State) { s.Pending = []routing.Op{{Verb: routing.Add}} })
		back := n.undrain("")
		time.Sleep(time.Second)
		if err := n.drainer.Drain(t.Context(), routing.DrainRequest{}, true, ask.report); err == nil || !strings.Contains(err.Error(), "just being put back") {
			t.Errorf("asked while it is put back: %v", err)
		}
		n.engine.alter(nil)
		if err := back.wait(t, limit); err != nil {
			t.Error(err)
		}
		if err := n.drainer.Drain(t.Context(), routing.DrainRequest{}, true, ask.report); err != nil || len(ask.last().Progress.Costs) < 3 {
			t.Errorf("asked afterwards: %v, %+v", err, ask.last())
		}
	})
}

// TestGraceBeyondWait: a drain that could only be rolled back is not begun.
func TestGraceBeyondWait(t *testing.T) {
	bubble(t, 2, false, func(t *testing.T, w *world) {
		wait, grace := 5*time.Second, 10*time.Minute
		for _, req := range []routing.DrainRequest{{Wait: &wait}, {Grace: &grace}} {
			c := w.nodes[0].drain(req)
			var bad *routing.BadQuestion
			if err := c.wait(t, time.Second); !errors.As(err, &bad) || bad.Field != "wait" || len(c.reports) > 0 {
				t.Errorf("%v after %+v", err, c.reports)
			}
		}
	})
}

// TestUndrainMeanwhile: it ends the drain wherever that is.
func TestUndrainMeanwhile(t *testing.T) {
	for _, after := range []time.Duration{time.Millisecond, 5 * time.Second, 9 * time.Second, 17 * time.Second, 20 * time.Second} {
		bubble(t, 2, false, func(t *testing.T, w *world) {
			n := w.nodes[0]
			c := n.drain(routing.DrainRequest{})
			time.Sleep(after)
			if err := n.undrain("").wait(t, limit); err != nil {
				t.Errorf("after %v: %v", after, err)
			}
			if err := c.wait(t, time.Second); err == nil || !strings.Contains(err.Error(), "undrained by uid 0") {
				t.Errorf("after %v the drain ended with %v", after, err)
			}
			n.free()
		})
	}
}

// TestQuestions: what cannot be asked, and what is only asked.
func TestQuestions(t *testing.T) {
	bubble(t, 2, false, func(t *testing.T, w *world) {
		n := w.nodes[0]
		var bad *routing.BadQuestion
		if err := n.drain(routing.DrainRequest{Classes: []string{"node-node", "nothing"}}).wait(t, time.Second); !errors.As(err, &bad) || bad.Field != "classes" {
			t.Errorf("unknown classes: %v", err)
		}
		if err := n.drain(routing.DrainRequest{Node: "k8s-2"}).wait(t, time.Second); err == nil || !strings.Contains(err.Error(), "run it on k8s-2 itself") {
			t.Errorf("another node without Kubernetes: %v", err)
		}
		c := &call{}
		if err := n.drainer.Drain(t.Context(), routing.DrainRequest{Node: "k8s-2"}, true, c.report); err == nil || !strings.Contains(err.Error(), "run it on k8s-2 itself") {
			t.Errorf("validate another node: %v", err)
		}
		if err := n.drainer.Drain(t.Context(), routing.DrainRequest{}, true, c.report); err != nil || len(c.last().Progress.Costs) != 4 {
			t.Errorf("validate: %v, %+v", err, c.last())
		}
		if err := n.drainer.Drain(t.Context(), routing.DrainRequest{KeepEgress: true, Classes: []string{"world-pod"}}, true, c.report); err != nil || len(c.last().Progress.Costs) != 3 ||
			!strings.Contains(c.last().Progress.Costs[0], "stays on ingress0") {
			t.Errorf("validate: %v, %+v", err, c.last())
		}
		n.free()
		if len(n.engine.steps()) != 0 {
			t.Errorf("orders %v for a question", n.engine.steps())
		}
	})
}

// TestAskedAtStart: a request that comes before the first pass waits for it.
func TestAskedAtStart(t *testing.T) {
	bubble(t, 2, true, func(t *testing.T, w *world) {
		n := w.nodes[0]
		n.end()
		n.boot()
		n.engine.still = true
		n.start()
		c, u := n.drain(routing.DrainRequest{}), n.undrain("")
		time.Sleep(time.Second)
		n.engine.mu.Lock()
		n.engine.still = false
		n.engine.mu.Unlock()
		n.engine.look()
		if err := u.wait(t, limit); err != nil {
			t.Error(err)
		}
		if err := c.wait(t, limit); err != nil && !strings.Contains(err.Error(), "undrained by") {
			t.Error(err)
		}
	})
}
