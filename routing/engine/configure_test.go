package engine_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

func TestIdleConfiguration(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start(nil)
		r.engine.Configure(&routing.Config{}, routing.ConfigStatus{}, nil)
		r.wait(time.Minute)
		if s := r.state(); s.Health != routing.IdleState || len(s.Conditions) > 0 {
			t.Errorf("health %s, conditions %v", s.Health, s.Conditions)
		}
		if dumps, _ := r.kernel.count(); dumps > 0 || len(r.speaker.taken()) > 0 || len(r.kernel.taken()) > 0 {
			t.Errorf("%d dumps, or an order", dumps)
		}
	})
}

func TestEmptyAfterReal(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		kernel := r.kernel.text()
		r.kernel.taken()
		r.speaker.taken()
		r.engine.Configure(&routing.Config{}, routing.ConfigStatus{}, nil)
		r.wait(time.Second)
		if r.kernel.text() != kernel || len(r.kernel.taken()) > 0 {
			t.Error("an empty configuration changed the kernel")
		}
		if orders := r.speaker.taken(); len(orders) != 1 || orders[0] != nil {
			t.Errorf("orders %v, want the end of the speaker", orders)
		}
		if s := r.state(); s.Health != routing.IdleState || s.Pass.Error != "" {
			t.Errorf("health %s, error %q", s.Health, s.Pass.Error)
		}
		// The same configuration again takes up what is there.
		r.engine.Configure(seedConfig(t), routing.ConfigStatus{}, nil)
		r.wait(time.Second)
		if got := r.kernel.taken(); len(got) > 0 {
			t.Errorf("taking up changed\n%s", textOf(opsOf(got)))
		}
	})
}

// TestMoves changes everything that says what is ours: the new is in before the
// old goes, and nothing of the old stays.
func TestMoves(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		before := r.kernel.text()
		r.kernel.taken()
		r.engine.Configure(seedConfig(t,
			"id: 47", "id: 48",
			"ipv6: 1000, ipv4: 1001", "ipv6: 1100, ipv4: 1101",
			"apiVersion: netclass.dev/v1alpha1", "apiVersion: netclass.dev/v1alpha1\ndaemon: {protocol: 150}",
		), routing.ConfigStatus{}, nil)
		r.wait(200 * time.Millisecond)
		ops := opsOf(r.kernel.taken())
		added := map[routing.Family]bool{}
		for _, op := range ops {
			switch {
			case op.Verb == routing.Add && op.IsRule():
				added[op.Family()] = true
			case op.Verb == routing.Delete && !added[op.Family()]:
				t.Errorf("%s before the new rules are in", op)
			}
		}
		after := r.kernel.text()
		want := strings.NewReplacer("table 47", "table 48", "lookup 47", "lookup 48", "1000:", "1100:", "1001:", "1101:").Replace(before)
		if sortedLines(after) != sortedLines(want) {
			t.Errorf("after the move:\n%s\nwant:\n%s", sortedLines(after), sortedLines(want))
		}
		for _, rt := range r.kernel.ours() {
			if rt.Protocol != 150 {
				t.Errorf("protocol %d: %s", rt.Protocol, rt)
			}
		}
		if s := r.state(); len(s.Pending) > 0 || !s.Pass.Synced {
			t.Errorf("pending %v, synced %v", s.Pending, s.Pass.Synced)
		}
		r.engine.LookAndDump()
		r.wait(time.Second)
		if got := r.kernel.taken(); len(got) > 0 {
			t.Errorf("afterwards:\n%s", textOf(opsOf(got)))
		}

		r.engine.Reject("config.yaml:1:1: error: nonsense")
		r.wait(time.Second)
		if got := r.kernel.taken(); len(got) > 0 || r.condition("config", "Rejected") == nil || r.state().Config.Config.Tables[0].ID != 48 {
			t.Error("a rejected configuration did not leave the last good one in force")
		}
	})
}

