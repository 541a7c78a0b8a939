package engine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

func TestPassConvergesAndRests(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		for _, node := range []string{"k8s-2", "k8s-3"} {
			for _, f := range routing.Families {
				r.wantPath(node, f, true, "converged")
			}
		}
		r.kernel.taken()
		r.speaker.taken()
		dumps, _ := r.kernel.count()
		passes := r.state().Pass.Passes

		// A second pass on the same input does nothing; one that nothing calls
		// for does not dump.
		r.engine.Look()
		r.wait(time.Second)
		if got := r.kernel.taken(); len(got) > 0 {
			t.Errorf("a second pass changed\n%s", textOf(opsOf(got)))
		}
		if got := r.speaker.taken(); len(got) > 0 {
			t.Errorf("a second pass gave %d orders", len(got))
		}
		if now, _ := r.kernel.count(); now != dumps {
			t.Errorf("a look dumped %d times", now-dumps)
		}
		if got := r.state().Pass.Passes - passes; got != 1 {
			t.Errorf("one look made %d passes", got)
		}
	})
}

func TestOneChangedNode(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		r.kernel.taken()
		nodes := seedNodes(t)
		nodes[1].InternalIPs[0] = routeAddr("10.46.0.22")
		r.setNodes(nodes...)
		r.engine.Look()
		r.wait(100 * time.Millisecond)
		want := "peers: replace route 10.244.2.0/24 via 10.46.0.22 dev node0 table 47 metric 2000\n"
		if got := textOf(opsOf(r.kernel.taken())); got != want {
			t.Errorf("ops:\n%swant:\n%s", got, want)
		}
	})
}

// TestStages: each stage is acknowledged before the next is sent, in one batch
// of its own.
func TestStages(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start(seedConfig(t))
		last := routing.StageWithdraw
		batches := r.kernel.taken()
		for _, b := range batches {
			for _, op := range b {
				if op.Stage != b[0].Stage {
					t.Fatalf("one batch spans %s and %s", b[0].Stage, op.Stage)
				}
			}
			if b[0].Stage <= last {
				t.Errorf("%s comes after %s", b[0].Stage, last)
			}
			last = b[0].Stage
		}
		if len(batches) < 5 {
			t.Errorf("only %d stages", len(batches))
		}
	})
}

func TestFailedStageStopsItsScope(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		refused := errors.New("no buffer space available")
		r.kernel.onApply = func(ops []routing.Op) []error {
			errs := make([]error, len(ops))
			for i, op := range ops {
				if op.Stage == routing.StageFence && op.Family() == routing.IPv4 {
					errs[i] = refused
				}
			}
			return errs
		}
		r.start(seedConfig(t))
		for _, op := range opsOf(r.kernel.taken()) {
			if op.Family() == routing.IPv4 && op.Table() == 47 && op.Stage > routing.StageFence {
				t.Errorf("after the failed fence: %s: %s", op.Stage, op)
			}
		}
		if !r.kernel.has(func(rt routing.Route) bool { return rt.Dst == routing.IPv6.Default() && rt.Table == 47 }) {
			t.Error("the failure stopped the other family")
		}
		if !r.kernel.has(func(rt routing.Route) bool { return rt.Metric == routing.MetricGuard && rt.Family() == routing.IPv4 }) {
			t.Error("no guard")
		}
		c := r.condition("kernel", "ChangeRefused")
		if c == nil || !strings.Contains(c.Message, "add route unreachable 10.") || !strings.Contains(c.Message, refused.Error()) {
			t.Fatalf("condition %+v", c)
		}
		if s := r.state(); s.Health != routing.Degraded || s.Pass.Synced || s.Pass.Error == "" || len(s.Pending) == 0 || s.Pass.Failed == 0 {
			t.Errorf("health %s, pass %+v, pending %d", s.Health, s.Pass, len(s.Pending))
		}

		// Tried again ever more seldom, each time on a fresh picture.
		dumps, _ := r.kernel.count()
		passes := r.state().Pass.Passes
		r.wait(60 * time.Second)
		now, _ := r.kernel.count()
		tried := int(r.state().Pass.Passes - passes)
		if tried < 6 || tried > 30 || now-dumps < 6 || now-dumps > 14 {
			t.Errorf("%d passes and %d dumps in a minute of failure", tried, now-dumps)
		}
		if later := r.condition("kernel", "ChangeRefused"); later == nil || !later.Since.Equal(c.Since) {
			t.Errorf("the condition is dated %v, then %v", c.Since, later)
		}
		if got := strings.Count(r.log.String(), "reason=ChangeRefused"); got != 1 {
			t.Errorf("the condition was logged %d times", got)
		}

		r.kernel.set(func(k *fakeKernel) { k.onApply = nil })
		r.establish("k8s-2", "k8s-3")
		r.wait(11 * time.Second)
		if s := r.state(); s.Health != routing.Ready || s.Pass.Error != "" || r.condition("kernel", "") != nil {
			t.Errorf("healed: health %s, error %q, conditions %v", s.Health, s.Pass.Error, s.Conditions)
		}
		if !strings.Contains(r.log.String(), "condition gone") {
			t.Error("the end of the condition was not logged")
		}
	})
}

