package drain_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

// TestFar: a drain and an undrain of another node, asked of a third; the reports are
// those of that node.
func TestFar(t *testing.T) {
	bubble(t, 3, true, func(t *testing.T, w *world) {
		a, b := w.nodes[0], w.nodes[1]
		c := a.drain(routing.DrainRequest{Node: "k8s-2", Reason: "fan", Classes: []string{"world-pod"}})
		if err := c.wait(t, limit); err != nil {
			t.Fatal(err)
		}
		last := c.last()
		if last.Progress.Phase != routing.DrainDone || last.Request.Node != "k8s-2" || last.Request.Reason != "fan" || last.Request.By != "uid 0 (test)" {
			t.Errorf("the last report is %+v", last)
		}
		phases := map[routing.DrainStep]bool{}
		rates := false
		c.mu.Lock()
		for _, r := range c.reports {
			phases[r.Progress.Step], rates = true, rates || len(r.Progress.Rates) > 0
		}
		c.mu.Unlock()
		if !phases[routing.DrainShutdown] || !phases[routing.DrainPaths] || !rates {
			t.Errorf("reported were the steps %v, with rates: %v", phases, rates)
		}
		if o := b.engine.now(); o.Step != routing.DrainPaths || len(o.Classes) != 1 {
			t.Errorf("k8s-2 is left with %+v", o)
		}
		if a.engine.now().Step != routing.DrainNone {
			t.Error("the node that was asked has been drained")
		}
		// Once more: it is done.
		if c := a.drain(routing.DrainRequest{Node: "k8s-2", Classes: []string{"world-pod"}}); c.wait(t, 20*time.Second) != nil || c.last().Progress.Phase != routing.DrainDone {
			t.Errorf("%v, %+v", c.err, c.last())
		}
		// Of another node: refused by that.
		var refused *routing.Refused
		third := a.drain(routing.DrainRequest{Node: "k8s-3"})
		if err := third.wait(t, 20*time.Second); !errors.As(err, &refused) || !strings.Contains(refused.Reasons[0], "k8s-2") || len(third.reports) > 0 {
			t.Errorf("a second node: %v after %+v", err, third.reports)
		}
		// The holder's status comes back after that answer.
		time.Sleep(time.Minute)
		if st := w.lease.seen().Status; st == nil || st.Request.Node != "k8s-2" || st.Progress.Phase != routing.DrainDone {
			t.Errorf("the lease says %+v", st)
		}
		if err := w.nodes[2].undrain("k8s-2").wait(t, limit); err != nil {
			t.Error(err)
		}
		b.free()
		if c := a.undrain("k8s-2"); c.wait(t, 20*time.Second) != nil || c.last().Progress.Phase != routing.DrainEnded {
			t.Errorf("%v, %+v", c.err, c.last())
		}
		var bad *routing.BadQuestion
		if err := a.drain(routing.DrainRequest{Node: "k8s-9"}).wait(t, time.Second); !errors.As(err, &bad) || bad.Field != "node" {
			t.Errorf("a node that is not there: %v", err)
		}
	})
}

// TestFarFails: a drain that fails there is told of here.
func TestFarFails(t *testing.T) {
	bubble(t, 2, true, func(t *testing.T, w *world) {
		w.nodes[1].traffic("ingress0", 9999)
		wait := 30 * time.Second
		err := w.nodes[0].drain(routing.DrainRequest{Node: "k8s-2", Wait: &wait}).wait(t, limit)
		if err == nil || !strings.Contains(err.Error(), "put back") || !strings.Contains(err.Error(), "ingress0") {
			t.Errorf("it ended with %v", err)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it is not known to have taken too long: %v", err)
		}
		w.nodes[1].free()
		err = w.nodes[0].drain(routing.DrainRequest{Node: "k8s-2", Classes: []string{"nothing"}}).wait(t, limit)
		if err == nil || !strings.Contains(err.Error(), "nothing") {
			t.Errorf("unknown class: %v", err)
		}
	})
}