// TestEmptyInTrouble: what an earlier configuration was busy with ends with it.
func TestEmptyInTrouble(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		r.down("k8s-2", v4, routing.CauseConnection)
		r.kernel.set(func(k *fakeKernel) {
			k.onApply = func(ops []routing.Op) []error {
				errs := make([]error, len(ops))
				errs[0] = errors.New("refused")
				return errs
			}
		})
		r.kernel.foreign(routing.Delete, r.kernel.ours()...)
		r.wait(time.Second)
		if s := r.state(); s.Pass.Error == "" || s.Health != routing.Degraded {
			t.Fatalf("health %s, error %q", s.Health, s.Pass.Error)
		}
		r.engine.Configure(&routing.Config{}, routing.ConfigStatus{}, nil)
		r.wait(time.Second)
		passes := r.state().Pass.Passes
		dumps, probes := r.kernel.count()
		r.wait(20 * time.Second)
		s := r.state()
		nowDumps, nowProbes := r.kernel.count()
		if s.Pass.Passes != passes || nowDumps != dumps || nowProbes != probes {
			t.Errorf("%d passes, %d dumps and %d probes without a configuration", s.Pass.Passes-passes, nowDumps-dumps, nowProbes-probes)
		}
		if s.Health != routing.IdleState || s.Pass.Error != "" || len(s.Conditions) > 0 {
			t.Errorf("health %s, error %q, conditions %v", s.Health, s.Pass.Error, s.Conditions)
		}
	})
}

// TestWaitingTableIsTold: what waits in a table alone keeps the whole from being
// called ready.
func TestWaitingTableIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		r.engine.Configure(seedConfig(t, "own: {link: cilium_host}", "own: {link: cilium_hots}"), routing.ConfigStatus{}, nil)
		r.wait(time.Second)
		c := r.condition("table/pods", "Waiting")
		if h := r.state().Health; h != routing.Waiting || c == nil || !strings.Contains(c.Message, "link cilium_hots does not exist") {
			t.Errorf("health %s, condition %v", h, c)
		}
	})
}

// TestRulesStayWhileTheGuardFails: a rule into a table that is to go keeps packets
// behind its fence while main has no guard; then it goes.
func TestRulesStayWhileTheGuardFails(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		led := func(id routing.TableID, f routing.Family) bool {
			return slices.ContainsFunc(r.kernel.Picture().Rules, func(rule routing.Rule) bool { return rule.Family == f && rule.Table == id })
		}
		r.kernel.set(func(k *fakeKernel) {
			k.onApply = func(ops []routing.Op) []error {
				errs := make([]error, len(ops))
				for i, op := range ops {
					if op.Route.Metric == routing.MetricGuard && op.Family() == v4 {
						errs[i] = errors.New("refused")
					}
				}
				return errs
			}
		})
		var guards []routing.Route
		for _, rt := range r.kernel.ours() {
			if rt.Metric == routing.MetricGuard {
				guards = append(guards, rt)
			}
		}
		r.kernel.foreign(routing.Delete, guards...)
		r.engine.Configure(seedConfig(t, "id: 47", "id: 48"), routing.ConfigStatus{}, nil)
		r.wait(time.Second)
		if !led(47, v4) || led(47, routing.IPv6) || !led(48, routing.IPv6) {
			t.Errorf("rules:\n%s", r.kernel.text())
		}
		if !r.kernel.has(func(rt routing.Route) bool {
			return rt.Table == 47 && rt.Family() == v4 && rt.Metric == routing.MetricFence
		}) {
			t.Errorf("the fence is gone that a rule still leads to:\n%s", r.kernel.text())
		}
		r.kernel.set(func(k *fakeKernel) { k.onApply = nil })
		r.wait(20 * time.Second)
		if led(47, v4) || !led(48, v4) {
			t.Errorf("afterwards:\n%s", r.kernel.text())
		}
	})
}