func TestEventsDump(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		r.kernel.taken()
		dumps, _ := r.kernel.count()
		r.kernel.foreign(routing.Delete, routing.Route{
			Table: 47, Dst: routePrefix("10.96.0.0/16"), Metric: routing.MetricFence, Type: routing.Unreachable, Protocol: routing.ProtocolNetclass,
		})
		r.wait(100 * time.Millisecond)
		if got, want := textOf(opsOf(r.kernel.taken())), "fence: add route unreachable 10.96.0.0/16 table 47 metric 4000\n"; got != want {
			t.Errorf("ops %q, want %q", got, want)
		}
		if now, _ := r.kernel.count(); now != dumps+1 {
			t.Errorf("%d dumps for one event", now-dumps)
		}
	})
}

func TestFlood(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		for _, failing := range []bool{false, true} {
			r.kernel.set(func(k *fakeKernel) {
				if failing {
					k.dumpErr = errors.New("dump interrupted")
				}
			})
			dumps, _ := r.kernel.count()
			passes := r.state().Pass.Passes
			for i := range 10000 {
				r.kernel.notify(i > 5000)
				time.Sleep(100 * time.Microsecond)
			}
			r.wait(100 * time.Millisecond)
			now, _ := r.kernel.count()
			if now -= dumps; now > 25 {
				t.Errorf("failing %v: a second of events made %d dumps", failing, now)
			}
			if n := r.state().Pass.Passes - passes; n > 110 {
				t.Errorf("failing %v: a second of events made %d passes", failing, n)
			}
		}
	})
}

func TestFailedDump(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		r.kernel.taken()
		before := r.state()
		r.kernel.SetCarrier("ingress0", false)
		r.wait(100 * time.Millisecond)
		waiting := r.condition("class/world-pod", "")
		if waiting == nil {
			t.Fatal("no condition for the class of a link without carrier")
		}
		r.kernel.taken()
		r.kernel.set(func(k *fakeKernel) { k.dumpErr = errors.New("dump interrupted") })
		r.kernel.foreign(routing.Delete, r.kernel.ours()...)
		r.wait(5 * time.Second)
		if got := r.kernel.taken(); len(got) > 0 {
			t.Errorf("changed without a picture:\n%s", textOf(opsOf(got)))
		}
		s := r.state()
		if s.Health != routing.Degraded || s.Pass.Synced || !strings.Contains(s.Pass.Error, "dump interrupted") || r.condition("kernel", "DumpFailed") == nil {
			t.Errorf("health %s, pass %+v, conditions %v", s.Health, s.Pass, s.Conditions)
		}
		if len(s.Kernel.Routes) == 0 || len(s.Plan.Routes) == 0 || len(s.Peers) != len(before.Peers) || len(s.Inventory.Nodes) != 3 {
			t.Error("the last state is no longer shown")
		}
		if c := r.condition("class/world-pod", ""); c == nil || !c.Since.Equal(waiting.Since) {
			t.Errorf("the class's condition was %v, now %v", waiting, c)
		}
		r.kernel.set(func(k *fakeKernel) { k.dumpErr = nil })
		r.wait(11 * time.Second)
		if r.condition("kernel", "") != nil || !r.path("k8s-2", routing.IPv4) {
			t.Errorf("not healed: %v", r.state().Conditions)
		}
		if c := r.condition("class/world-pod", ""); c == nil || !c.Since.Equal(waiting.Since) {
			t.Errorf("the class's condition was %v, now %v", waiting, c)
		}
	})
}

// TestFailedDumpInHold: what runs out meanwhile does not make it try more often.
func TestFailedDumpInHold(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		r.down("k8s-2", v4, routing.CauseConnection)
		r.wait(time.Second)
		r.kernel.set(func(k *fakeKernel) { k.dumpErr = errors.New("dump interrupted") })
		r.engine.LookAndDump()
		r.wait(30 * time.Second)
		dumps, _ := r.kernel.count()
		r.wait(time.Minute)
		if now, _ := r.kernel.count(); now-dumps > 7 {
			t.Errorf("%d dumps in a minute", now-dumps)
		}
		r.kernel.set(func(k *fakeKernel) { k.dumpErr = nil })
		r.wait(11 * time.Second)
		r.wantPath("k8s-2", v4, false, "after the hold")
	})
}

// TestFailedGuardStopsThrows: a throw leaves packets to main, and there only
// the guard stands before the default.
func TestFailedGuardStopsThrows(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.kernel.DeleteLink("cilium_host") // own CIDRs become throws
		r.kernel.set(func(k *fakeKernel) {
			k.onApply = func(ops []routing.Op) []error {
				errs := make([]error, len(ops))
				for i, op := range ops {
					if op.Stage == routing.StageGuard && op.Family() == routing.IPv4 {
						errs[i] = errors.New("not now")
					}
				}
				return errs
			}
		})
		r.start(seedConfig(t))
		r.wait(time.Second)
		thrown := 0
		for _, op := range opsOf(r.kernel.taken()) {
			switch {
			case op.Throws() && op.Family() == routing.IPv4:
				t.Errorf("without its guard: %s", op)
			case op.Throws():
				thrown++
			}
		}
		if thrown == 0 {
			t.Error("the guarded family has no throw either")
		}
	})
}