// TestFarSilent: a node whose daemon does not answer; its request is taken back, so
// that it does not begin to drain when nobody expects it any more.
func TestFarSilent(t *testing.T) {
	bubble(t, 2, true, func(t *testing.T, w *world) {
		a, b := w.nodes[0], w.nodes[1]
		b.end()
		begin := time.Now()
		err := a.drain(routing.DrainRequest{Node: "k8s-2"}).wait(t, time.Minute)
		if took := time.Since(begin); err == nil || !strings.Contains(err.Error(), "does not answer") || took < 15*time.Second || took > 16*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		b.start()
		time.Sleep(30 * time.Second)
		b.free()
		// One that nobody says again is nobody's wish any more, whatever it is dated.
		b.end()
		w.lease.force(func(l *routing.DrainLease) {
			l.Request = &routing.DrainRequest{ID: "old", Node: "k8s-2", At: time.Now(), By: "uid 0"}
		})
		b.start()
		time.Sleep(30 * time.Second)
		b.free()
		if !strings.Contains(b.log.String(), "not taken up before it is said again") {
			t.Errorf("log:\n%s", b.log)
		}
		// It dies when it has begun.
		b.killAt(3, true)
		c := a.drain(routing.DrainRequest{Node: "k8s-2"})
		if err := c.wait(t, 2*time.Minute); err == nil || !strings.Contains(err.Error(), "goes on once") {
			t.Errorf("it ended with %v", err)
		}
		b.engine.hook(nil)
		b.end()
		// It goes on, and whoever asks again joins.
		c = a.drain(routing.DrainRequest{Node: "k8s-2"})
		time.Sleep(time.Second)
		b.boot()
		b.start()
		if err := c.wait(t, time.Minute); err != nil || c.last().Progress.Phase != routing.DrainDone {
			t.Errorf("%v, %+v", err, c.last())
		}
	})
}

// TestFarTwo: two requests at once do not overwrite each other.
func TestFarTwo(t *testing.T) {
	bubble(t, 4, true, func(t *testing.T, w *world) {
		a, b, c := w.nodes[0].drain(routing.DrainRequest{Node: "k8s-3"}), w.nodes[1].drain(routing.DrainRequest{Node: "k8s-4"}), w.nodes[1].drain(routing.DrainRequest{Node: "k8s-3"})
		won := 0
		for _, c := range []*call{a, b, c} {
			err := c.wait(t, limit)
			if refused := new(*routing.Refused); err != nil && !errors.As(err, refused) {
				t.Error(err)
			}
			if err == nil {
				won++
			}
		}
		if won == 0 || a.err == nil && b.err == nil {
			t.Errorf("%v, %v, %v", a.err, b.err, c.err)
		}
	})
}

// TestOneAfterAnother: as soon as one node is undrained the next may be drained,
// there and from afar: neither what has been answered nor who was drained stands in
// its way.
func TestOneAfterAnother(t *testing.T) {
	bubble(t, 3, true, func(t *testing.T, w *world) {
		a := w.nodes[0]
		for range 3 {
			for i, name := range []string{"k8s-1", "k8s-2", "k8s-3"} {
				if err := a.drain(routing.DrainRequest{Node: name, Classes: []string{"nothing"}}).wait(t, time.Minute); err == nil || !strings.Contains(err.Error(), "nothing") {
					t.Fatalf("%s, of a class that is not there: %v", name, err)
				}
				if err := w.nodes[i].drain(routing.DrainRequest{}).wait(t, limit); err != nil {
					t.Fatalf("%s by itself: %v", name, err)
				}
				if st := w.nodes[i].engine.State().Drain; st == nil || st.Progress.Phase != routing.DrainDone {
					t.Errorf("%s, which has said that it is drained, shows %+v", name, st)
				}
				if err := w.nodes[i].undrain("").wait(t, limit); err != nil {
					t.Fatal(err)
				}
				if st := w.nodes[i].engine.State().Drain; st != nil {
					t.Errorf("%s, which has said that it is undrained, shows %+v", name, st)
				}
				if err := a.drain(routing.DrainRequest{Node: name}).wait(t, limit); err != nil {
					t.Fatalf("%s from afar: %v", name, err)
				}
				if err := a.undrain(name).wait(t, limit); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
