package drain_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

// dryRun asks a node what a drain would cost.
func (n *node) dryRun(req routing.DrainRequest) *call {
	c := &call{done: make(chan struct{})}
	req.By = "uid 0 (test)"
	d, ctx := n.drainer, n.w.t.Context()
	go func() { defer close(c.done); c.err = d.Drain(ctx, req, true, c.report) }()
	return c
}

// TestFarDryRun: what a drain of another node costs, and why it would be refused, that
// node says; nothing of it changes.
func TestFarDryRun(t *testing.T) {
	bubble(t, 3, true, func(t *testing.T, w *world) {
		a, b := w.nodes[0], w.nodes[1]
		c := a.dryRun(routing.DrainRequest{Node: b.name})
		if err := c.wait(t, 20*time.Second); err != nil || len(c.reports) != 1 || len(c.last().Progress.Costs) != 4 || c.last().Progress.Phase != "" || c.last().Request.Node != b.name {
			t.Errorf("%v, %+v", err, c.reports)
		}
		b.free()
		w.nodes[2].mustDrain(routing.DrainRequest{})
		c = a.dryRun(routing.DrainRequest{Node: b.name})
		var refused *routing.Refused
		if err := c.wait(t, 20*time.Second); !errors.As(err, &refused) || !strings.Contains(err.Error(), "k8s-3 is drained") || len(c.last().Progress.Costs) != 4 {
			t.Errorf("beside another: %v, %+v", err, c.last())
		}
		c = a.dryRun(routing.DrainRequest{Node: b.name, Classes: []string{"nothing"}})
		if err := c.wait(t, 20*time.Second); err == nil || !strings.Contains(err.Error(), "nothing") || len(c.reports) > 0 {
			t.Errorf("unknown class: %v, %+v", err, c.reports)
		}
		b.free()
		if err := w.nodes[2].undrain("").wait(t, limit); err != nil {
			t.Error(err)
		}
		b.end()
		c = a.dryRun(routing.DrainRequest{Node: b.name})
		if err := c.wait(t, 20*time.Second); err == nil || !strings.Contains(err.Error(), "does not answer") {
			t.Errorf("without a daemon: %v", err)
		}
	})
}

// TestCostsBeforeItBegins: who has another node drained is told what it costs before
// anything of that node has changed, once.
func TestCostsBeforeItBegins(t *testing.T) {
	bubble(t, 2, true, func(t *testing.T, w *world) {
		a, b := w.nodes[0], w.nodes[1]
		began := false
		b.engine.hook(func(order routing.Draining) { began = began || order.Step > routing.DrainNone })
		c := &call{done: make(chan struct{})}
		first := true
		go func() {
			defer close(c.done)
			c.err = a.drainer.Drain(t.Context(), routing.DrainRequest{Node: b.name}, false, func(st routing.DrainStatus) error {
				if first && (began || len(st.Progress.Costs) != 4) {
					t.Errorf("the first word, with the drain begun: %v, is %+v", began, st)
				}
				first = false
				return c.report(st)
			})
		}()
		if err := c.wait(t, limit); err != nil || c.last().Progress.Phase != routing.DrainDone {
			t.Errorf("%v, %+v", err, c.last())
		}
	})
}

// TestAnswersLeaveTheStatus: what a drained node answers to others does not have them
// take it for one that is not drained.
func TestAnswersLeaveTheStatus(t *testing.T) {
	bubble(t, 2, true, func(t *testing.T, w *world) {
		a, b := w.nodes[0], w.nodes[1]
		classes := []string{"pod-pod"}
		slow := a.drain(routing.DrainRequest{Node: b.name, Classes: classes})
		time.Sleep(5 * time.Second)
		if c := a.dryRun(routing.DrainRequest{Node: b.name, Classes: classes}); c.wait(t, 20*time.Second) != nil || !strings.Contains(c.last().Progress.Costs[0], "under way already") {
			t.Errorf("while it is under way: %v, %+v", c.err, c.last())
		}
		if err := slow.wait(t, limit); err != nil {
			t.Fatal(err)
		}
		stays := func(when string) {
			t.Helper()
			for range 30 {
				time.Sleep(time.Second)
				if st := w.lease.seen().Status; st == nil || st.Request.Node != b.name || st.Progress.Phase != routing.DrainDone || len(st.Request.Classes) != 1 {
					t.Fatalf("%s the lease says %+v", when, st)
				}
			}
			if st := w.lease.seen().Status; st.Progress.Error != "" || st.Request.DryRun {
				t.Errorf("%s the lease goes on saying %+v", when, st)
			}
		}
		if c := a.dryRun(routing.DrainRequest{Node: b.name, Classes: classes}); c.wait(t, 20*time.Second) != nil || !strings.Contains(c.last().Progress.Costs[0], "done already") {
			t.Errorf("once it is done: %v, %+v", c.err, c.last())
		}
		stays("after a dry run")
		for _, c := range []*call{a.dryRun(routing.DrainRequest{Node: b.name}), a.drain(routing.DrainRequest{Node: b.name})} {
			if err := c.wait(t, 20*time.Second); err == nil || !strings.Contains(err.Error(), "a drain of less of it is done already") || len(c.reports) > 0 {
				t.Errorf("of more: %v, %+v", err, c.reports)
			}
			stays("after a refusal")
		}
	})
}
